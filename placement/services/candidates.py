"""What does a candidate slot of a report look like as a row?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placement.node_tasks import CandidateSlot, slot_bundle


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
