"""How do operators plan maintenance of nodes, and see what it touches?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import maintenance as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from placement import selectors
from placement.domain.leaving import DrainPlan, in_words
from placement.models import CardReplacement, MaintenanceWindow
from placement.services import maintenance as service
from placement.services import replacements
from placement.services.drain_plan import drain_moves, drain_plan, windows_preview
from placement.services.maintenance import Selector
from placement.states import ReplacementState


def window_shown(row: MaintenanceWindow) -> dict[str, Any]:
    """The representation of one window."""
    body = {
        "id": row.pk,
        "plan": row.plan,
        "node": {"id": row.node_id, "name": row.node.name},
        "state": row.state,
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
        "reason": row.reason,
        "owner": row.owner,
        "created_at": row.created_at,
        "version": row.version,
    }
    return dict(wire.MaintenanceWindowOut(body).data)


def selector_of(given: dict[str, Any]) -> Selector:
    """The nodes that a validated body names."""
    return Selector(tuple(given["nodes"]), given["pool"], given["zone"], given["rack"])


def plan_body(plan: DrainPlan) -> dict[str, Any]:
    """A plan of a drain, as its serializer reads it."""
    return {
        "node": plan.node,
        "at": plan.at,
        "words": in_words(plan),
        "counts": plan.counts(),
        "leaving": plan.leaving,
    }


class Windows(OperatorView):
    """Windows of maintenance."""

    @extend_schema(
        operation_id="maintenance_window_list",
        tags=["maintenance"],
        parameters=[wire.MaintenanceWindowQuery],
        responses=page_of(wire.MaintenanceWindowOut, "MaintenanceWindow"),
    )
    def get(self, request: Request) -> Response:
        """Windows, newest first."""
        query = wire.MaintenanceWindowQuery.read(request.query_params)
        rows = MaintenanceWindow.objects.select_related("node")
        if state := query.get("state"):
            rows = rows.filter(state=state)
        if node := query.get("node"):
            rows = rows.filter(node__name=node)
        return Response(
            page(
                rows,
                query=query,
                name="maintenance windows",
                render=lambda found: [window_shown(row) for row in found],
            )
        )

    @extend_schema(
        operation_id="maintenance_window_plan",
        tags=["maintenance"],
        request=wire.MaintenanceWindowPlanIn,
        responses={201: wire.MaintenanceWindowList},
    )
    def post(self, request: Request) -> Response:
        """Plan a window of each of the nodes: all, or none."""
        given = wire.MaintenanceWindowPlanIn.read(request.data)
        rows = service.window_plan(
            selector=selector_of(given),
            starts_at=given["starts_at"],
            ends_at=given["ends_at"],
            reason=given["reason"],
            announce=given["announce"],
            actor=self.actor,
        )
        return Response({"items": [window_shown(row) for row in rows]}, status=201)


class WindowPreview(OperatorView):
    """What windows would touch."""

    @extend_schema(
        operation_id="maintenance_window_preview",
        tags=["maintenance"],
        request=wire.MaintenanceWindowIn,
        responses=wire.MaintenanceWindowPreviewOut,
    )
    def post(self, request: Request) -> Response:
        """Nodes, allocations and tenants that windows would touch. Nothing is changed."""
        given = wire.MaintenanceWindowIn.read(request.data)
        plans = windows_preview(
            selector=selector_of(given),
            starts_at=given["starts_at"],
            ends_at=given["ends_at"],
            actor=self.actor,
        )
        tenants = sorted({one.tenant for plan in plans for one in plan.leaving})
        body = {"nodes": [plan_body(plan) for plan in plans], "tenants": tenants}
        return Response(wire.MaintenanceWindowPreviewOut(body).data)


class WindowAction(OperatorView):
    """One of the moves that an operator makes with a window."""


def _window(verb: str, act: Callable[..., MaintenanceWindow], summary: str) -> type[WindowAction]:
    @extend_schema(
        operation_id=f"maintenance_window_{verb}",
        tags=["maintenance"],
        summary=summary,
        request=Reasoned,
        responses=wire.MaintenanceWindowOut,
    )
    def post(self: WindowAction, request: Request, maintenance_id: UUID) -> Response:
        """Make the move, with its reason."""
        given = Reasoned.read(request.data)
        row = act(window_id=maintenance_id, **given, actor=self.actor)
        return Response(window_shown(row))

    return type(f"Window{verb.title()}", (WindowAction,), {"post": post, "__doc__": f"{summary}."})


WindowAnnounce = _window("announce", service.window_announce, "Tell the tenants of a window")
WindowCancel = _window("cancel", service.window_cancel, "Give a window up")
WindowEnd = _window("end", service.window_end, "End a window before its time")


class NodeDrainPlan(OperatorView):
    """What a drain would touch."""

    @extend_schema(
        operation_id="node_drain_plan",
        tags=["nodes"],
        parameters=[wire.DrainPlanQuery],
        responses=wire.DrainPlanOut,
    )
    def get(self, request: Request, node: str) -> Response:
        """What becomes of each allocation, and where it would go. Nothing is changed."""
        query = wire.DrainPlanQuery.read(request.query_params)
        row = selectors.node_named(node)
        plan = drain_plan(node_id=row.pk, actor=self.actor, at=query.get("at"))
        return Response(wire.DrainPlanOut(plan_body(plan)).data)


class NodeMove(OperatorView):
    """Moves off a drained node."""

    @extend_schema(
        operation_id="node_move", tags=["nodes"], request=Reasoned, responses=wire.MovedList
    )
    def post(self, request: Request, node: str) -> Response:
        """Move off a drained node what its tenants allow to be moved."""
        given = Reasoned.read(request.data)
        row = selectors.node_named(node)
        moved = drain_moves(node_id=row.pk, **given, actor=self.actor)
        return Response(wire.MovedList({"items": moved}).data)


class PoolNotice(OperatorView):
    """A pool's terms of notice."""

    also_fails = (404,)

    @extend_schema(
        operation_id="pool_notice_set",
        tags=["maintenance"],
        request=wire.PoolNoticeIn,
        responses=wire.PoolNoticeOut,
    )
    def put(self, request: Request, pool: str) -> Response:
        """Set how long before maintenance nothing without an end is placed, and who is told."""
        given = wire.PoolNoticeIn.read(request.data)
        row = service.pool_notice_set(pool=pool, **given, actor=self.actor)
        body = {"pool": row.name, "lead_s": row.notice_lead_s, "again_s": row.notice_again_s}
        return Response(wire.PoolNoticeOut(body).data)


