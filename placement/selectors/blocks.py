"""What keeps a slot from being leased, since when, and who has asked to override it?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from placement.domain.capacity import RESIDUE
from placement.domain.picture import WHOLE_NODE
from placement.errors import CLEANUP_BLOCKED
from placement.models import Allocation, Claim, CleanupOverride, Node, SlotResidue
from placement.states import ClaimState, ResidueState


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that keeps one slot blocked. ``allocation`` left it, as far as is known."""

    slot_index: int
    slot: UUID | None
    code: str
    detail: str
    since: datetime
    allocation: str
    asked_by: dict[str, Any] | None


def slot_blocks(node: Node) -> dict[int, list[Block]]:
    """What blocks the node's slots, by slot index; -1 for a claim of the whole node."""
    asked = {
        row.claim_id or row.residue_id: row.asked_by
        for row in CleanupOverride.objects.filter(
            Q(claim__node_num=node.num) | Q(residue__node=node), approved_at__isnull=True
        )
    }
    found: dict[int, list[Block]] = defaultdict(list)
    held = Claim.objects.filter(node_num=node.num, state=ClaimState.CLEANUP_BLOCKED)
    for claim in held.select_related("allocation").order_by("slot_index"):
        found[claim.slot_index].append(
            Block(
                claim.slot_index,
                claim.slot_id,
                CLEANUP_BLOCKED.code,
                claim.allocation.outcome_detail,
                claim.state_since,
                str(claim.allocation_id),
                asked.get(claim.pk),
            )
        )
    traces = SlotResidue.objects.filter(node=node, state=ResidueState.FOUND)
    for row in traces.select_related("slot").order_by("slot__index", "id"):
        found[row.slot.index].append(
            Block(
                row.slot.index,
                row.slot_id,
                RESIDUE,
                row.detail,
                row.created_at,
                row.left_by,
                asked.get(row.pk),
            )
        )
    return dict(found)


def blocks_on(blocks: dict[int, list[Block]], index: int) -> list[Block]:
    """What blocks one slot: its own, and what holds the whole node."""
    return [*blocks.get(index, ()), *blocks.get(WHOLE_NODE, ())]


def residue_left(row: Allocation) -> int:
    """On how many slots traces of this allocation are found and not overridden."""
    found = SlotResidue.objects.filter(node_id=row.node_id, state=ResidueState.FOUND)
    return found.filter(left_by=str(row.pk)).values("slot").distinct().count()


def override_of(row: Allocation) -> CleanupOverride | None:
    """The override of what an allocation left blocked: an open one before approved ones."""
    mine = Q(claim__allocation=row) | Q(residue__node_id=row.node_id, residue__left_by=str(row.pk))
    return CleanupOverride.objects.filter(mine).order_by("-approved_at", "created_at").first()
