"""On which things of a simulated host does a tenant leave data?"""

from __future__ import annotations

from nodeagent.protocol import SlotDevices

OS_DISK = "os"


def scratch_volume(slot_index: int) -> str:
    """The host volume that a slot's machine writes to."""
    return f"scratch:{slot_index}"


def device_ids(slot: SlotDevices) -> list[str]:
    """Everything of a slot that keeps data."""
    return [
        slot.gpu_uuid,
        *slot.all_nics(),
        *slot.all_nvmes(),
        scratch_volume(slot.slot_index),
    ]
