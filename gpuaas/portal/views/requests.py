"""What waits or was refused, why, and what would help?"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from admission.models import CHANGES, AdmissionRequest
from admission.services.wishes import change_withdraw
from admission.states import RequestState
from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.selectors import request_explain
from placement.services.allocations import request_withdraw

PAGE = 50


class Requests(TenantPage):
    """The queue and the refusals."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page, newest first; what waits unless another state is asked for."""
        state = request.GET.get("state", "")
        if state and state not in RequestState.values:
            raise errors.InvalidRequest(
                f"There is no state {state[:40]!r}.",
                errors=(errors.FieldError("/state", "unknown", ", ".join(RequestState.values)),),
            )
        rows = AdmissionRequest.objects.select_related("sku", "project")
        if state:
            rows = rows.filter(state=state)
        if self.project:
            rows = rows.filter(project=self.project)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        chips = [("", "all")]
        chips += [(s.value, s.value) for s in RequestState if s != RequestState.RECEIVED]
        return self.page(
            "portal/requests.html",
            requests=part.items,
            cursor=part.next,
            chips=chips,
            state=state,
            project=self.project,
        )


class OneRequest(TenantPage):
    """What pages about one request share."""

    def row(self, pk: UUID) -> AdmissionRequest:
        """The tenant's own request. Raises NotFound."""
        found = (
            AdmissionRequest.objects.select_related("sku", "project", "tier", "resource_class")
            .filter(pk=pk)
            .first()
        )
        if found is None:
            raise errors.NotFound
        return found


class RequestPage(OneRequest):
    """One request: its state, the decision in order, what would unblock it."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Requests", self.url("requests")), Crumb("Request"))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page; an admitted request leads on to its allocation."""
        row = self.row(pk)
        sku = row.sku.name if row.sku else ""
        offer = next((o for o in self.offers if o.sku == sku), None)
        return self.page(
            "portal/request.html",
            row=row,
            decision=request_explain(row.pk),
            ahead=_ahead(row),
            offer=offer,
            fewer=offer.largest_fit if offer and 0 < offer.largest_fit < row.slots else 0,
            keys=row.spec.get("ssh_keys") or (),
            may_write=self.may("allocations:write"),
        )


def _ahead(row: AdmissionRequest) -> int | None:
    """How many of the tenant's own requests are before this one; None when it does not wait."""
    if row.state != RequestState.QUEUED or row.queued_at is None:
        return None
    return AdmissionRequest.objects.filter(
        state=RequestState.QUEUED, pool=row.pool, band__lte=row.band, queued_at__lt=row.queued_at
    ).count()


class Withdraw(OneRequest):
    """Take a waiting request back."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Do it; repeating it changes nothing."""
        row = self.row(pk)
        take_back = change_withdraw if row.action in CHANGES else request_withdraw
        take_back(request_id=row.pk, actor=self.actor)
        messages.success(request, "The request has been withdrawn.")
        return redirect(self.url("request", row.pk))
