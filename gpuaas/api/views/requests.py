"""What did the tenant ask for, and how was it decided?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.models import CHANGES, AdmissionRequest
from admission.selectors import outcome_standing, requests_standing
from admission.services.wishes import change_withdraw
from gpuaas.api.base import TenantView
from gpuaas.api.pagination import is_id, page
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.serializers.common import DecisionOut, page_of
from gpuaas.kernel.errors import NotFound
from placement import selectors
from placement.services import allocations as service
from tenants.models import Project, SlaTier, Tenant


def requests_of(view: TenantView) -> QuerySet[AdmissionRequest]:
    """The requests that the caller may see."""
    rows = AdmissionRequest.objects.select_related(
        "sku", "project", "tenant", "tier", "resource_class"
    )
    return rows.filter(tenant_id=view.actor.tenant_id) if view.actor.tenant_id else rows


def request_of(view: TenantView, request_id: UUID) -> AdmissionRequest:
    """One request of the caller's. Raises NotFound."""
    row = requests_of(view).filter(pk=request_id).first()
    if row is None:
        raise NotFound
    return row


def _named(one: Project | Tenant | None) -> dict[str, Any] | None:
    """By id and name; a change of the tenant itself has no project, a lost sign-up no tenant."""
    return None if one is None else {"id": one.pk, "name": one.slug}


def _tier(tier: SlaTier | None) -> str:
    return "" if tier is None else tier.name


def request_shown(row: AdmissionRequest) -> dict[str, Any]:
    """The representation of a request."""
    body = {
        "id": row.pk,
        "name": str(row.spec.get("name") or ""),
        "action": row.action,
        "project": _named(row.project),
        "tenant": _named(row.tenant),
        "sku": row.sku.name if row.sku else "",
        "resource_class": row.resource_class.name if row.resource_class else "",
        "tier": _tier(row.tier),
        "slots": row.slots,
        "amount_milli": row.amount_milli,
        "wait": row.wait,
        "subject": row.subject_id,
        "workload": row.workload_id,
        "state": row.state,
        "outcome": outcome_standing(row.state, row.code),
        "reason": row.code,
        "detail": row.detail,
        "allocation": row.allocation_id,
        "operation": row.run_id,
        "created_at": row.created_at,
        "queued_at": row.queued_at,
        "version": row.version,
    }
    return dict(wire.AdmissionRequestOut(body).data)


FILTERS = {"state": "state__in", "action": "action", "workload": "workload"}


class AdmissionRequests(TenantView):
    """What was asked."""

    @extend_schema(
        operation_id="admission_request_list",
        tags=["requests"],
        parameters=[wire.RequestQuery],
        responses=page_of(wire.AdmissionRequestOut, "AdmissionRequest"),
    )
    def get(self, request: Request) -> Response:
        """Requests, newest first: admitted, waiting and refused alike."""
        query = wire.RequestQuery.read(request.query_params)
        rows = requests_of(self)
        for word, field in FILTERS.items():
            if query.get(word):
                rows = rows.filter(**{field: query[word]})
        if outcome := query.get("outcome"):
            rows = rows.filter(requests_standing(outcome))
        if project := query.get("project"):
            found = is_id(project)
            rows = rows.filter(project_id=found) if found else rows.filter(project__slug=project)
        return Response(
            page(
                rows,
                query=query,
                name="requests",
                render=lambda rows: [request_shown(row) for row in rows],
            )
        )


class AdmissionRequestDetail(TenantView):
    """One request."""

    @extend_schema(
        operation_id="admission_request_get", tags=["requests"], responses=wire.AdmissionRequestOut
    )
    def get(self, request: Request, request_id: UUID) -> Response:
        """A request, and what became of it."""
        row = request_of(self, request_id)
        return self.tagged(request, request_shown(row), version=row.version)


class AdmissionRequestExplain(TenantView):
    """Why it was decided so."""

    @extend_schema(
        operation_id="admission_request_explain", tags=["requests"], responses=DecisionOut
    )
    def get(self, request: Request, request_id: UUID) -> Response:
        """The last decision: gates in order, the numbers, and what would help."""
        row = request_of(self, request_id)
        return Response(
            DecisionOut(selectors.request_explain(row.pk, operator=self.actor.operator)).data
        )


class AdmissionRequestWithdraw(TenantView):
    """Out of the queue."""

    @extend_schema(
        operation_id="admission_request_withdraw",
        tags=["requests"],
        request=wire.ReleaseIn,
        responses=wire.AdmissionRequestOut,
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Take a waiting request out of the queue."""
        given = wire.ReleaseIn.read(request.data)
        row = request_of(self, request_id)
        if row.action in CHANGES:
            change_withdraw(request_id=row.pk, actor=self.actor, reason=given["reason"])
        else:
            service.request_withdraw(request_id=row.pk, actor=self.actor)
        return Response(request_shown(request_of(self, request_id)))
