"""What does a suspension do, and how far is a tenant's end?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from admission.services.tenancies import tenant_delete
from gpuaas.console.acts import ReasonForm, SureForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.console.views.tenants import acts_of, live_of
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from placement.models import Allocation, Claim
from placement.states import LIVE, AllocationState
from tenants.models import QuotaCounter, Tenant
from tenants.services.tenancy import suspension_choose, tenant_suspend
from tenants.states import TENANT, TenantState

SHOWN = 100
WHAT_RUNS = [("keep", "what runs goes on"), ("release", "what runs is released")]


class SuspensionForm(ReasonForm):
    """What a suspension does to running work."""

    suspension = forms.ChoiceField(label="When it is suspended", choices=WHAT_RUNS)


def progress_of(tenant: Tenant) -> dict[str, Any]:
    """What stands between the tenant and its end: live claims, those it waits for first.

    Claims that the platform took over (a blocked cleanup) do not hold the tenant up.
    """
    every = Claim.objects.filter(allocation__tenant=tenant)
    claims = every.filter(state__in=LIVE)
    total = every.count()
    ended = total - claims.count()
    held = Allocation.objects.filter(tenant=tenant).exclude(state=AllocationState.RELEASED)
    counters = QuotaCounter.objects.filter(tenant=tenant, used_milli__gt=0)
    return {
        "own": claims.filter(holder="tenant").count(),
        "blocked": claims.exclude(holder="tenant").count(),
        "total": total,
        "ended": ended,
        "ended_w": ended * 1000 // max(total, 1),
        "allocations": list(
            held.select_related("project", "sku", "node").order_by("state", "created_at")[:SHOWN]
        ),
        "counters": list(counters.select_related("resource_class")),
    }


class EndBoard(OneTenant):
    """Suspension with its policy, and deletion by proof."""

    tab = "tenant-end"

    def show(self, sent: dict[str, forms.Form] | None = None, status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        tenant, found = self.subject, sent or {}
        ends = [e for e in ("begin_delete",) if tenant.state in TENANT.edges[e].sources]
        policy = {"suspension": tenant.suspension}
        history = Event.objects.filter(subject_id=tenant.pk)
        return self.tenant_page(
            "console/ending.html",
            status=status,
            live=live_of(tenant),
            progress=progress_of(tenant),
            may_suspend=tenant.state in TENANT.edges["suspend"].sources,
            may_delete=bool(ends),
            going=tenant.state in (TenantState.DELETING, TenantState.DELETED),
            resume=[act for act in acts_of(tenant, 0) if act.offer.name == "resume"],
            choose=found.get("choose") or SuspensionForm(initial=policy, auto_id="choose-%s"),
            suspend=found.get("suspend") or SuspensionForm(initial=policy, auto_id="suspend-%s"),
            delete=found.get("delete") or SureForm(name=tenant.slug, auto_id="delete-%s"),
            events=list(history.order_by("-id")[:20]),
        )


class End(EndBoard):
    """The page itself: suspension with its policy, and deletion by proof."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show()


class ActOnEnd(EndBoard):
    """Choose the policy, suspend with it, or begin the deletion."""

    def post(self, request: HttpRequest, slug: str, action: str) -> HttpResponse:
        """Do it, or say what is wrong beside the field."""
        tenant = self.subject
        form: forms.Form
        if action == "delete":
            form = SureForm(request.POST, name=tenant.slug, auto_id="delete-%s")
            done = self.attempt(
                form,
                lambda given: tenant_delete(
                    tenant_id=tenant.pk, reason=given["reason"], actor=self.actor
                ),
            )
            said = "Its deletion has begun: it ends with the last claim's proof."
        elif action in ("choose", "suspend"):
            form = SuspensionForm(request.POST, auto_id=f"{action}-%s")
            service = suspension_choose if action == "choose" else tenant_suspend
            done = self.attempt(
                form, lambda given: service(tenant_id=tenant.pk, actor=self.actor, **given)
            )
            said = "The policy is kept." if action == "choose" else "It is suspended."
        else:
            raise errors.NotFound
        if not done:
            self.tell(form)
            return self.show({action: form}, 400)
        messages.success(request, said)
        return redirect("console:tenant-end", slug)
