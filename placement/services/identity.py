"""What follows when a host is otherwise than approved, and how is a difference accepted?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.kernel import clock, errors
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.hints import worded
from gpuaas.kernel.transitions import advance
from placement.domain.identity import (
    BLOCK,
    BUNDLE_CHANGED,
    CARD_SWAPPED,
    CARD_VANISHED,
    IOMMU_SHARED,
    Difference,
    SeenGpu,
    SlotIdentity,
    differences,
    host_differences,
    shared_groups,
)
from placement.errors import DifferenceNotAcceptable, ReasonMissing
from placement.models import (
    Claim,
    GpuDevice,
    IdentityDifference,
    Node,
    NodeIdentity,
    Slot,
)
from placement.node_tasks import TopologyReport, slot_bundle
from placement.selectors.identity import HEALTH
from placement.services.candidates import slot_fields
from placement.services.counting import count_free
from placement.services.division import as_approved
from placement.services.fabric import fabric_take
from placement.states import LIVE, SlotState

WATCH = system("identity")
KEPT = (SlotState.APPROVED, SlotState.BLOCKED)
_DUPLICATE = "gpu_uuid_duplicate"
MOST_ENDED = 200
"""How many differences that are over are kept of a node."""
_NAMED = ("slot_index", "gpu_uuid")


def bundle_of(devices: dict[str, Any]) -> dict[str, Any]:
    """What is handed over with a slot beside its GPU, whatever the slot's number is."""
    return {name: value for name, value in devices.items() if name not in _NAMED}


def seen_gpus(report: TopologyReport, node_num: int) -> list[SeenGpu]:
    """The GPUs of a discovery, each with what its candidate slot would hand over."""
    pci = {gpu.index: gpu.pci or "" for gpu in report.gpus}
    return [
        SeenGpu(
            uuid=candidate.gpu_uuid or "",
            pci=pci.get(candidate.gpu_index, ""),
            bundle=bundle_of(slot_bundle(candidate, node_num)[0]),
        )
        for candidate in report.slots
    ]


def identity_compare(
    node: Node,
    report: TopologyReport,
    *,
    elsewhere: Iterable[str],
    besides: Mapping[str, Sequence[str]],
    actor: Actor,
) -> tuple[Difference, ...]:
    """Keep what differs from what is approved, and block slots whose GPU nobody can vouch for.

    ``besides``: by GPU, what its IOMMU groups have that its slot has not. The node is locked. A
    difference that is seen no longer ends by itself; a slot that it blocked stays blocked until
    somebody approves it again.
    """
    places = dict(GpuDevice.objects.filter(node=node).values_list("uuid", "pci"))
    slots = {slot.index: slot for slot in Slot.objects.filter(node=node, state__in=KEPT)}
    own = [
        SlotIdentity(slot.index, slot.gpu_uuid, places.get(slot.gpu_uuid, ""), _held(slot))
        for slot in slots.values()
    ]
    found = differences(
        own,
        seen_gpus(report, node.num),
        elsewhere=frozenset(elsewhere),
        doubled=frozenset(
            finding.device
            for finding in report.findings
            if finding.code == _DUPLICATE and finding.device
        ),
    )
    was = NodeIdentity.objects.filter(node=node).first()
    found += host_differences(
        hostname=report.hostname,
        was_hostname=was.hostname if was else "",
        boot=node.boot_id,
        was_boot=was.boot_id if was else "",
    )
    found += shared_groups(own, besides)
    NodeIdentity.objects.update_or_create(
        node=node,
        defaults={
            "hostname": report.hostname,
            "boot_id": node.boot_id,
            "seen_at": clock.db_now(),
        },
    )
    moved = fabric_take(node, report)
    found += () if moved is None else (moved,)
    _keep(node, slots, found)
    blocked = 0
    for one in found:
        slot = slots.get(-1 if one.slot_index is None else one.slot_index)
        if slot is not None and one.outcome == BLOCK and slot.state == SlotState.APPROVED:
            blocked += 1
            slots[slot.index] = advance(
                slot,
                "block",
                actor=actor,
                reason=one.code,
                changes={"block_reason": one.detail[:200], "block_owner": WATCH.as_json()},
            )
    if blocked:
        # Before anybody claims it.
        count_free(node)
    return found


def _held(slot: Slot) -> dict[str, Any]:
    return bundle_of(slot.devices)


