"""Which moves would make room, may they be made, and begin them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import allocations as lease_wire
from gpuaas.api.serializers import defrag as wire
from gpuaas.api.views.operations import operation_response
from placement.models import Pool
from placement.services import defrag as service


def plan_of(plan: service.DefragPlan) -> dict[str, Any]:
    """The representation of a plan."""
    fields = {
        name: getattr(plan, name)
        for name in (
            "sku",
            "slots",
            "pool",
            "possible",
            "enabled",
            "fits_already",
            "decided",
            "said",
            "host",
            "lost_milli",
            "budget",
            "movable",
            "fewest",
            "hosts_looked_at",
            "pictures",
            "digest",
        )
    }
    moves = [{**step.as_json(), "source_node": step.source} for step in plan.steps]
    left_out = [{"code": code, "allocations": n} for code, n in plan.left_out.items()]
    return dict(wire.DefragPlanOut({**fields, "moves": moves, "left_out": left_out}).data)


class DefragPolicies(OperatorView):
    """Where work may be moved."""

    @extend_schema(
        operation_id="defrag_policy_list",
        tags=["defragmentation"],
        parameters=[Short],
        responses=wire.DefragPolicyList,
    )
    def get(self, request: Request) -> Response:
        """The policy of every pool, by name."""
        query = Short.read(request.query_params)
        items = [service.policy_of(pool) for pool in Pool.objects.order_by("name")]
        shown = part(items, query=query, name="defragmentation policies")
        return Response(wire.DefragPolicyList(shown).data)


class DefragPolicyOne(OperatorView):
    """One pool's policy."""

    @extend_schema(
        operation_id="defrag_policy_set",
        tags=["defragmentation"],
        request=wire.DefragPolicyIn,
        responses=wire.DefragPolicyOut,
    )
    def put(self, request: Request, pool: str) -> Response:
        """Allow or forbid moves in a pool, with the budget of one run and its hours."""
        given = wire.DefragPolicyIn.read(request.data)
        row = service.policy_set(pool=pool, actor=self.actor, **given)
        return Response(wire.DefragPolicyOut(row).data)


class DefragPlan(OperatorView):
    """What would be moved."""

    remembers = False
    also_fails = (404,)

    @extend_schema(
        operation_id="defrag_plan",
        tags=["defragmentation"],
        request=wire.DefragIn,
        responses=wire.DefragPlanOut,
        examples=examples.DEFRAG,
    )
    def post(self, request: Request) -> Response:
        """The fewest moves that make room for a size of a SKU, changing nothing."""
        return Response(plan_of(service.defrag_plan(**wire.DefragIn.read(request.data))))


class DefragRun(OperatorView):
    """Moves that are made."""

    key_required = True
    also_fails = (404, 409)

    @extend_schema(
        operation_id="defrag_run",
        tags=["defragmentation"],
        request=wire.DefragRunIn,
        responses={202: lease_wire.OperationOut},
    )
    def post(self, request: Request) -> Response:
        """Begin the plan that was looked at; each move is looked at again before it is made."""
        run = service.defrag_run(actor=self.actor, **wire.DefragRunIn.read(request.data))
        return operation_response(run, operator=True, status=202)
