"""What do operators do with tenants?"""

from __future__ import annotations

from collections.abc import Callable

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.services import tenancies
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import is_id, page
from gpuaas.api.serializers import access as wire
from gpuaas.api.serializers.authority import SuspendIn
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.kernel.errors import NotFound
from tenants import selectors
from tenants.models import Tenant
from tenants.services import tenancy


def tenant_named(named: str) -> Tenant:
    """The tenant of this slug or id. Raises NotFound."""
    found = is_id(named)
    rows = Tenant.objects.select_related("tier")
    tenant = (rows.filter(pk=found) if found else rows.filter(slug=named)).first()
    if tenant is None:
        raise NotFound
    return tenant


class Tenants(OperatorView):
    """Every tenant."""

    @extend_schema(
        operation_id="tenant_list",
        tags=["tenants"],
        parameters=[Paged],
        responses=page_of(wire.TenantOut, "Tenant"),
    )
    def get(self, request: Request) -> Response:
        """Tenants, newest first."""
        query = Paged.read(request.query_params)
        return Response(
            page(
                selectors.tenant_list(),
                query=query,
                name="tenants",
                render=lambda found: wire.TenantOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="tenant_create",
        tags=["tenants"],
        request=wire.TenantIn,
        responses={201: wire.TenantOut},
    )
    def post(self, request: Request) -> Response:
        """Make a pending tenant."""
        given = wire.TenantIn.read(request.data)
        tenant = tenancy.tenant_create(**given, actor=self.actor)
        return Response(wire.TenantOut(tenant_named(str(tenant.pk))).data, status=201)


class TenantDetail(OperatorView):
    """One tenant."""

    @extend_schema(operation_id="tenant_get", tags=["tenants"], responses=wire.TenantOut)
    def get(self, request: Request, tenant: str) -> Response:
        """A tenant by slug or id."""
        row = tenant_named(tenant)
        return self.tagged(request, wire.TenantOut(row).data, version=row.version)


class TenantAction(OperatorView):
    """One move of a tenant's lifecycle."""


def _action(
    verb: str, service: Callable[..., Tenant], summary: str, body: type[Reasoned] = Reasoned
) -> type[TenantAction]:
    @extend_schema(
        operation_id=f"tenant_{verb}",
        tags=["tenants"],
        summary=summary,
        request=body,
        responses=wire.TenantOut,
    )
    def post(self: TenantAction, request: Request, tenant: str) -> Response:
        """Make the move, with its reason."""
        given = body.read(request.data)
        row = service(tenant_id=tenant_named(tenant).pk, actor=self.actor, **given)
        return Response(wire.TenantOut(tenant_named(str(row.pk))).data)

    name = f"Tenant{verb.title()}"
    return type(name, (TenantAction,), {"post": post, "__doc__": f"{summary}."})


TenantApprove = _action("approve", tenancies.tenant_approve, "Let a pending tenant in")
TenantReject = _action("reject", tenancies.tenant_reject, "Turn a pending tenant away")
TenantSuspend = _action("suspend", tenancy.tenant_suspend, "Stop new work", SuspendIn)
TenantResume = _action("resume", tenancy.tenant_resume, "End a suspension")