def replacement_shown(row: CardReplacement) -> dict[str, Any]:
    """The representation of one replaced card."""
    open_now = row.state == ReplacementState.DECLARED
    seen = replacements.card_seen(row) if open_now else None
    body = {
        "id": row.pk,
        "node": {"id": row.node_id, "name": row.node.name},
        "slot_index": row.slot_index,
        "state": row.state,
        "old_uuid": row.old_uuid,
        "old_device": row.old_device,
        "seen_uuid": seen["gpu_uuid"] if seen else row.new_uuid,
        "new_uuid": row.new_uuid,
        "reason": row.reason,
        "declared_by": row.declared_by,
        "created_at": row.created_at,
    }
    return dict(wire.ReplacementOut(body).data)


class Replacements(OperatorView):
    """Cards of a node that were replaced."""

    @extend_schema(
        operation_id="node_replacement_list",
        tags=["nodes"],
        parameters=[Paged],
        responses=page_of(wire.ReplacementOut, "CardReplacement"),
    )
    def get(self, request: Request, node: str) -> Response:
        """Replaced cards of one node, newest first; what was there before is kept."""
        row = selectors.node_named(node)
        return Response(
            page(
                CardReplacement.objects.select_related("node").filter(node=row),
                query=Paged.read(request.query_params),
                name=f"replacements of {row.pk}",
                render=lambda found: [replacement_shown(one) for one in found],
            )
        )


class CardAction(OperatorView):
    """One of the steps of a card's replacement."""


def _card(verb: str, act: Callable[..., CardReplacement], summary: str) -> type[CardAction]:
    @extend_schema(
        operation_id=f"node_{verb}_card",
        tags=["nodes"],
        summary=summary,
        request=wire.CardIn,
        responses=wire.ReplacementOut,
    )
    def post(self: CardAction, request: Request, node: str) -> Response:
        """Take the step, with its reason."""
        given = wire.CardIn.read(request.data)
        row = selectors.node_named(node)
        return Response(replacement_shown(act(node_id=row.pk, **given, actor=self.actor)))

    return type(f"Card{verb.title()}", (CardAction,), {"post": post, "__doc__": f"{summary}."})


CardReplace = _card("replace", replacements.card_replace, "Declare that a card was replaced")
CardApprove = _card("approve", replacements.card_approve, "Continue the slot with the new card")
CardCancel = _card("cancel", replacements.card_cancel, "Take a declaration back")
