"""Where does a person begin: what they have, what waits, what is next?"""

from __future__ import annotations

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_safe

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.quota import shares_of
from placement.models import Allocation
from placement.selectors.notices import notice_list
from placement.states import AllocationState
from tenants.models import User
from tenants.selectors import ssh_key_list, tenants_of

SHOWN = 8


@require_safe
def front_door(request: HttpRequest) -> HttpResponse:
    """Send a person to their tenant, an operator to the console."""
    if not isinstance(request.user, User):
        return redirect_to_login("/")
    tenant = tenants_of(request.user).first()
    if tenant is not None:
        return redirect("portal:home", tenant.slug)
    if request.user.is_staff:
        return redirect("console:home")
    return render(request, "portal/no_tenant.html", status=403)


@method_decorator(require_safe, name="dispatch")
class Home(TenantPage):
    """Quota, what runs, what waits or was refused."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        live = Allocation.objects.exclude(state=AllocationState.RELEASED)
        recent = AdmissionRequest.objects.filter(
            state__in=[RequestState.QUEUED, RequestState.DENIED]
        )
        allocations = list(live.select_related("project", "sku").order_by("-created_at")[:SHOWN])
        return self.page(
            "portal/home.html",
            shares=shares_of(self.tenant.pk),
            allocations=allocations,
            live_count=live.count() if len(allocations) == SHOWN else len(allocations),
            cost_hour=sum(a.price_hour_micro for a in allocations if a.state == "active"),
            requests=list(recent.select_related("sku", "project").order_by("-created_at")[:5]),
            has_key=ssh_key_list(self.tenant.pk).exists(),
            may_launch=self.may("allocations:write"),
            notices=list(notice_list(self.tenant.pk, unread=True)[:3])
            if self.may("allocations:read")
            else [],
            may_acknowledge=self.may("allocations:write"),
        )
