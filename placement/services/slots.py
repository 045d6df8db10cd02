"""How does a report of a host's topology become slots, without ever changing approved ones?"""

from __future__ import annotations

from collections.abc import Iterable

from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.wiring import NONE
from placement.models import GpuDevice, Node, Slot
from placement.models.inventory import NicMode
from placement.node_tasks import TopologyReport, slot_bundle
from placement.states import NodeState, SlotState

OPEN = (SlotState.CANDIDATE, SlotState.VERIFIED)


def layout_of(slots: Iterable[Slot]) -> tuple[str, int]:
    """The node's compact layout (placement.domain.wiring) and its exclusive-NIC mask."""
    parts: dict[int, str] = {}
    names: dict[str, int] = {}
    mask = 0

    def short(value: str) -> str:
        return str(names.setdefault(value, len(names))) if value else ""

    for slot in slots:
        numa = "" if slot.numa is None else str(slot.numa)
        nic = NONE if slot.nic_mode == NicMode.NONE else short(slot.nic)
        parts[slot.index] = f"{numa}.{short(slot.switch)}.{short(slot.nvlink_domain)}.{nic}"
        if slot.nic_mode == NicMode.EXCLUSIVE:
            mask |= 1 << slot.index
    last = max(parts, default=-1)
    return "|".join(parts.get(k, "...") for k in range(last + 1)), mask


def _devices(node: Node, report: TopologyReport) -> list[str]:
    """Keep what the GPUs are; UUIDs that another node already has are an identity conflict.

    A retired node has none: its GPUs may come back in another host, or under another name.
    """
    conflicts = []
    now = clock.db_now()
    for gpu in report.gpus:
        if gpu.uuid is None:
            continue
        others = GpuDevice.objects.filter(uuid=gpu.uuid).exclude(node=node)
        if others.exclude(node__state=NodeState.RETIRED).exists():
            conflicts.append(gpu.uuid)
            continue
        GpuDevice.objects.update_or_create(
            uuid=gpu.uuid,
            defaults={
                "node": node,
                "uuid_source": gpu.uuid_source.value,
                "index": gpu.index,
                "pci": gpu.pci or "",
                "model": gpu.model or "",
                "memory_bytes": gpu.memory_bytes,
                "numa": gpu.numa,
                "switch": gpu.switch or "",
                "seen_at": now,
            },
        )
    return conflicts


def _sold(report: TopologyReport) -> dict[str, Slot]:
    """The slots, of whichever node, that have the reported GPUs already."""
    uuids = [slot.gpu_uuid for slot in report.slots if slot.gpu_uuid]
    rows = Slot.objects.select_related("node").filter(gpu_uuid__in=uuids)
    return {slot.gpu_uuid: slot for slot in rows.exclude(state=SlotState.RETIRED)}


def _known(node: Node, report: TopologyReport, actor: Actor) -> dict[int, Slot]:
    """The node's slots by index. A candidate whose GPU is another one now is begun anew."""
    told = {slot.index: slot.gpu_uuid for slot in report.slots}
    known = {}
    for slot in Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED):
        if slot.state in OPEN and told.get(slot.index) not in (None, slot.gpu_uuid):
            advance(slot, "retire", actor=actor, reason="another GPU is reported there")
        else:
            known[slot.index] = slot
    return known


def slots_take(node: Node, report: TopologyReport, *, actor: Actor) -> list[str]:
    """Turn a report into verified candidates; the node is locked. Returns what differs.

    Candidates follow the report. Approved slots stay as they are: a difference is returned
    in words, for an operator to see and decide.
    """
    differences = [f"GPU {uuid} belongs to another node" for uuid in _devices(node, report)]
    conflicted = {text.split()[1] for text in differences}
    known = _known(node, report, actor)
    sold = _sold(report)
    seen: set[int] = set()
    for candidate in report.slots:
        seen.add(candidate.index)
        if candidate.gpu_uuid is None:
            differences.append(f"slot {candidate.index}: the GPU has no UUID; it is not sold")
            continue
        if candidate.gpu_uuid in conflicted:
            continue
        held = sold.get(candidate.gpu_uuid)
        if held is not None and (held.node_id, held.index) != (node.pk, candidate.index):
            differences.append(
                f"slot {candidate.index}: its GPU {candidate.gpu_uuid} is slot {held.index} of "
                f"{held.node.name}; retire that node or put the GPU back, then discover again"
            )
            continue
        devices, uids = slot_bundle(candidate, node.num)
        fields = {
            "gpu_uuid": candidate.gpu_uuid,
            "gpu_index": candidate.gpu_index,
            "numa": candidate.numa,
            "switch": candidate.switch or "",
            "nvlink_domain": candidate.nvlink_domain or "",
            "cpuset": candidate.cpuset or "",
            "memory_bytes": candidate.memory_bytes,
            "nic": candidate.nic or "",
            "nic_mode": candidate.nic_mode.value,
            "nvme": candidate.nvme or "",
            "nvme_mode": candidate.nvme_mode.value,
            "devices": devices,
            "device_uids": uids,
        }
        slot = known.get(candidate.index)
        if slot is None:
            slot = Slot.objects.create(node=node, index=candidate.index, **fields)
        elif slot.state in OPEN:
            for name, value in fields.items():
                setattr(slot, name, value)
            slot.save(update_fields=list(fields))
        elif slot.devices != devices:
            differences.append(f"slot {slot.index}: reported otherwise than approved")
        if slot.state == SlotState.CANDIDATE:
            advance(slot, "verify", actor=actor, reason="reported")
    for index, slot in known.items():
        if index not in seen:
            differences.append(f"slot {index}: no longer reported")
            if slot.state in OPEN:
                advance(slot, "retire", actor=actor, reason="no longer reported")
    return differences
