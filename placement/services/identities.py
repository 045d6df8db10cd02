"""Whose is a physical device?  One slot's: two that name it are told apart before they are sold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from django.db.models import Q

from placement.errors import DeviceInTwoSlots
from placement.models import Slot
from placement.states import SlotState

SAID = 5
"""How many devices a refusal names; the rest is counted."""


def clashes(slots: Sequence[Slot]) -> dict[str, list[Slot]]:
    """The devices of these slots that another names too: one of them, or an approved one anywhere.

    A slot that was approved and is blocked keeps its devices until it is given up.
    """
    mine = {uid for slot in slots for uid in slot.device_uids}
    held = Q(state=SlotState.APPROVED) | Q(state=SlotState.BLOCKED, approved_at__isnull=False)
    others = Slot.objects.select_related("node").filter(
        Q(pk__in=[slot.pk for slot in slots]) | held, device_uids__overlap=sorted(mine)
    )
    found: dict[str, list[Slot]] = defaultdict(list)
    for slot in others.order_by("node__name", "index"):
        for uid in mine.intersection(slot.device_uids):
            found[uid].append(slot)
    return {uid: of for uid, of in sorted(found.items()) if len(of) > 1}


def one_slot_each_or_refuse(slots: Sequence[Slot]) -> None:
    """Raises DeviceInTwoSlots, with the devices, slots and nodes, when a device has two slots."""
    found = clashes(slots)
    if not found:
        return
    said = [
        f"{uid} is in {' and '.join(f'slot {s.index} of {s.node.name}' for s in of)}"
        for uid, of in list(found.items())[:SAID]
    ]
    more = f"; {len(found) - SAID} more devices likewise" if len(found) > SAID else ""
    raise DeviceInTwoSlots(
        "; ".join(said) + more + ".",
        devices={uid: [f"{s.node.name}/{s.index}" for s in of] for uid, of in found.items()},
    )
