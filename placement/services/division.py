"""How does a discovery read once what was approved has gone first?  (placement.domain.division)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from placement.domain.division import EXCLUSIVE, Devices, Room, Share, divided
from placement.models import Claim, Node, Slot
from placement.node_tasks import CandidateSlot, DeviceMode, TopologyReport, cpu_list, cpu_numbers
from placement.states import LIVE, SlotState

KEPT = (SlotState.APPROVED, SlotState.BLOCKED)


def as_approved(node: Node, report: TopologyReport) -> tuple[TopologyReport, frozenset[str]]:
    """The report with its slots divided so that approved ones keep what they have.

    With it the GPUs for which nothing is left. What a report says of an approved slot otherwise
    than approved is then a difference that somebody has to decide.
    """
    rows = Slot.objects.filter(node=node, state__in=KEPT, approved_at__isnull=False)
    # Those that are sold come first: one that is blocked yields to them.
    slots = sorted(rows, key=lambda slot: (slot.state != SlotState.APPROVED, slot.index))
    approved = [_share_of(slot) for slot in slots]
    if not approved:
        return report, frozenset()
    seen = [share for one in report.slots if (share := _seen(one)) is not None]
    division = divided(approved, seen, _rooms(report), _in_use(node, slots))
    told = tuple(
        _candidate(one, division.shares[one.gpu_uuid]) if one.gpu_uuid else one
        for one in report.slots
    )
    return replace(report, slots=told), division.left_out


def _in_use(node: Node, slots: Iterable[Slot]) -> frozenset[str]:
    """The GPUs of slots that a live claim has; number -1 is the whole host."""
    live = Claim.objects.filter(node_num=node.num, state__in=LIVE)
    held = set(live.values_list("slot_index", flat=True))
    return frozenset(slot.gpu_uuid for slot in slots if held & {slot.index, -1})


def _rooms(report: TopologyReport) -> dict[int, Room]:
    return {one.id: Room(cpu_numbers(one.cpuset), one.memory_bytes) for one in report.numa}


def _share_of(slot: Slot) -> Share:
    given = slot.devices
    return Share(
        uuid=slot.gpu_uuid,
        numa=given.get("numa"),
        cpus=cpu_numbers(given.get("cpuset")),
        memory=given.get("memory_bytes"),
        nics=_devices(
            given.get("nic_mode", "unknown"), given.get("nic"), given.get("extra_nics") or ()
        ),
        nvmes=_devices(
            given.get("nvme_mode", "unknown"), given.get("nvme"), given.get("extra_nvmes") or ()
        ),
    )


def _seen(one: CandidateSlot) -> Share | None:
    if one.gpu_uuid is None:
        return None
    return Share(
        uuid=one.gpu_uuid,
        numa=one.numa,
        cpus=cpu_numbers(one.cpuset),
        memory=one.memory_bytes,
        nics=_devices(one.nic_mode.value, one.nic, one.extra_nics),
        nvmes=_devices(one.nvme_mode.value, one.nvme, one.extra_nvmes),
    )


def _devices(mode: str, first: str | None, more: Iterable[str]) -> Devices:
    """Only what is handed over: a shared device is nobody's."""
    ids = tuple(one for one in (first, *more) if one is not None)
    return Devices(mode, ids if mode == EXCLUSIVE else ())


def _candidate(one: CandidateSlot, share: Share) -> CandidateSlot:
    """The candidate with this share; where nothing changed, as it was told."""
    was = _seen(one)
    assert was is not None
    if share == was:
        return one
    changed = replace(
        one,
        cpuset=one.cpuset if share.cpus == was.cpus else cpu_list(share.cpus or ()) or None,
        memory_bytes=share.memory or None,
    )
    if share.nics != was.nics:
        first, *more = share.nics.ids or (None,)
        mode = DeviceMode(share.nics.mode)
        # Of a NIC that was shared, only that it was is approved.
        nic = one.nic if mode is DeviceMode.SHARED else first
        changed = replace(changed, nic=nic, nic_mode=mode, extra_nics=tuple(filter(None, more)))
    if share.nvmes != was.nvmes:
        first, *more = share.nvmes.ids or (None,)
        mode = DeviceMode(share.nvmes.mode)
        nvme = one.nvme if mode is DeviceMode.SHARED else first
        changed = replace(changed, nvme=nvme, nvme_mode=mode, extra_nvmes=tuple(filter(None, more)))
    return changed
