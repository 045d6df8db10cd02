"""What was decided, and what were hosts asked to do?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from admission.models import AdmissionRequest, Decision
from gpuaas.console.pages import ConsolePage, in_words
from gpuaas.kernel import errors
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.models import NodeTask
from placement.selectors import request_explain
from placement.states import TaskState

PAGE = 50
VERDICTS = ("admit", "wait", "deny")


class Tasks(ConsolePage):
    """Every node's tasks, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them."""
        state = request.GET.get("state", "")
        rows = NodeTask.objects.select_related("node", "allocation")
        if state in TaskState.values:
            rows = rows.filter(state=state)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "console/tasks.html",
            tasks=part.items,
            cursor=part.next,
            state=state,
            states=TaskState.values,
        )


class TaskPage(ConsolePage):
    """One task: its lease, its result or its failure, and what came too late."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Node tasks", reverse("console:tasks")), Crumb("Task"))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        task = NodeTask.objects.select_related("node", "allocation__tenant").filter(pk=pk).first()
        if task is None:
            raise errors.NotFound
        evidence = task.evidence if isinstance(task.evidence, list) else []
        return self.page(
            "console/task.html",
            task=task,
            evidence=evidence,
            late=list(task.observations.order_by("-created_at")[:20]),
        )


class Decisions(ConsolePage):
    """What was admitted, queued and refused, on which facts."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them, newest first."""
        verdict = request.GET.get("verdict", "")
        rows = Decision.objects.select_related("tenant", "request__sku")
        if verdict in VERDICTS:
            rows = rows.filter(verdict=verdict)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "console/decisions.html",
            decisions=part.items,
            cursor=part.next,
            verdict=verdict,
            verdicts=VERDICTS,
        )


class RequestPage(ConsolePage):
    """One request with its decision, gate by gate, and the places that were compared."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Decisions", reverse("console:decisions")), Crumb("Request"))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        row = (
            AdmissionRequest.objects.select_related("tenant", "project", "sku", "tier")
            .filter(pk=pk)
            .first()
        )
        if row is None:
            raise errors.NotFound
        return self.page(
            "console/request.html",
            row=row,
            decision=in_words(request_explain(row.pk, operator=True)),
        )
