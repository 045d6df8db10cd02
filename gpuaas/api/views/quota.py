"""How much may a tenant hold, and how does it ask for more?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from admission.services import wishes
from admission.services.changes import requests_about
from gpuaas.api import examples
from gpuaas.api.base import OperatorView, ProductView, TenantView
from gpuaas.api.fields import Query, Short
from gpuaas.api.pagination import page, part
from gpuaas.api.serializers import allocations as lease_wire
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.api.views.projects import project_named
from gpuaas.kernel.errors import NotFound
from placement.selectors import deliverable_milli
from tenants import selectors, snapshots
from tenants.models import ProjectQuota, QuotaIncrease, TenantCaps
from tenants.services import envelopes, increases
from tenants.services.caps import caps_view


class QuotaQuery(Short):
    """Of the whole tenant, or as one project sees it."""

    project = serializers.CharField(
        required=False, max_length=64, help_text="As this project sees it: its slug or id."
    )


def quota_shown(
    query: Mapping[str, Any], tenant_id: UUID, project_id: UUID | None = None
) -> dict[str, Any]:
    """The tenant's classes with what is held, borrowed and lent."""
    states = snapshots.quota_states(tenant_id, project_id)
    items = [asdict(state) for state in states]
    return dict(wire.QuotaList(part(items, query=query, name=f"quota {tenant_id}")).data)


class Quota(TenantView):
    """What is the tenant's now."""

    also_fails = (404,)

    @extend_schema(
        operation_id="quota_get", tags=["quota"], parameters=[QuotaQuery], responses=wire.QuotaList
    )
    def get(self, request: Request) -> Response:
        """Every class: nominal, used, borrowed, lent, and what could still be taken."""
        query = QuotaQuery.read(request.query_params)
        project = query.get("project")
        project_id = project_named(self, project).pk if project else None
        return Response(quota_shown(query, self.tenant_id, project_id))


class ProjectQuotaSet(TenantView):
    """A project's own limit inside the tenant's."""

    @extend_schema(
        operation_id="project_quota_set",
        tags=["quota"],
        request=wire.ProjectQuotaIn,
        responses=wire.ProjectQuotaOut,
    )
    def put(self, request: Request, project: str, resource_class: str) -> Response:
        """Limit a project. Below what it holds is refused unless the excess is grandfathered."""
        given = wire.ProjectQuotaIn.read(request.data)
        row = envelopes.project_quota_set(
            project_id=project_named(self, project).pk,
            resource_class=resource_class,
            actor=self.actor,
            **given,
        )
        fresh = ProjectQuota.objects.select_related("resource_class").get(pk=row.pk)
        return Response(wire.ProjectQuotaOut(fresh).data)


def increase_shown(row: QuotaIncrease, *, operator: bool) -> dict[str, Any]:
    """A wish; for operators beside what is promised and what can be delivered."""
    body: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            "state",
            "nominal_before_milli",
            "nominal_asked_milli",
            "nominal_granted_milli",
            "justification",
            "asked_by",
            "decided_at",
            "decision_reason",
            "created_at",
            "version",
        )
    }
    body |= {
        "id": row.pk,
        "tenant": {"id": row.tenant_id, "name": row.tenant.slug},
        "resource_class": row.resource_class.name,
        "request": requests_about(row.pk).values_list("pk", flat=True).first(),
    }
    if operator:
        view = increases.increase_view(
            row, deliverable_milli=deliverable_milli(row.resource_class_id)
        )
        body |= asdict(view) | {"overcommitted": view.overcommitted}
    return dict(wire.IncreaseOut(body).data)


def increases_of(view: ProductView) -> QuerySet[QuotaIncrease]:
    """The wishes that the caller may see."""
    return selectors.increase_list(view.actor.tenant_id)


def increase_of(view: ProductView, increase_id: UUID) -> QuotaIncrease:
    """One of them. Raises NotFound."""
    row = increases_of(view).filter(pk=increase_id).first()
    if row is None:
        raise NotFound
    return row


