"""What waits for an operator's word: tenants, wishes for quota, and overrides of a cleanup?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.actions import tenant_actions
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.amounts import Units
from gpuaas.ui.frame import Crumb
from placement.models import Allocation
from placement.selectors import deliverable_milli
from placement.states import AllocationState
from tenants.models import QuotaIncrease, Tenant
from tenants.selectors import increase_list
from tenants.services.increases import (
    IncreaseView,
    increase_approve,
    increase_refuse,
    increase_view,
)
from tenants.states import IncreaseState, TenantState

SHOWN = 100


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish with the numbers it is decided by."""

    row: QuotaIncrease
    view: IncreaseView


class Approvals(ConsolePage):
    """The inbox."""

    write_action = "tenants:write"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Approvals"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Everything that waits, the oldest first."""
        wishes = list(increase_list(state=IncreaseState.ASKED)[:SHOWN])
        room = {
            kind: deliverable_milli(kind) for kind in {wish.resource_class_id for wish in wishes}
        }
        pending = Tenant.objects.filter(state=TenantState.PENDING).order_by("created_at")
        blocked = Allocation.objects.filter(state=AllocationState.CLEANUP_BLOCKED)
        return self.page(
            "console/approvals.html",
            pending=list(pending[:SHOWN]),
            actions=tenant_actions(TenantState.PENDING, 0),
            wishes=[
                Wish(row, increase_view(row, deliverable_milli=room[row.resource_class_id]))
                for row in wishes
            ],
            blocked=list(blocked.select_related("tenant", "node").order_by("state_since")[:SHOWN]),
        )


class DecideWish(ConsolePage):
    """Grant a wish, or refuse it."""

    write_action = "tenants:write"

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it with the reason given, which the tenant reads."""
        reason = request.POST.get("reason", "").strip()[:500]
        if not reason:
            raise errors.InvalidRequest(
                "This needs a reason.",
                errors=(errors.FieldError("/reason", "required", "say why"),),
            )
        if action == "approve":
            granted = self.granted(request.POST.get("granted", ""))
            increase_approve(
                increase_id=pk, reason=reason, nominal_granted_milli=granted, actor=self.actor
            )
            messages.success(request, "Granted; the envelope is set.")
        elif action == "refuse":
            increase_refuse(increase_id=pk, reason=reason, actor=self.actor)
            messages.success(request, "Refused; the tenant reads the reason.")
        else:
            raise errors.NotFound
        return redirect("console:approvals")

    def granted(self, text: str) -> int | None:
        """The amount typed, in milli-units; empty is what was asked. Raises InvalidRequest."""
        field = Units(least=1, required=False)
        try:
            amount: int | None = field.clean(text)
        except ValidationError as wrong:
            raise errors.InvalidRequest(
                "The amount is refused.",
                errors=(errors.FieldError("/granted", "out_of_range", "units above 0"),),
            ) from wrong
        return amount
