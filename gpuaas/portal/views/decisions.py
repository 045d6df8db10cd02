"""What was decided about this tenant's actions, and what does it run?"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from admission.models import AdmissionRequest, Decision, Workload
from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.models import Allocation
from placement.states import AllocationState

PAGE = 50
VERDICTS = ("admit", "wait", "deny")


class Decisions(TenantPage):
    """Every decision with its reason, newest first."""

    read_action = "allocations:read"

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page, of one verdict or all."""
        verdict = request.GET.get("verdict", "")
        rows = Decision.objects.select_related("request__sku", "request__project")
        if verdict in VERDICTS:
            rows = rows.filter(verdict=verdict)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "portal/decisions.html",
            decisions=part.items,
            cursor=part.next,
            verdict=verdict,
            verdicts=VERDICTS,
        )


class Workloads(TenantPage):
    """What the tenant wants to run."""

    read_action = "allocations:read"

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page, newest first."""
        rows = Workload.objects.select_related("sku", "project")
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page("portal/workloads.html", workloads=part.items, cursor=part.next)


class WorkloadPage(TenantPage):
    """One workload: what it holds and what was asked for it."""

    read_action = "allocations:read"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Workloads", self.url("workloads")), Crumb("Workload"))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        row = Workload.objects.select_related("sku", "project").filter(pk=pk).first()
        if row is None:
            raise errors.NotFound
        held = Allocation.objects.filter(workload=row).exclude(state=AllocationState.RELEASED)
        asked = AdmissionRequest.objects.filter(workload=row).select_related("sku", "project")
        return self.page(
            "portal/workload.html",
            row=row,
            allocations=list(held.select_related("project", "sku").order_by("-created_at")),
            requests=list(asked.order_by("-created_at")[:PAGE]),
        )
