"""What does the tenant run, why is it so, and how is it changed?"""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from admission.models import AdmissionRequest, Workload
from admission.states import WorkloadState
from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.workload_ways import ways_of
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.models import Allocation
from placement.selectors import request_explain
from placement.services import workloads as service
from placement.states import AllocationState

PAGE = 50


class Workloads(TenantPage):
    """What the tenant wants to run."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page, newest first, of one state and one kind or all."""
        state, kind = request.GET.get("state", ""), request.GET.get("kind", "")
        rows = Workload.objects.select_related("sku", "project")
        if state in WorkloadState.values:
            rows = rows.filter(state=state)
        if kind in service.KINDS:
            rows = rows.filter(kind=kind)
        if self.project:
            rows = rows.filter(project=self.project)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "portal/workloads.html",
            workloads=part.items,
            cursor=part.next,
            state=state,
            states=WorkloadState.values,
            kind=kind,
            kinds=list(service.KINDS),
            filtered=bool(state or kind or self.project),
            project=self.project,
            may_write=self.may("allocations:write"),
        )


class StopForm(forms.Form):
    """The end of it."""

    reason = forms.CharField(label="Why", required=False, max_length=500)


class OneWorkload(TenantPage):
    """A page about one workload."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Workloads", self.url("workloads")), Crumb("Workload"))

    def row(self, pk: UUID) -> Workload:
        """The workload. Raises NotFound."""
        row = Workload.objects.select_related("sku", "project").filter(pk=pk).first()
        if row is None:
            raise errors.NotFound
        return row

    def show(self, row: Workload, stop: StopForm | None = None, status: int = 200) -> HttpResponse:
        """The page; ``stop`` is the form that was refused."""
        held = Allocation.objects.filter(workload=row).exclude(state=AllocationState.RELEASED)
        asked = AdmissionRequest.objects.filter(workload=row).select_related("sku", "project")
        part = part_of(asked, self.request.GET.get("cursor", ""), PAGE)
        last = asked.order_by("-created_at", "-id").first()
        may = self.may(self.write_action)
        stops = row.state in (WorkloadState.SUBMITTED, WorkloadState.ADMITTED)
        return self.page(
            "portal/workload.html",
            status=status,
            row=row,
            allocations=list(held.select_related("project", "sku").order_by("-created_at")[:PAGE]),
            cost_hour=sum(held.values_list("price_hour_micro", flat=True)),
            requests=part.items,
            cursor=part.next,
            last=last,
            decision=request_explain(last.pk) if last else None,
            ways=[(way, self.url("workload-act", row.pk, way.verb)) for way in ways_of(row)],
            stop=(stop or StopForm()) if may and stops else None,
            refused=stop is not None,
        )


class WorkloadPage(OneWorkload):
    """One workload: what it holds, how it was decided, what can be changed."""

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        return self.show(self.row(pk))


class StopWorkload(OneWorkload):
    """The end of a workload."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Stop it: what waits is withdrawn, what it holds is released."""
        row, form = self.row(pk), StopForm(request.POST)
        if not form.is_valid():
            return self.show(row, form, 400)
        try:
            service.workload_stop(workload_id=row.pk, actor=self.actor, **form.cleaned_data)
        except errors.ProductError as refused:
            refuse(form, refused)
            return self.show(row, form, refused.status)
        messages.success(request, f"{row.name} is being stopped.")
        return redirect(self.url("workload", row.pk))
