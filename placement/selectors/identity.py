"""What is otherwise on a host than approved, and who does the host say it is?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuaas.kernel.actor import system
from placement.domain.identity import BLOCK, CARD_ADDED
from placement.models import IdentityDifference, Node, NodeIdentity, Slot
from placement.states import SlotState

GONE = "difference_gone"
HEALTH = system("health")
"""Who blocks a slot for its GPU's health: nothing about it differs, and it has its own way out."""


@dataclass(frozen=True, slots=True)
class Differing:
    """One open difference. ``to_accept``: somebody has to decide on its slot."""

    code: str
    outcome: str
    slot_index: int | None
    gpu_uuid: str
    detail: str
    approved: dict[str, Any]
    discovered: dict[str, Any]
    since: datetime
    seen_at: datetime
    to_accept: bool


def identity_of(node: Node) -> NodeIdentity | None:
    """What the host called itself at its last discovery."""
    return NodeIdentity.objects.filter(node=node).first()


def differences_of(node: Node) -> list[Differing]:
    """Every open difference, by slot; a blocked slot of which nothing differs any more too."""
    rows = IdentityDifference.objects.filter(node=node, ended_at__isnull=True)
    # A card that was offered and is approved by now differs no more.
    sold = Slot.objects.filter(node=node, state=SlotState.APPROVED).values("gpu_uuid")
    rows = rows.exclude(code=CARD_ADDED, gpu_uuid__in=sold)
    found = [
        Differing(
            code=row.code,
            outcome=row.outcome,
            slot_index=row.slot.index if row.slot else None,
            gpu_uuid=row.gpu_uuid,
            detail=row.detail,
            approved=row.approved,
            discovered=row.discovered,
            since=row.created_at,
            seen_at=row.seen_at,
            to_accept=row.slot is not None and row.slot.state == SlotState.BLOCKED,
        )
        for row in rows.select_related("slot").order_by("slot__index", "created_at")
    ]
    told = {one.slot_index for one in found if one.to_accept and one.slot_index is not None}
    blocked = Slot.objects.filter(node=node, state=SlotState.BLOCKED).exclude(index__in=told)
    blocked = blocked.exclude(block_owner=HEALTH.as_json())
    found += [
        Differing(
            code=GONE,
            outcome=BLOCK,
            slot_index=slot.index,
            gpu_uuid=slot.gpu_uuid,
            detail=f"nothing differs any more; it was blocked because: {slot.block_reason}",
            approved={},
            discovered={},
            since=slot.state_since,
            seen_at=slot.state_since,
            to_accept=True,
        )
        for slot in blocked.order_by("index")
    ]
    return found
