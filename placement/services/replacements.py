"""How does a slot go on with another card in the place of its failed one?

An operator declares it, which takes the slot out of sale; the next discovery shows the new card
as a difference; its approval continues the slot's number with the new identity. The old card
stays in the history. Without the second step nothing is sold.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.identity import CARD_SWAPPED
from placement.errors import CardInUse, CardNotSeen
from placement.models import (
    CardReplacement,
    Claim,
    DeviceHealth,
    GpuDevice,
    IdentityDifference,
    Node,
    Slot,
)
from placement.services.differences import slot_accept
from placement.services.health import health_lift, health_refresh
from placement.services.identities import one_slot_each_or_refuse
from placement.services.nodes import discovery_order, locked, need_reason, recount
from placement.services.slots import lay_out
from placement.states import LIVE, ReplacementState, SlotState

_FACTS = ("uuid", "uuid_source", "index", "pci", "model", "memory_bytes", "numa", "switch")


def replacement_open(node: Node, slot_index: int) -> CardReplacement | None:
    """What was declared of a slot and is neither approved nor given up."""
    return CardReplacement.objects.filter(
        node=node, slot_index=slot_index, state=ReplacementState.DECLARED
    ).first()


def card_seen(row: CardReplacement) -> dict[str, Any] | None:
    """The card that the last discovery found in the old one's place; None before that."""
    difference = IdentityDifference.objects.filter(
        slot_id=row.slot_id, code=CARD_SWAPPED, ended_at__isnull=True
    ).first()
    if difference is None or not difference.discovered.get("gpu_uuid"):
        return None
    found: dict[str, Any] = difference.discovered
    return found


def _slot(node: Node, slot_index: int) -> Slot:
    slot = Slot.objects.filter(node=node, index=slot_index).exclude(state=SlotState.RETIRED).first()
    if slot is None:
        raise errors.NotFound
    return slot


@transaction.atomic
def card_replace(*, node_id: UUID, slot_index: int, reason: str, actor: Actor) -> CardReplacement:
    """Declare that a slot's card was replaced: it is sold no more, and the host looks anew.

    Repeating is one. Raises CardInUse while a live claim holds the slot.
    """
    why = need_reason(reason)
    node = locked(node_id)
    known = replacement_open(node, slot_index)
    if known is not None:
        return known
    slot = _slot(node, slot_index)
    live = Claim.objects.filter(
        node_num=node.num, state__in=LIVE, slot_index__in=[slot_index, -1]
    ).count()
    if live:
        raise CardInUse(f"Slot {slot_index} of {node.name} is held.", claims=live)
    device = GpuDevice.objects.filter(node=node, uuid=slot.gpu_uuid).first()
    row = CardReplacement.objects.create(
        node=node,
        slot=slot,
        slot_index=slot_index,
        old_uuid=slot.gpu_uuid,
        old_device={name: getattr(device, name) for name in _FACTS} if device else {},
        reason=why,
        declared_by=actor.as_json(),
    )
    events.record(
        kind="placement.cardreplacement.declare",
        subject=row,
        actor=actor,
        after={"state": row.state},
        reason=why,
        facts={
            "node": node.name,
            "slot_index": slot_index,
            "old_uuid": slot.gpu_uuid,
            "blocked_before_by": slot.block_owner,
        },
    )
    block = {"block_reason": "its card was replaced", "block_owner": actor.as_json()}
    if slot.state != SlotState.BLOCKED:
        advance(slot, "block", actor=actor, reason=why, changes=block)
    else:
        # Most cards are replaced because automation blocked them. From now on the block is the
        # operator's: with the old card its trouble goes, and the slot must not be sold by that.
        Slot.objects.filter(pk=slot.pk).update(**block)
    discovery_order(node)
    recount(node)
    return row


@transaction.atomic
def card_approve(*, node_id: UUID, slot_index: int, reason: str, actor: Actor) -> CardReplacement:
    """Continue the slot with the card that was discovered in its place. Repeating is one.

    Raises CardNotSeen before a discovery has found another card there, NotFound where nothing
    was declared.
    """
    why = need_reason(reason)
    node = locked(node_id)
    row = replacement_open(node, slot_index)
    if row is None:
        done = CardReplacement.objects.filter(
            node=node, slot_index=slot_index, state=ReplacementState.APPROVED
        )
        last = done.order_by("-state_since").first()
        if last is None:
            raise errors.NotFound
        return last
    seen = card_seen(row)
    if seen is None:
        raise CardNotSeen(
            f"The last discovery found no other card in slot {slot_index} of {node.name}.",
            old_uuid=row.old_uuid,
        )
    slot_accept(node_id=node_id, slot_index=slot_index, reason=why, actor=actor)
    node = locked(node_id)
    fresh = Slot.objects.filter(
        node=node, gpu_uuid=seen["gpu_uuid"], state=SlotState.VERIFIED
    ).first()
    if fresh is None:
        raise CardNotSeen(f"The card {seen['gpu_uuid']} is not offered as a slot here.")
    one_slot_each_or_refuse([fresh])
    approved = {"approved_by": actor.as_json(), "approved_at": clock.db_now()}
    fresh = advance(fresh, "approve", actor=actor, reason=why, changes=approved)
    row = advance(
        row,
        "approve",
        actor=actor,
        reason=why,
        changes={"new_uuid": fresh.gpu_uuid, "new_slot": fresh},
        facts={"node": node.name, "slot_index": fresh.index, "old_uuid": row.old_uuid},
    )
    lay_out(node)
    node.save(update_fields=["slot_count", "layout", "exclusive_mask"])
    if DeviceHealth.objects.filter(node=node, gpu_uuid=row.old_uuid).exists():
        # What is known against a card that is gone is nothing against the host.
        health_lift(node_id=node_id, gpu_uuid=row.old_uuid, reason=why, actor=actor)
        node = locked(node_id)
    recount(node)
    health_refresh(node)
    return row


@transaction.atomic
def card_cancel(*, node_id: UUID, slot_index: int, reason: str, actor: Actor) -> CardReplacement:
    """Take a declaration back: the old card is there after all. Repeating is one.

    The slot stays blocked until somebody accepts it as it is.
    """
    why = need_reason(reason)
    node = locked(node_id)
    row = replacement_open(node, slot_index)
    if row is None:
        last = CardReplacement.objects.filter(node=node, slot_index=slot_index)
        found = last.filter(state=ReplacementState.CANCELLED).order_by("-state_since").first()
        if found is None:
            raise errors.NotFound
        return found
    return advance(row, "cancel", actor=actor, reason=why)