def _keep(node: Node, slots: dict[int, Slot], found: tuple[Difference, ...]) -> None:
    """Open rows for what is new, refresh what is known, end what is seen no longer."""
    now = clock.db_now()
    open_rows = {
        (row.slot_id, row.code, row.gpu_uuid): row
        for row in IdentityDifference.objects.filter(node=node, ended_at__isnull=True)
    }
    for one in found:
        slot = slots.get(-1 if one.slot_index is None else one.slot_index)
        key = (slot.pk if slot else None, one.code, one.uuid)
        row = open_rows.pop(key, None) or IdentityDifference(
            node=node, slot=slot, code=one.code, gpu_uuid=one.uuid, outcome=one.outcome
        )
        row.detail, row.seen_at = one.detail, now
        row.approved, row.discovered = dict(one.approved), dict(one.discovered)
        row.save()
        open_rows.pop(key, None)
    for row in open_rows.values():
        _end(row, "gone", WATCH)
    # Each boot ends one; a host that boots for ever must not fill the table. The events stay.
    ended = IdentityDifference.objects.filter(node=node, ended_at__isnull=False)
    old = ended.order_by("-ended_at", "-pk").values_list("pk", flat=True)[MOST_ENDED:]
    IdentityDifference.objects.filter(pk__in=list(old)).delete()


def _end(row: IdentityDifference, resolution: str, actor: Actor) -> None:
    row.ended_at, row.ended_by, row.resolution = clock.db_now(), actor.as_json(), resolution
    row.save(update_fields=["ended_at", "ended_by", "resolution"])


def acceptable(node: Node, slot_index: int) -> tuple[Slot, list[IdentityDifference]]:
    """The blocked slot and its open differences, when they can be accepted now.

    Raises NotFound, or DifferenceNotAcceptable with what would help.
    """
    slot = Slot.objects.filter(node=node, index=slot_index, state=SlotState.BLOCKED).first()
    if slot is None:
        raise errors.NotFound
    if slot.block_owner == HEALTH.as_json():
        raise DifferenceNotAcceptable(
            f"Slot {slot_index} is kept from new work for the health of its GPU {slot.gpu_uuid}, "
            f"not for a difference: {worded('{lift}')}.",
            codes=["health"],
        )
    live = Claim.objects.filter(
        node_num=node.num, state__in=LIVE, slot_index__in=[slot_index, -1]
    ).count()
    if live:
        raise DifferenceNotAcceptable(
            f"Slot {slot_index} is still held; release it first.", claims=live
        )
    rows = list(
        IdentityDifference.objects.filter(slot=slot, ended_at__isnull=True).order_by("created_at")
    )
    unsure = [row.code for row in rows if row.code in ("uuid_unknown", "duplicate_uuid")]
    if unsure:
        raise DifferenceNotAcceptable(
            f"Nobody can say which GPU slot {slot_index} has ({unsure[0]}); repair the host and "
            "discover again.",
            codes=unsure,
        )
    together = next((row for row in rows if row.code == IOMMU_SHARED), None)
    if together is not None:
        raise DifferenceNotAcceptable(
            f"Slot {slot_index} cannot be given away alone: {together.detail}. Separate the groups "
            "(ACS in the firmware, another slot of the board) and discover again.",
            codes=[IOMMU_SHARED],
        )
    return slot, rows


def accept(
    node: Node, slot: Slot, rows: list[IdentityDifference], *, reason: str, actor: Actor
) -> Slot:
    """Make the slot what was discovered; the node is locked. Its GPU gone, the slot retires.

    Without a difference it is approved again as it was.
    """
    if not reason.strip():
        raise ReasonMissing(errors=(errors.FieldError("/reason", "required", "say why"),))
    gone = any(row.code in (CARD_VANISHED, CARD_SWAPPED) for row in rows)
    for row in rows:
        _end(row, "accepted", actor)
    facts = {"differences": [row.code for row in rows]}
    if gone:
        # Wherever the card turns up again, it is a new one there.
        GpuDevice.objects.filter(node=node, uuid=slot.gpu_uuid).delete()
        return advance(slot, "retire", actor=actor, reason=reason, facts=facts)
    changes: dict[str, Any] = {"block_reason": "", "block_owner": None}
    changes |= _as_discovered(node, slot) if rows else {}
    slot = advance(slot, "unblock", actor=actor, reason=reason, changes=changes, facts=facts)
    approved = {"approved_by": actor.as_json(), "approved_at": clock.db_now()}
    return advance(slot, "approve", actor=actor, reason=reason, changes=approved)


def _as_discovered(node: Node, slot: Slot) -> dict[str, Any]:
    """The fields of the slot as the last discovery has them; its number stays."""
    report, left_out = as_approved(node, TopologyReport.from_json(node.topology))
    if slot.gpu_uuid in left_out:
        raise DifferenceNotAcceptable(
            f"Other slots have all CPUs or memory beside the GPU {slot.gpu_uuid} of slot "
            f"{slot.index}: put the card back, or give one of them up, and discover again.",
            codes=[BUNDLE_CHANGED],
        )
    for candidate in report.slots:
        if candidate.gpu_uuid == slot.gpu_uuid:
            return slot_fields(candidate, slot.index, node.num)
    raise DifferenceNotAcceptable(f"The last discovery has no GPU {slot.gpu_uuid}.")
