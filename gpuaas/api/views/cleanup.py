"""What do operators do when the proof of cleanup is missing?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.serializers.nodes import OverrideList
from gpuaas.api.views.identity import FACTOR
from gpuaas.api.views.operations import operation_response
from placement.models import CleanupOverride
from placement.services import cleanup, overrides


class AllocationRetryCleanup(OperatorView):
    """Another try at the proof."""

    @extend_schema(
        operation_id="allocation_retry_cleanup",
        tags=["cleanup"],
        request=Reasoned,
        responses={202: wire.OperationOut},
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Try a blocked cleanup again, after the host has been repaired."""
        given = Reasoned.read(request.data)
        run = cleanup.cleanup_retry(
            allocation_id=allocation_id, reason=given["reason"], actor=self.actor
        )
        return operation_response(run, operator=True, status=202)


def overrides_shown(mine: Q) -> dict[str, Any]:
    """The representation of overrides, with whose approval counts."""
    rows = CleanupOverride.objects.filter(mine).select_related("claim", "residue")
    items = [
        {
            "claim": row.claim_id,
            "residue": row.residue_id,
            "slot": row.residue.slot_id if row.residue else row.claim and row.claim.slot_id,
            "reason": row.reason,
            "asked_by": row.asked_by,
            "approved_by": row.approved_by,
            "approved_at": row.approved_at,
        }
        for row in rows.order_by("created_at", "id")
    ]
    return dict(OverrideList({"items": items, "approval": overrides.approval_rule()}).data)


def _of_allocation(allocation_id: UUID) -> Q:
    return Q(claim__allocation_id=allocation_id) | Q(residue__left_by=str(allocation_id))


def _of_slot(slot_id: UUID) -> Q:
    """Those about what is on the slot now: what has ended is in the events."""
    return Q(claim__slot_id=slot_id) | Q(residue__slot_id=slot_id)


class AllocationOverride(OperatorView):
    """A decision to reuse without proof."""

    @extend_schema(
        operation_id="allocation_override",
        tags=["cleanup"],
        request=Reasoned,
        responses={202: OverrideList},
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Ask for an override of the missing proof. Another operator has to approve it."""
        given = Reasoned.read(request.data)
        overrides.override_request(
            allocation_id=allocation_id, reason=given["reason"], actor=self.actor
        )
        return Response(overrides_shown(_of_allocation(allocation_id)), status=202)


class AllocationOverrideApprove(OperatorView):
    """The second person's word."""

    @extend_schema(
        operation_id="allocation_override_approve",
        tags=["cleanup"],
        parameters=[FACTOR],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Approve an override that somebody else has asked for."""
        given = Reasoned.read(request.data)
        overrides.override_approve(
            allocation_id=allocation_id, reason=given["reason"], actor=self.actor
        )
        return Response(overrides_shown(_of_allocation(allocation_id)))


class AllocationOverrideRefuse(OperatorView):
    """The second person's no."""

    also_fails = (409,)

    @extend_schema(
        operation_id="allocation_override_refuse",
        tags=["cleanup"],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Refuse an override that somebody else has asked for; it stays blocked."""
        given = Reasoned.read(request.data)
        overrides.override_refuse(
            allocation_id=allocation_id, reason=given["reason"], actor=self.actor
        )
        return Response(overrides_shown(_of_allocation(allocation_id)))


class AllocationOverrideWithdraw(OperatorView):
    """The asker's change of mind."""

    also_fails = (409,)

    @extend_schema(
        operation_id="allocation_override_withdraw",
        tags=["cleanup"],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Withdraw an override that you asked for yourself."""
        given = Reasoned.read(request.data)
        overrides.override_withdraw(
            allocation_id=allocation_id, reason=given["reason"], actor=self.actor
        )
        return Response(overrides_shown(_of_allocation(allocation_id)))


class SlotOverride(OperatorView):
    """A decision to reuse one slot without proof."""

    @extend_schema(
        operation_id="slot_override",
        tags=["cleanup"],
        request=Reasoned,
        responses={202: OverrideList},
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """Ask for an override of what blocks one slot. Another operator has to approve it."""
        given = Reasoned.read(request.data)
        overrides.slot_override_request(slot_id=slot_id, reason=given["reason"], actor=self.actor)
        return Response(overrides_shown(_of_slot(slot_id)), status=202)


class SlotOverrideApprove(OperatorView):
    """The second person's word about one slot."""

    @extend_schema(
        operation_id="slot_override_approve",
        tags=["cleanup"],
        parameters=[FACTOR],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """Approve an override of one slot that somebody else has asked for."""
        given = Reasoned.read(request.data)
        overrides.slot_override_approve(slot_id=slot_id, reason=given["reason"], actor=self.actor)
        return Response(overrides_shown(_of_slot(slot_id)))


class SlotOverrideRefuse(OperatorView):
    """The second person's no about one slot."""

    also_fails = (409,)

    @extend_schema(
        operation_id="slot_override_refuse",
        tags=["cleanup"],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """Refuse an override of one slot that somebody else has asked for."""
        given = Reasoned.read(request.data)
        overrides.slot_override_refuse(slot_id=slot_id, reason=given["reason"], actor=self.actor)
        return Response(overrides_shown(_of_slot(slot_id)))


class SlotOverrideWithdraw(OperatorView):
    """The asker's change of mind about one slot."""

    also_fails = (409,)

    @extend_schema(
        operation_id="slot_override_withdraw",
        tags=["cleanup"],
        request=Reasoned,
        responses={200: OverrideList},
    )
    def post(self, request: Request, slot_id: UUID) -> Response:
        """Withdraw an override of one slot that you asked for yourself."""
        given = Reasoned.read(request.data)
        overrides.slot_override_withdraw(slot_id=slot_id, reason=given["reason"], actor=self.actor)
        return Response(overrides_shown(_of_slot(slot_id)))