class QuotaIncreases(TenantView):
    """Wishes for more."""

    @extend_schema(
        operation_id="quota_increase_list",
        tags=["quota"],
        parameters=[wire.IncreaseQuery],
        responses=page_of(wire.IncreaseOut, "QuotaIncrease"),
    )
    def get(self, request: Request) -> Response:
        """Wishes, newest first. Operators without a tenant see everybody's, with the numbers."""
        query = wire.IncreaseQuery.read(request.query_params)
        rows = increases_of(self)
        if state := query.get("state"):
            rows = rows.filter(state=state)
        operator = self.actor.tenant_id is None
        return Response(
            page(
                rows,
                query=query,
                name="quota increases",
                render=lambda found: [increase_shown(row, operator=operator) for row in found],
            )
        )

    @extend_schema(
        operation_id="quota_increase_ask",
        tags=["quota"],
        request=wire.IncreaseIn,
        responses={201: wire.IncreaseOut},
        examples=examples.QUOTA_INCREASE,
    )
    def post(self, request: Request) -> Response:
        """Ask for a larger envelope. One wish a class is open at a time."""
        given = wire.IncreaseIn.read(request.data)
        row = wishes.increase_ask(tenant_id=self.tenant_id, actor=self.actor, **given)
        return Response(increase_shown(increase_of(self, row.pk), operator=False), status=201)


class QuotaIncreaseDetail(TenantView):
    """One wish."""

    @extend_schema(operation_id="quota_increase_get", tags=["quota"], responses=wire.IncreaseOut)
    def get(self, request: Request, increase_id: UUID) -> Response:
        """A wish, and what became of it."""
        row = increase_of(self, increase_id)
        body = increase_shown(row, operator=self.actor.tenant_id is None)
        return self.tagged(request, body, version=row.version)


class QuotaIncreaseWithdraw(TenantView):
    """No longer asked."""

    @extend_schema(
        operation_id="quota_increase_withdraw",
        tags=["quota"],
        request=lease_wire.ReleaseIn,
        responses=wire.IncreaseOut,
    )
    def post(self, request: Request, increase_id: UUID) -> Response:
        """Take an open wish back."""
        given = lease_wire.ReleaseIn.read(request.data)
        wishes.increase_withdraw(
            increase_id=increase_of(self, increase_id).pk,
            reason=given["reason"],
            actor=self.actor,
        )
        return Response(increase_shown(increase_of(self, increase_id), operator=False))


class QuotaIncreaseApprove(OperatorView):
    """Granted."""

    @extend_schema(
        operation_id="quota_increase_approve",
        tags=["quota"],
        request=wire.IncreaseGrant,
        responses=wire.IncreaseOut,
    )
    def post(self, request: Request, increase_id: UUID) -> Response:
        """Grant what was asked, or another amount; the envelope is set with it."""
        given = wire.IncreaseGrant.read(request.data)
        wishes.increase_approve(increase_id=increase_id, actor=self.actor, **given)
        row = selectors.increase_list().get(pk=increase_id)
        return Response(increase_shown(row, operator=True))


class QuotaIncreaseRefuse(OperatorView):
    """Refused."""

    @extend_schema(
        operation_id="quota_increase_refuse",
        tags=["quota"],
        request=Reasoned,
        responses=wire.IncreaseOut,
    )
    def post(self, request: Request, increase_id: UUID) -> Response:
        """Refuse it; the tenant reads the reason."""
        given = Reasoned.read(request.data)
        wishes.increase_refuse(increase_id=increase_id, actor=self.actor, **given)
        row = selectors.increase_list().get(pk=increase_id)
        return Response(increase_shown(row, operator=True))


def caps_shown(tenant_id: UUID) -> dict[str, Any]:
    """A tenant's caps; version 0 when none were ever set."""
    row = TenantCaps.objects.filter(tenant_id=tenant_id).first()
    body = asdict(caps_view(row)) | {"version": row.version if row else 0}
    return dict(wire.CapsOut(body).data)


class Caps(TenantView):
    """The tenant's limits beside its envelopes."""

    @extend_schema(operation_id="caps_get", tags=["quota"], responses=wire.CapsOut)
    def get(self, request: Request) -> Response:
        """Counts, sizes, shapes, zones and spend a month."""
        Query.read(request.query_params)
        return Response(caps_shown(self.tenant_id))
