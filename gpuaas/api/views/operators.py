"""Who operates the platform, in which role?"""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import identity as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.api.views.identity import FACTOR
from tenants.services import operators


class Operators(OperatorView):
    """The platform's operators."""

    @extend_schema(
        operation_id="operator_list",
        tags=["operators"],
        parameters=[Paged],
        responses=page_of(wire.OperatorOut, "Operator"),
    )
    def get(self, request: Request) -> Response:
        """Operators, those who came first first."""
        return Response(
            page(
                operators.operator_list(),
                query=Paged.read(request.query_params),
                name="operators",
                order=("date_joined", "id"),
                render=lambda found: wire.OperatorOut(found, many=True).data,
            )
        )


class OperatorRoles(OperatorView):
    """An operator's role."""

    also_fails = (409,)

    @extend_schema(
        operation_id="operator_role_set",
        tags=["operators"],
        parameters=[FACTOR],
        request=wire.OperatorRoleIn,
        responses=wire.OperatorOut,
    )
    def put(self, request: Request, operator_id: UUID) -> Response:
        """Give an operator another role. The only administrator stays one."""
        given = wire.OperatorRoleIn.read(request.data)
        row = operators.operator_role_set(user_id=operator_id, actor=self.actor, **given)
        return Response(wire.OperatorOut(row).data)
