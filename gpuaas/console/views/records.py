"""What were hosts asked to do, and how did it end?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.models import NodeTask
from placement.states import TaskState

PAGE = 50


class Tasks(ConsolePage):
    """Every node's tasks, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them."""
        state = request.GET.get("state", "")
        rows = NodeTask.objects.select_related("node", "allocation")
        if state in TaskState.values:
            rows = rows.filter(state=state)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE, by_id=True)
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
