"""What does the tenant run, why is it so, and how is it changed?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from admission.domain.sharing import MODES
from admission.models import AdmissionRequest, Workload
from admission.states import WorkloadState
from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import names
from gpuaas.ui.amounts import Whole
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.models import Allocation
from placement.selectors import request_explain
from placement.services import workloads as service
from placement.services.allocations import Ticket
from placement.states import AllocationState
from tenants.selectors import dataset_list

PAGE = 50


class Workloads(TenantPage):
    """What the tenant wants to run."""

    read_action = "allocations:read"

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


class ScaleForm(forms.Form):
    """How many shall run."""

    title = "Scale"
    replicas = Whole(label="Replicas", min_value=1, max_value=service.MOST_REPLICAS)
    partial = forms.BooleanField(label="Take as many as there is room for", required=False)
    wait = forms.BooleanField(label="Wait in the queue if it must", required=False)


class BatchSizeForm(forms.Form):
    """How much a model takes at once."""

    title = "Change the batch size"
    batch_size = Whole(label="Batch size", min_value=1, max_value=service.MOST_BATCH)


class SharingForm(forms.Form):
    """How its GPUs may be shared."""

    title = "Change GPU sharing"
    mode = forms.ChoiceField(label="Its GPUs", choices=[(m, m) for m in MODES])


class PriorityForm(forms.Form):
    """How urgent it is."""

    title = "Change the priority"
    band = Whole(
        label="Band", min_value=0, max_value=32_767, help_text="0 goes first; your tier has a best."
    )


class PlacementForm(forms.Form):
    """Where it shall run."""

    title = "Move"
    zones = forms.CharField(
        label="Zones", required=False, max_length=500, help_text="Parted by commas; empty: any."
    )
    datasets = forms.MultipleChoiceField(
        label="Near these data sets", required=False, widget=forms.CheckboxSelectMultiple
    )
    wait = forms.BooleanField(label="Wait for room, holding nothing", required=False)


class StopForm(forms.Form):
    """The end of it."""

    title = "Stop"
    reason = forms.CharField(label="Why", required=False, max_length=500)


class OneWorkload(TenantPage):
    """A workload's page, with a form for each thing that can be changed."""

    read_action = "allocations:read"
    write_action = "allocations:write"
    verb = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Workloads", self.url("workloads")), Crumb("Workload"))

    def row(self, pk: UUID) -> Workload:
        """The workload. Raises NotFound."""
        row = Workload.objects.select_related("sku", "project").filter(pk=pk).first()
        if row is None:
            raise errors.NotFound
        return row

    def form(self, verb: str, row: Workload, data: QueryDict | None = None) -> forms.Form:
        """The form of a verb, filled with how it is now."""
        spec = row.spec
        now: dict[str, Any] = {
            "replicas": row.replicas,
            "batch_size": row.batch_size,
            "mode": spec.get("sharing", "none"),
            "band": row.band,
            "zones": ", ".join(spec.get("zones", [])),
            "datasets": spec.get("datasets", []),
        }
        form = FORMS[verb](data, initial=now, prefix=verb)
        if verb == "placement":
            known = dataset_list(self.tenant.pk).values_list("name", flat=True)
            field: Any = form.fields["datasets"]
            field.choices = [(name, name) for name in known]
            if not field.choices:
                del form.fields["datasets"]
        return form

    def forms_of(self, row: Workload) -> dict[str, forms.Form]:
        """The forms of what may be done with it now, by verb."""
        if not self.may(self.write_action):
            return {}
        if row.state == WorkloadState.ADMITTED:
            verbs = [verb for verb in FORMS if verb != "batch-size" or row.kind == "model"]
        elif row.state == WorkloadState.SUBMITTED:
            verbs = ["priority", "stop"]
        else:
            verbs = []
        return {verb: self.form(verb, row) for verb in verbs}

    def show(
        self, row: Workload, wrong: forms.Form | None = None, status: int = 200
    ) -> HttpResponse:
        """The page; ``wrong`` is the form that was refused."""
        held = Allocation.objects.filter(workload=row).exclude(state=AllocationState.RELEASED)
        asked = AdmissionRequest.objects.filter(workload=row).select_related("sku", "project")
        part = part_of(asked, self.request.GET.get("cursor", ""), PAGE)
        last = asked.order_by("-created_at", "-id").first()
        shown = self.forms_of(row)
        if wrong is not None:
            shown[self.verb] = wrong
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
            forms=shown,
            refused=self.verb if wrong is not None else "",
        )


class WorkloadPage(OneWorkload):
    """One workload: what it holds, how it was decided, what can be changed."""

    write_action = "allocations:write"

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        return self.show(self.row(pk))


class WorkloadAct(OneWorkload):
    """One change, decided by the same gates as the creation."""

    def post(self, request: HttpRequest, pk: UUID, verb: str) -> HttpResponse:
        """Decide and do it; a refusal leads to its decision."""
        if verb not in FORMS:
            raise errors.NotFound
        row, self.verb = self.row(pk), verb
        form = self.form(self.verb, row, request.POST)
        if not form.is_valid():
            return self.show(row, form, 400)
        try:
            ticket = self.act(row, form.cleaned_data)
        except errors.ProductError as refused:
            kept = self.kept(refused)
            if kept is not None:
                return redirect(kept)
            refuse(form, refused)
            return self.show(row, form, refused.status)
        if ticket is None:
            messages.success(request, f"{row.name} is being stopped.")
            return redirect(self.url("workload", row.pk))
        if ticket.request.state == "queued":
            messages.info(request, "It waits: the decision below says for what.")
        else:
            messages.success(request, "Admitted. The decision is below.")
        return redirect(self.url("workload", row.pk))

    def act(self, row: Workload, given: dict[str, Any]) -> Ticket | None:
        """The service behind the verb."""
        if self.verb == "placement":
            given = {
                "zones": names(given["zones"]),
                "datasets": tuple(given.get("datasets", ())),
                "wait": given["wait"],
            }
        if self.verb == "stop":
            service.workload_stop(workload_id=row.pk, actor=self.actor, **given)
            return None
        return SERVICES[self.verb](workload_id=row.pk, actor=self.actor, **given)


FORMS: dict[str, type[forms.Form]] = {
    "scale": ScaleForm,
    "batch-size": BatchSizeForm,
    "sharing": SharingForm,
    "priority": PriorityForm,
    "placement": PlacementForm,
    "stop": StopForm,
}
SERVICES: dict[str, Callable[..., Ticket]] = {
    "scale": service.workload_scale,
    "batch-size": service.workload_batch_size,
    "sharing": service.gpu_sharing,
    "priority": service.workload_priority,
    "placement": service.workload_placement,
}
