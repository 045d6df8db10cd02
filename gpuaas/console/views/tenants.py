"""Who are the customers, and may they go on?"""

from __future__ import annotations

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.actions import tenant_actions, tenant_run
from gpuaas.console.acts import Act, ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from gpuaas.ui.quota import shares_of
from placement.models import Allocation
from placement.states import AllocationState
from tenants.models import QuotaCounter, SlaTier, Tenant
from tenants.selectors import project_list, tenant_list
from tenants.states import TenantState

SHOWN = 12
LISTED = 500


class Tenants(ConsolePage):
    """The list, those who wait first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """All, or those in one state, of one tier, or with a name."""
        state, tier = request.GET.get("state", ""), request.GET.get("tier", "")
        words = request.GET.get("name", "").strip()[:120]
        rows = tenant_list().select_related("cohort")
        if state in TenantState.values:
            rows = rows.filter(state=state)
        if tier:
            rows = rows.filter(tier__name=tier)
        if words:
            rows = rows.filter(Q(name__icontains=words) | Q(slug__icontains=words))
        standing = Allocation.objects.exclude(state=AllocationState.RELEASED)
        live = dict(standing.values_list("tenant_id").annotate(n=Count("pk")))
        listed = sorted(rows[:LISTED], key=lambda t: t.state != TenantState.PENDING)
        over = QuotaCounter.objects.filter(grandfathered_milli__gt=0)
        return self.page(
            "console/tenants.html",
            tenants=[(tenant, live.get(tenant.pk, 0)) for tenant in listed],
            over=set(over.values_list("tenant_id", flat=True)),
            most=LISTED,
            state=state,
            states=TenantState.values,
            tier=tier,
            tiers=list(SlaTier.objects.order_by("priority_band", "name")),
            words=words,
        )


def live_of(tenant: Tenant) -> int:
    """How many allocations of the tenant are not released."""
    rows = Allocation.objects.filter(tenant=tenant)
    return rows.exclude(state=AllocationState.RELEASED).count()


def acts_of(tenant: Tenant, live: int, forms: dict[str, ReasonForm] | None = None) -> list[Act]:
    """What can be done to it, each with its form; ``forms`` are those that were sent."""
    sent = forms or {}
    return [
        Act(
            offer,
            reverse("console:tenant-act", args=[tenant.slug, offer.name]),
            sent.get(offer.name) or ReasonForm(auto_id=f"{offer.name}-%s"),
        )
        for offer in tenant_actions(tenant.state, live)
    ]


class TenantBoard(OneTenant):
    """One tenant: state, quota, what it holds, what was decided about it."""

    def show(self, forms: dict[str, ReasonForm] | None = None, status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        tenant = self.subject
        rows = Allocation.objects.filter(tenant=tenant).exclude(state=AllocationState.RELEASED)
        live = list(rows.select_related("project", "sku", "node").order_by("-created_at"))
        return self.tenant_page(
            "console/tenant.html",
            status=status,
            acts=acts_of(tenant, len(live), forms),
            shares=shares_of(tenant.pk),
            projects=list(project_list(tenant.pk)),
            allocations=live[:SHOWN],
            live=len(live),
            events=list(Event.objects.filter(subject_id=tenant.pk).order_by("-id")[:SHOWN]),
        )


class TenantPage(TenantBoard):
    """The page itself: one tenant: state, quota, what it holds, what was decided about it."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show()


class ActOnTenant(TenantBoard):
    """Approve, reject, suspend or resume."""

    def post(self, request: HttpRequest, slug: str, action: str) -> HttpResponse:
        """Do it with the reason given, or say what is wrong beside it."""
        tenant, run = self.subject, tenant_run(action)
        if run is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id=f"{action}-%s")
        if not self.attempt(form, lambda given: run(tenant.pk, given["reason"], self.actor)):
            self.tell(form)
            return self.show({action: form}, 400)
        messages.success(request, f"{tenant.name}: {action} done.")
        return redirect("console:tenant", tenant.slug)
