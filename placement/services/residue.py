"""What does a host's report say about traces of earlier tenants, slot by slot?

Unknown is not absent: what a report does not speak of stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.capacity import RESIDUE
from placement.domain.residue import Said, SlotParts, known_clean, proven_clean, touched
from placement.models import Node, Slot, SlotResidue
from placement.node_tasks import ObservedReport
from placement.selectors.nodes import slot_list
from placement.states import OPEN_RESIDUE, ResidueState


def parts_of(slot: Slot) -> SlotParts:
    """The slot's devices as a report names them."""
    given = slot.devices
    own = {
        slot.gpu_uuid,
        given.get("nic"),
        given.get("nvme"),
        *given.get("extra_nics", ()),
        *given.get("extra_nvmes", ()),
    }
    kept = frozenset(device for device in own if device)
    return SlotParts(slot.index, kept, frozenset({slot.nic, slot.nvme} - {""}) - kept)


def residue_take(
    node: Node, message: ObservedReport, conditions: Iterable[dict[str, Any]], *, actor: Actor
) -> bool:
    """Bring what is known of the node's slots to a report; the node is locked.

    Each condition about traces learns the ``slots`` that it touches. Returns whether what
    may be leased has changed.
    """
    told = [c for c in conditions if c["code"] == RESIDUE and c.get("device")]
    known = list(SlotResidue.objects.filter(node=node, state__in=OPEN_RESIDUE).order_by("id"))
    if not told and not known:
        return False
    slots = {slot.index: slot for slot in slot_list(node)}
    parts = {index: parts_of(slot) for index, slot in slots.items()}
    standing = {(row.slot_id, row.left_by) for row in known}
    dirty, changed = set(), False
    for condition in told:
        indices = touched(condition["device"], parts.values())
        condition["slots"] = indices
        left_by = condition.get("claim_ref") or ""
        for index in indices:
            dirty.add(slots[index].pk)
            if (slots[index].pk, left_by) not in standing:
                standing.add((slots[index].pk, left_by))
                _found(slots[index], left_by, condition["detail"], actor)
                changed = True
    clean = known_clean(_said(message))
    by_id = {slot.pk: parts[index] for index, slot in slots.items()}
    for row in known:
        here = by_id.get(row.slot_id)
        gone = here is None or (row.slot_id not in dirty and proven_clean(here, clean))
        if gone:
            why = "the host says that the slot is clean" if here else "the slot is retired"
            changed = changed or row.state == ResidueState.FOUND
            advance(row, "prove", actor=actor, reason=why, changes={"ended_at": clock.db_now()})
    return changed


def _found(slot: Slot, left_by: str, detail: str, actor: Actor) -> None:
    row = SlotResidue.objects.create(
        node_id=slot.node_id, slot=slot, left_by=left_by, detail=detail
    )
    events.record(
        kind="placement.slotresidue.find",
        subject=row,
        actor=actor,
        after={"state": row.state},
        reason=RESIDUE,
        facts={"slot": str(slot.pk), "slot_index": slot.index, "allocation": left_by},
    )


def _said(message: ObservedReport) -> list[Said]:
    devices = message.devices
    return [
        Said(one.id, one.presence.value == "present", one.holder is not None, one.clean)
        for one in (*devices.gpus, *devices.nics, *devices.nvmes)
    ]
