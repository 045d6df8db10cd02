"""What do operators decide about a tenant's envelopes, caps, bursts, cohort and tier?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.services import tenancies
from gpuaas.api import conditional, examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import access as access_wire
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.views.quota import caps_shown, quota_shown
from gpuaas.api.views.tenants import tenant_named
from placement.selectors import leases_of_tenant
from tenants import selectors
from tenants.models import BurstRule
from tenants.services import bursts, caps, cohorts, tenancy, tiers


class TenantQuota(OperatorView):
    """What a tenant may hold, and holds."""

    @extend_schema(
        operation_id="tenant_quota", tags=["tenants"], parameters=[Short], responses=wire.QuotaList
    )
    def get(self, request: Request, tenant: str) -> Response:
        """Every class of a tenant."""
        query = Short.read(request.query_params)
        return Response(quota_shown(query, tenant_named(tenant).pk))


class TenantCapsView(OperatorView):
    """A tenant's limits beside its envelopes."""

    @extend_schema(operation_id="tenant_caps_get", tags=["tenants"], responses=wire.CapsOut)
    def get(self, request: Request, tenant: str) -> Response:
        """The caps, with the version that a change names."""
        body = caps_shown(tenant_named(tenant).pk)
        return self.tagged(request, body, version=body["version"])

    @extend_schema(
        operation_id="tenant_caps_set",
        tags=["tenants"],
        request=wire.CapsIn,
        responses=wire.CapsOut,
        examples=examples.CAPS,
    )
    def patch(self, request: Request, tenant: str) -> Response:
        """Change the caps that are named. If-Match must name the version that was read."""
        row = tenant_named(tenant)
        version = conditional.version_met(request, caps_shown(row.pk)["version"])
        given = wire.CapsIn.read(request.data)
        caps.caps_set(
            tenant_id=row.pk,
            reason=given.pop("reason"),
            changes=given,
            version=version,
            actor=self.actor,
        )
        return Response(caps_shown(row.pk))


class TenantBursts(OperatorView):
    """When a tenant may borrow more."""

    @extend_schema(
        operation_id="tenant_burst_list",
        tags=["tenants"],
        parameters=[Short],
        responses=wire.BurstList,
    )
    def get(self, request: Request, tenant: str) -> Response:
        """The tenant's burst rules."""
        query = Short.read(request.query_params)
        whose = tenant_named(tenant)
        rows = list(selectors.burst_list(whose.pk))
        return Response(wire.BurstList(part(rows, query=query, name=f"bursts {whose.pk}")).data)

    @extend_schema(
        operation_id="tenant_burst_create",
        tags=["tenants"],
        request=wire.BurstIn,
        responses={201: wire.BurstOut},
        examples=examples.BURST,
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Let it borrow more from its cohort in a window, once or again and again."""
        given = wire.BurstIn.read(request.data)
        row = bursts.burst_create(tenant_id=tenant_named(tenant).pk, actor=self.actor, **given)
        return Response(wire.BurstOut(_burst(row.pk)).data, status=201)


def _burst(burst_id: UUID) -> BurstRule:
    return BurstRule.objects.select_related("resource_class").get(pk=burst_id)


class BurstEnd(OperatorView):
    """The end of a rule."""

    @extend_schema(
        operation_id="burst_end", tags=["tenants"], request=Reasoned, responses=wire.BurstOut
    )
    def post(self, request: Request, burst_id: UUID) -> Response:
        """End a rule for good; an open window closes as it would have by itself."""
        given = Reasoned.read(request.data)
        bursts.burst_end(burst_id=burst_id, actor=self.actor, **given)
        return Response(wire.BurstOut(_burst(burst_id)).data)


class TenantCohort(OperatorView):
    """With whom a tenant shares what is unused."""

    @extend_schema(
        operation_id="tenant_cohort_set",
        tags=["tenants"],
        request=wire.TenantCohortIn,
        responses=access_wire.TenantOut,
    )
    def put(self, request: Request, tenant: str) -> Response:
        """Put a tenant into a cohort, or into none."""
        given = wire.TenantCohortIn.read(request.data)
        row = cohorts.tenant_cohort_set(
            tenant_id=tenant_named(tenant).pk, actor=self.actor, **given
        )
        return Response(access_wire.TenantOut(tenant_named(str(row.pk))).data)


class TenantSuspension(OperatorView):
    """What a suspension does to what runs."""

    @extend_schema(
        operation_id="tenant_suspension_choose",
        tags=["tenants"],
        request=wire.SuspensionIn,
        responses=access_wire.TenantOut,
    )
    def put(self, request: Request, tenant: str) -> Response:
        """Choose: what runs is kept, or released."""
        given = wire.SuspensionIn.read(request.data)
        row = tenancy.suspension_choose(
            tenant_id=tenant_named(tenant).pk, actor=self.actor, **given
        )
        return Response(access_wire.TenantOut(tenant_named(str(row.pk))).data)


class TenantDelete(OperatorView):
    """The end of a tenant."""

    @extend_schema(
        operation_id="tenant_delete",
        tags=["tenants"],
        request=Reasoned,
        responses=access_wire.TenantOut,
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Begin the deletion: it ends when the last claim has ended by proof."""
        given = Reasoned.read(request.data)
        row = tenancies.tenant_delete(tenant_id=tenant_named(tenant).pk, actor=self.actor, **given)
        return Response(access_wire.TenantOut(tenant_named(str(row.pk))).data)


class TenantTierPreview(OperatorView):
    """What another tier would touch."""

    remembers = False

    @extend_schema(
        operation_id="tenant_tier_preview",
        tags=["tenants"],
        request=wire.TenantTierPreviewIn,
        responses=wire.PreviewOut,
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Whom it touches, which terms change, which leases would have too little isolation."""
        given = wire.TenantTierPreviewIn.read(request.data)
        row = tenant_named(tenant)
        shown = tiers.tier_preview(
            tenant_id=row.pk, tier=given["tier"], running=leases_of_tenant(row.pk)
        )
        return Response(preview_shown(shown.as_json()))


class TenantTier(OperatorView):
    """The tier of a tenant."""

    @extend_schema(
        operation_id="tenant_tier_assign",
        tags=["tenants"],
        request=wire.TenantTierIn,
        responses=access_wire.TenantOut,
    )
    def put(self, request: Request, tenant: str) -> Response:
        """Give it the tier, when what it touches is still what was looked at."""
        given = wire.TenantTierIn.read(request.data)
        row = tenant_named(tenant)
        tiers.tier_assign(
            tenant_id=row.pk, running=leases_of_tenant(row.pk), actor=self.actor, **given
        )
        return Response(access_wire.TenantOut(tenant_named(str(row.pk))).data)


def preview_shown(body: dict[str, Any]) -> dict[str, Any]:
    """A preview over the wire."""
    return dict(wire.PreviewOut(body).data)
