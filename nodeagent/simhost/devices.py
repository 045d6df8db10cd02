"""On which things of a simulated host does a tenant leave data?"""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.protocol import GpuPart, PartKind, SlotDevices

OS_DISK = "os"


def scratch_volume(slot_index: int) -> str:
    """The host volume that a slot's machine writes to."""
    return f"scratch:{slot_index}"


def part_id(gpu_uuid: str, part: GpuPart, allocation: str) -> str:
    """A part of a GPU as a thing of its own: an instance by its place, a share by whose it is."""
    if part.kind is PartKind.MIG:
        return f"mig:{gpu_uuid}:{part.start}:{part.size}"
    return f"share:{gpu_uuid}:{allocation}"


def gpu_of(device: str) -> str | None:
    """The GPU that a part belongs to; None for any other device."""
    kind, _, rest = device.partition(":")
    return rest.split(":")[0] if kind in ("mig", "share") else None


def part_scratch(slot_index: int, part_device: str) -> str:
    """The host volume that the machine with a part writes to."""
    return f"{scratch_volume(slot_index)}:{part_device}"


def on_gpu(gpu_uuid: str, devices: Iterable[str]) -> list[str]:
    """Those of the devices that are the GPU, or parts of it."""
    return [device for device in devices if gpu_uuid in (device, gpu_of(device))]


def device_ids(slot: SlotDevices, allocation: str) -> list[str]:
    """Everything of a slot, or of the part of it, that keeps data."""
    if slot.part is not None:
        device = part_id(slot.gpu_uuid, slot.part, allocation)
        return [device, part_scratch(slot.slot_index, device)]
    return [
        slot.gpu_uuid,
        *slot.all_nics(),
        *slot.all_nvmes(),
        scratch_volume(slot.slot_index),
    ]
