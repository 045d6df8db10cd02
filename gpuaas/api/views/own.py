"""What is the caller's own tenant, and how does it end?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.services import tenancies
from gpuaas.api.base import OperatorView, TenantView
from gpuaas.api.fields import Query
from gpuaas.api.serializers import access as access_wire
from gpuaas.api.serializers import team as wire
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.views.tenants import tenant_named
from placement.selectors import holdings_of
from tenants.models import Tenant


def deletion_shown(tenant: Tenant) -> dict[str, Any]:
    """The tenant with what it still holds."""
    held = holdings_of(tenant_id=tenant.pk)
    body = {
        "tenant": tenant,
        "held_count": held.count,
        "held": [asdict(one) for one in held.items],
    }
    return dict(wire.DeletionOut(body).data)


class OwnTenant(TenantView):
    """The tenant that one acts for."""

    @extend_schema(operation_id="own_tenant_get", tags=["access"], responses=access_wire.TenantOut)
    def get(self, request: Request) -> Response:
        """The tenant, its state and its tier."""
        Query.read(request.query_params)
        row = tenant_named(str(self.tenant_id))
        return self.tagged(request, access_wire.TenantOut(row).data, version=row.version)


class OwnDeletion(TenantView):
    """The end of one's own tenant."""

    @extend_schema(operation_id="own_deletion_get", tags=["access"], responses=wire.DeletionOut)
    def get(self, request: Request) -> Response:
        """What would have to end first: everything that is held, until its proof."""
        Query.read(request.query_params)
        return Response(deletion_shown(tenant_named(str(self.tenant_id))))

    @extend_schema(
        operation_id="own_deletion_ask",
        tags=["access"],
        request=Reasoned,
        responses={202: wire.DeletionOut},
    )
    def post(self, request: Request) -> Response:
        """Begin the deletion (owners): nothing starts, keys stop working, all is released."""
        given = Reasoned.read(request.data)
        tenancies.tenant_delete(tenant_id=self.tenant_id, actor=self.actor, **given)
        return Response(deletion_shown(tenant_named(str(self.tenant_id))), status=202)


class TenantDeletion(OperatorView):
    """How far the end of a tenant has come."""

    @extend_schema(operation_id="tenant_deletion_get", tags=["tenants"], responses=wire.DeletionOut)
    def get(self, request: Request, tenant: str) -> Response:
        """What it still holds; it ends by itself with the last proof."""
        Query.read(request.query_params)
        return Response(deletion_shown(tenant_named(tenant)))
