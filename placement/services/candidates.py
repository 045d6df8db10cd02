"""What does a candidate slot of a report look like as a row?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placement.node_tasks import CandidateSlot, DeviceMode, TopologyReport, slot_bundle


def beside(report: TopologyReport) -> dict[str, tuple[str, ...]]:
    """By GPU, the devices that VFIO would give away with its slot although they are not of it.

    VFIO gives whole IOMMU groups, so of two slots that share one, neither can be given alone. What
    a host did not tell is not in here: that is unknown, and its readiness evidence says so.
    """
    told = {
        fact.device: fact.value.split()
        for fact in report.facts
        if fact.name == "iommu_group_others" and fact.device and fact.value
    }
    if not told:
        return {}
    places = {one.id: one.pci for one in (*report.nics,)} | {n.id: n.pci for n in report.nvmes}
    gpus = {gpu.index: gpu.pci for gpu in report.gpus}
    found = {}
    for slot in report.slots:
        names = [slot.nic, *slot.extra_nics] if slot.nic_mode is DeviceMode.EXCLUSIVE else []
        names += [slot.nvme, *slot.extra_nvmes] if slot.nvme_mode is DeviceMode.EXCLUSIVE else []
        own = {gpus.get(slot.gpu_index)} | {places.get(name) for name in names if name}
        others = {one for pci in own if pci for one in told.get(pci, ())} - own
        if slot.gpu_uuid and others:
            found[slot.gpu_uuid] = tuple(sorted(others))
    return found


def slot_fields(candidate: CandidateSlot, index: int, node_num: int) -> dict[str, Any]:
    """The fields of the slot with that number; a report's own numbers are not kept."""
    devices, uids = slot_bundle(replace(candidate, index=index), node_num)
    return {
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
