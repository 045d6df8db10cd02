"""Which SKUs may a tenant ask for, and who grants them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView, TenantView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import team as wire
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.views.tenants import tenant_named
from gpuaas.kernel import clock
from gpuaas.kernel.errors import FieldError
from tenants.errors import SkuUnknown
from tenants.models import Entitlement, Tenant
from tenants.services import entitlements


def entitlements_shown(tenant: Tenant, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A tenant's choice of catalogue with what was granted, by name."""
    now = clock.db_now()
    rows = list(
        Entitlement.objects.filter(tenant=tenant).select_related("sku").order_by("sku__name")
    )
    items = [
        {
            "sku": row.sku,
            "until": row.until,
            "over": row.until is not None and row.until <= now,
            "created_at": row.created_at,
        }
        for row in rows
    ]
    shown = part(items, query=query or {}, name=f"entitlements {tenant.pk}")
    return dict(wire.EntitlementList({"catalogue": tenant.catalogue, **shown}).data)


class Entitlements(TenantView):
    """What the tenant may ask for."""

    @extend_schema(
        operation_id="entitlement_list",
        tags=["catalogue"],
        parameters=[Short],
        responses=wire.EntitlementList,
    )
    def get(self, request: Request) -> Response:
        """Every published SKU, or those that were granted."""
        query = Short.read(request.query_params)
        return Response(entitlements_shown(Tenant.objects.get(pk=self.tenant_id), query))


class TenantEntitlements(OperatorView):
    """What was granted to a tenant."""

    @extend_schema(
        operation_id="tenant_entitlement_list",
        tags=["tenants"],
        parameters=[Short],
        responses=wire.EntitlementList,
    )
    def get(self, request: Request, tenant: str) -> Response:
        """The tenant's catalogue and what was granted, past grants too."""
        query = Short.read(request.query_params)
        return Response(entitlements_shown(tenant_named(tenant), query))

    @extend_schema(
        operation_id="tenant_entitlement_grant",
        tags=["tenants"],
        request=wire.EntitlementIn,
        responses={201: wire.EntitlementList},
        examples=examples.ENTITLEMENT,
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Grant a SKU, or set until when it is granted."""
        given = wire.EntitlementIn.read(request.data)
        row = tenant_named(tenant)
        try:
            entitlements.entitlement_grant(tenant_id=row.pk, actor=self.actor, **given)
        except SkuUnknown as unknown:
            unknown.errors = (FieldError("/sku", "unknown", "no SKU of this name"),)
            raise
        return Response(entitlements_shown(row), status=201)


class TenantEntitlementRevoke(OperatorView):
    """The end of a grant."""

    @extend_schema(
        operation_id="tenant_entitlement_revoke",
        tags=["tenants"],
        request=Reasoned,
        responses=wire.EntitlementList,
    )
    def post(self, request: Request, tenant: str, sku: str) -> Response:
        """Take a SKU away: nothing new of it is admitted; what runs goes on."""
        given = Reasoned.read(request.data)
        row = tenant_named(tenant)
        entitlements.entitlement_revoke(
            tenant_id=row.pk, sku=sku, reason=given["reason"], actor=self.actor
        )
        return Response(entitlements_shown(row))


class TenantCatalogue(OperatorView):
    """Which catalogue a tenant sees."""

    @extend_schema(
        operation_id="tenant_catalogue_choose",
        tags=["tenants"],
        request=wire.CatalogueIn,
        responses=wire.EntitlementList,
        examples=examples.CATALOGUE,
    )
    def put(self, request: Request, tenant: str) -> Response:
        """Let it ask for every published SKU, or only for what is granted."""
        given = wire.CatalogueIn.read(request.data)
        row = entitlements.catalogue_choose(
            tenant_id=tenant_named(tenant).pk, actor=self.actor, **given
        )
        return Response(entitlements_shown(row))
