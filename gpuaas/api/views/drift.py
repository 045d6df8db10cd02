"""Where do hosts differ from what is wanted, what is held, and what does an operator decide?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import drift as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from placement import selectors
from placement.models import AutomaticAction, Drift
from placement.services import breaker
from placement.services import drift as service

_DRIFT = (
    "kind",
    "code",
    "subject",
    "slots",
    "severity",
    "actor",
    "state",
    "detail",
    "last_seen_at",
    "seen",
    "attempts",
    "next_try_at",
    "trouble",
    "outcome",
    "decided_by",
    "decision",
    "closed_at",
)
_HELD = ("about", "reason", "state", "facts", "asked", "asked_at", "decided_by", "decision")


def drift_shown(row: Drift) -> dict[str, Any]:
    """The representation of one difference."""
    body = {name: getattr(row, name) for name in _DRIFT}
    body |= {"id": row.pk, "allocation": row.allocation_id, "since": row.created_at}
    body["node"] = {"id": row.node_id, "name": row.node.name}
    return dict(wire.DriftOut(body).data)


def held_shown(row: AutomaticAction) -> dict[str, Any]:
    """The representation of one held action."""
    body = {name: getattr(row, name) for name in _HELD}
    body |= {"id": row.pk, "pool": row.pool.name, "action": row.kind, "since": row.created_at}
    body["code"] = row.code
    body["node"] = {"id": row.node_id, "name": row.node.name}
    return dict(wire.HeldActionOut(body).data)


class Drifts(OperatorView):
    """Every difference."""

    @extend_schema(
        operation_id="drift_list",
        tags=["drift"],
        parameters=[wire.DriftQuery],
        responses=page_of(wire.DriftOut, "Drift"),
    )
    def get(self, request: Request) -> Response:
        """Differences between what is wanted of hosts and what is seen, newest first."""
        query = wire.DriftQuery.read(request.query_params)
        return Response(
            page(
                selectors.drift_list(query),
                query=query,
                name="drift",
                render=lambda rows: [drift_shown(row) for row in rows],
            )
        )


class DriftAccept(OperatorView):
    """A difference that may stand."""

    also_fails = (409,)

    @extend_schema(
        operation_id="drift_accept", tags=["drift"], request=Reasoned, responses=wire.DriftOut
    )
    def post(self, request: Request, drift_id: UUID) -> Response:
        """Let a difference stand, with a reason: it counts no more, and nothing is changed."""
        given = Reasoned.read(request.data)
        row = service.drift_accept(drift_id=drift_id, reason=given["reason"], actor=self.actor)
        return Response(drift_shown(row))


class DriftRemove(OperatorView):
    """What should not be there, or is lost."""

    also_fails = (409,)

    @extend_schema(
        operation_id="drift_remove", tags=["drift"], request=Reasoned, responses=wire.DriftOut
    )
    def post(self, request: Request, drift_id: UUID) -> Response:
        """Order the release of an ended allocation's machine anew, or give up a lost one.

        What was never ours is never removed by us.
        """
        given = Reasoned.read(request.data)
        row = service.drift_remove(drift_id=drift_id, reason=given["reason"], actor=self.actor)
        return Response(drift_shown(row))


class Held(OperatorView):
    """What the breaker holds."""

    @extend_schema(
        operation_id="breaker_held_list",
        tags=["drift"],
        parameters=[Paged],
        responses=page_of(wire.HeldActionOut, "HeldAction"),
    )
    def get(self, request: Request) -> Response:
        """What automation wants to do to nodes and may not yet, newest first."""
        query = Paged.read(request.query_params)
        return Response(
            page(
                selectors.held_list(),
                query=query,
                name="held",
                render=lambda rows: [held_shown(row) for row in rows],
            )
        )


class HeldAllow(OperatorView):
    """A held action that may go on."""

    also_fails = (409,)

    @extend_schema(
        operation_id="breaker_held_allow",
        tags=["drift"],
        request=Reasoned,
        responses=wire.HeldActionOut,
    )
    def post(self, request: Request, held_id: UUID) -> Response:
        """Let a held action go on: it happens when it is next asked for."""
        given = Reasoned.read(request.data)
        row = breaker.held_allow(action_id=held_id, reason=given["reason"], actor=self.actor)
        return Response(held_shown(row))


class HeldReject(OperatorView):
    """A held action that may not happen."""

    also_fails = (409,)

    @extend_schema(
        operation_id="breaker_held_reject",
        tags=["drift"],
        request=Reasoned,
        responses=wire.HeldActionOut,
    )
    def post(self, request: Request, held_id: UUID) -> Response:
        """Reject a held action for one window of its pool."""
        given = Reasoned.read(request.data)
        row = breaker.held_reject(action_id=held_id, reason=given["reason"], actor=self.actor)
        return Response(held_shown(row))


class PoolBreaker(OperatorView):
    """A pool's limits."""

    @extend_schema(
        operation_id="pool_breaker_set",
        tags=["drift"],
        request=wire.BreakerIn,
        responses=wire.BreakerOut,
    )
    def put(self, request: Request, pool: str) -> Response:
        """Set how many of a pool's nodes automation may act upon in a window."""
        given = wire.BreakerIn.read(request.data)
        row = breaker.breaker_set(pool=pool, **given, actor=self.actor)
        fields = ("percent", "floor", "window_s", "version")
        body = {"pool": pool} | {name: getattr(row, name) for name in fields}
        return Response(wire.BreakerOut(body).data)
