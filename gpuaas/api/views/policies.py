"""How do operators write, try out and switch on their rules?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.models import PolicyRule
from admission.services import policies
from gpuaas.api.base import OperatorView
from gpuaas.api.pagination import page
from gpuaas.api.serializers import policies as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.kernel.errors import NotFound


def policy_shown(policy_id: UUID) -> dict[str, Any]:
    """A rule with how its own tests go. Raises NotFound."""
    row = PolicyRule.objects.filter(pk=policy_id).first()
    if row is None:
        raise NotFound
    body = dict(wire.PolicyOut(row).data)
    results = policies.policy_results(row)
    return body | {"results": wire.PolicyTestOut(results, many=True).data}


class Policies(OperatorView):
    """Operators' rules."""

    @extend_schema(
        operation_id="policy_list",
        tags=["policies"],
        parameters=[wire.PolicyQuery],
        responses=page_of(wire.PolicyOut, "Policy"),
    )
    def get(self, request: Request) -> Response:
        """Every version of every rule, newest first."""
        query = wire.PolicyQuery.read(request.query_params)
        rows = PolicyRule.objects.all()
        for name in ("state", "name"):
            if query.get(name):
                rows = rows.filter(**{name: query[name]})
        return Response(
            page(
                rows,
                query=query,
                name="policies",
                render=lambda found: wire.PolicyOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="policy_save",
        tags=["policies"],
        request=wire.PolicyIn,
        responses={201: wire.PolicyDetailOut},
    )
    def post(self, request: Request) -> Response:
        """Keep a new version as a draft. It decides nothing until it is switched on."""
        given = wire.PolicyIn.read(request.data)
        row = policies.policy_save(actor=self.actor, **given)
        return Response(policy_shown(row.pk), status=201)


class PolicyDetail(OperatorView):
    """One version of a rule."""

    @extend_schema(operation_id="policy_get", tags=["policies"], responses=wire.PolicyDetailOut)
    def get(self, request: Request, policy_id: UUID) -> Response:
        """A rule with its tests and its last dry-run."""
        body = policy_shown(policy_id)
        return self.tagged(request, body, version=body["version"])


class PolicyDryRun(OperatorView):
    """What a rule would have said."""

    @extend_schema(
        operation_id="policy_dry_run",
        tags=["policies"],
        request=wire.DryRunIn,
        responses=wire.PolicyDetailOut,
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        """Ask it about the last recorded decisions, and keep the report."""
        given = wire.DryRunIn.read(request.data)
        policies.policy_try_out(rule_id=policy_id, actor=self.actor, **given)
        return Response(policy_shown(policy_id))


class PolicyActivate(OperatorView):
    """On."""

    @extend_schema(
        operation_id="policy_activate",
        tags=["policies"],
        request=Reasoned,
        responses=wire.PolicyDetailOut,
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        """Switch a rule on that was tried out; the version before it goes."""
        given = Reasoned.read(request.data)
        policies.policy_activate(rule_id=policy_id, actor=self.actor, **given)
        return Response(policy_shown(policy_id))


class PolicyRetire(OperatorView):
    """Off."""

    @extend_schema(
        operation_id="policy_retire",
        tags=["policies"],
        request=Reasoned,
        responses=wire.PolicyDetailOut,
    )
    def post(self, request: Request, policy_id: UUID) -> Response:
        """Switch a rule off, or drop a draft."""
        given = Reasoned.read(request.data)
        policies.policy_retire(rule_id=policy_id, actor=self.actor, **given)
        return Response(policy_shown(policy_id))
