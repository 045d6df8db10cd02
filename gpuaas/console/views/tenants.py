"""Who are the customers, what may they hold, and may they go on?"""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.actions import tenant_actions, tenant_run
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from gpuaas.ui.quota import bars_of
from placement.models import Allocation
from placement.states import AllocationState
from tenants.models import ResourceClass, Tenant
from tenants.selectors import counter_list, member_list, project_list, tenant_list
from tenants.services.tenancy import envelope_set
from tenants.states import TenantState

SHOWN = 12


class EnvelopeForm(forms.Form):
    """What a tenant may hold of a class."""

    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    units = forms.IntegerField(label="Units it may hold", min_value=0, max_value=1_000_000)
    reason = forms.CharField(label="Reason", max_length=500)


class Tenants(ConsolePage):
    """The list, those who wait first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """All, or those in one state."""
        state = request.GET.get("state", "")
        live = Count("allocations", filter=~Q(allocations__state=AllocationState.RELEASED))
        rows = tenant_list().annotate(live=live)
        if state in TenantState.values:
            rows = rows.filter(state=state)
        listed = sorted(rows[:500], key=lambda t: t.state != TenantState.PENDING)
        return self.page(
            "console/tenants.html", tenants=listed, state=state, states=TenantState.values
        )


class OneTenant(ConsolePage):
    """What pages about one tenant share."""

    write_action = "tenants:write"
    name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Tenants", reverse("console:tenants")), Crumb(self.name))

    def row(self, slug: str) -> Tenant:
        """The tenant. Raises NotFound."""
        found = Tenant.objects.select_related("tier").filter(slug=slug).first()
        if found is None:
            raise errors.NotFound
        self.name = found.name
        return found

    def show(self, tenant: Tenant, form: EnvelopeForm, status: int = 200) -> HttpResponse:
        """The tenant's page with this form."""
        rows = Allocation.objects.filter(tenant=tenant).exclude(state=AllocationState.RELEASED)
        live = list(rows.select_related("project", "sku", "node").order_by("-created_at"))
        return self.page(
            "console/tenant.html",
            status=status,
            subject=tenant,
            actions=tenant_actions(tenant.state, len(live)),
            form=form,
            bars=bars_of(counter_list(tenant.pk)),
            members=list(member_list(tenant.pk)),
            projects=list(project_list(tenant.pk)),
            allocations=live[:SHOWN],
            live=len(live),
            events=list(Event.objects.filter(subject_id=tenant.pk).order_by("-id")[:SHOWN]),
        )


class TenantPage(OneTenant):
    """One tenant: state, envelopes, people, what it holds, what was decided about it."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show(self.row(slug), EnvelopeForm())


class SetEnvelope(OneTenant):
    """Set what the tenant may hold."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Set it, or say what is wrong with it."""
        tenant = self.row(slug)
        form = EnvelopeForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            try:
                envelope_set(
                    tenant_id=tenant.pk,
                    resource_class=given["resource_class"].name,
                    nominal_milli=given["units"] * 1000,
                    reason=given["reason"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(
                    request,
                    f"{tenant.name} may hold {given['units']} of {given['resource_class'].title}.",
                )
                return redirect("console:tenant", tenant.slug)
        return self.show(tenant, form, 400)


class ActOnTenant(OneTenant):
    """Approve, reject, suspend or resume."""

    def post(self, request: HttpRequest, slug: str, action: str) -> HttpResponse:
        """Do it with the reason given."""
        tenant = self.row(slug)
        run = tenant_run(action)
        if run is None:
            raise errors.NotFound
        reason = request.POST.get("reason", "").strip()[:500]
        if not reason:
            raise errors.InvalidRequest(
                "This action needs a reason.",
                errors=(errors.FieldError("/reason", "required", "say why"),),
            )
        run(tenant.pk, reason, self.actor)
        messages.success(request, f"{tenant.name}: {action} done.")
        return redirect("console:tenant", tenant.slug)
