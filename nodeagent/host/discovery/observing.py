"""Which of the known devices are there now, and which need somebody?

Presence has three values. A device that the bus still lists but its driver cannot reach is
unknown, not absent; a library that cannot be asked says nothing about any device. Nor does it take
back what it has said: whoever reads a report takes a condition that is not in it for over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.discovery.bus import PciDevice, read_bus, with_serials
from nodeagent.host.discovery.gpus import (
    REPLACED,
    Libraries,
    ask_libraries,
    identify,
    named_by_library,
)
from nodeagent.host.discovery.memory import GpuMemory
from nodeagent.host.discovery.memory import said as said_of
from nodeagent.host.discovery.rooted import AskRoot
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.nvml import GpuRecord, Nvml
from nodeagent.host.nvml.library import HANGS, LOST, NOBODY, SLOW
from nodeagent.protocol import (
    Condition,
    Gpu,
    Nic,
    Nvme,
    ObservedDevice,
    ObservedDevices,
    Presence,
    TopologyReport,
)
from nodeagent.topology.pci import DeviceKind

_MOST_CONDITIONS = 256
# What only the driver says, and takes back; of which fact it is, where it is of one.
_LOST, _RECOVERY, _REMAP = "gpu_lost", "gpu_recovery_required", "gpu_row_remap_failed"
_FACT_OF = {_RECOVERY: "recovery_action", _REMAP: "remapped_rows_failed"}


@dataclass(frozen=True)
class DeviceSight:
    """Devices of the last report as they are now, and what is wrong with them."""

    devices: ObservedDevices
    conditions: tuple[Condition, ...]


def observe_devices(
    report: TopologyReport,
    root: Path = Path("/"),
    nvml: Nvml | None = None,
    memory: GpuMemory | None = None,
    ask_root: AskRoot | None = None,
    before: Sequence[Condition] = (),
) -> DeviceSight:
    """Look at the devices of a report again. Holders and cleanliness are the caller's to add.

    ask_root: the serial numbers of cards that no driver names now. before: the conditions of the
    look before, some of which stand where the driver cannot be asked now.
    """
    bus = read_bus(Tree(root))
    said = ask_libraries(nvml, bus, wiring=False)
    named = named_by_library(said)
    if ask_root is not None and any(
        one.kind is DeviceKind.GPU and one.address not in named for one in bus.values()
    ):
        bus = with_serials(bus, ask_root)
    here: dict[str, GpuRecord | None] = {}
    for device in bus.values():
        record = next((one for one in said.nvml if one.pci.value == device.address), None)
        uuid = identify(device, record, said, memory).uuid.value
        if uuid is not None:
            here[uuid] = record
    for record in said.nvml:
        if record.uuid.value is not None:
            here.setdefault(record.uuid.value, record)
    listed = frozenset(bus)
    replaced = _replaced(bus, named, memory, before)
    here = {uuid: one for uuid, one in here.items() if one is not None or uuid not in replaced}
    known = [gpu for gpu in report.gpus if gpu.uuid is not None]
    conditions = [Condition(REPLACED, why, device=uuid) for uuid, why in replaced.items()]
    conditions += [
        condition
        for gpu in known
        if gpu.uuid not in replaced
        for condition in (
            *_gpu_conditions(gpu, here, listed, said),
            *_standing(here.get(gpu.uuid or ""), said, [c for c in before if c.device == gpu.uuid]),
        )
    ]
    gpus = tuple(
        ObservedDevice(gpu.uuid or "", _gpu_presence(gpu, here, listed, said)) for gpu in known
    )
    if said.nvml_reason == HANGS:
        # Also where every GPU is remembered: nothing can be started on them or cleaned meanwhile.
        conditions.insert(0, Condition(HANGS, "a call into the GPUs' driver does not come back"))
    conditions += [
        Condition("device_missing", f"{what} {one.id} is no longer on the bus", device=one.id)
        for what, family in (("NIC", report.nics), ("NVMe", report.nvmes))
        for one in family
        if _presence(one, listed) is Presence.ABSENT
    ]
    return DeviceSight(
        ObservedDevices(
            gpus=gpus,
            nics=tuple(ObservedDevice(one.id, _presence(one, listed)) for one in report.nics),
            nvmes=tuple(ObservedDevice(one.id, _presence(one, listed)) for one in report.nvmes),
        ),
        tuple(conditions[:_MOST_CONDITIONS]),
    )


def _replaced(
    bus: Mapping[str, PciDevice],
    named: AbstractSet[str],
    memory: GpuMemory | None,
    before: Sequence[Condition],
) -> dict[str, str]:
    """By UUID of the card that was there: which one is there now, that no driver names.

    What a look before has found stands while the serial number cannot be read.
    """
    earlier = {one.device: one.detail for one in before if one.code == REPLACED}
    found: dict[str, str] = {}
    for device in bus.values():
        if memory is None or device.kind is not DeviceKind.GPU or device.address in named:
            continue
        other, known = memory.replaced(device), memory.recall(device)
        if other is not None:
            found[other.uuid] = said_of(other, device)
        elif known is not None and device.serial.presence is Presence.UNKNOWN:
            found |= {known.uuid: earlier[known.uuid]} if known.uuid in earlier else {}
    return found


def _presence(device: Nic | Nvme, listed: frozenset[str]) -> Presence:
    if device.pci is None or not listed:
        return Presence.UNKNOWN
    return Presence.PRESENT if device.pci in listed else Presence.ABSENT


def _gpu_presence(
    gpu: Gpu, here: dict[str, GpuRecord | None], listed: frozenset[str], said: Libraries
) -> Presence:
    if gpu.uuid in here:
        record = here[gpu.uuid]
        # Its name may come from what the driver remembers of it.
        return Presence.UNKNOWN if record is not None and record.lost else Presence.PRESENT
    if gpu.pci in listed or not listed:
        return Presence.UNKNOWN
    return Presence.UNKNOWN if _some_lost(said) else Presence.ABSENT


def _some_lost(said: Libraries) -> bool:
    """NVML counts a GPU that it cannot reach: it may be any of those that are not seen."""
    return any(record.uuid.reason in LOST for record in said.nvml)


def _why_unnamed(said: Libraries) -> str:
    """What the driver says instead of a name, of those that it cannot reach."""
    told = sorted({one.uuid.reason for one in said.nvml if one.uuid.value is None})
    return ", ".join(told) or "the driver does not name it"


def _gpu_conditions(
    gpu: Gpu, here: dict[str, GpuRecord | None], listed: frozenset[str], said: Libraries
) -> list[Condition]:
    uuid = gpu.uuid or ""
    if uuid not in here:
        presence = _gpu_presence(gpu, here, listed, said)
        if presence is Presence.ABSENT:
            return [Condition("device_missing", "the GPU is no longer on the bus", device=uuid)]
        if not listed:
            return [Condition("bus_unreadable", "the PCI bus cannot be read", device=uuid)]
        if said.nvml_reason == SLOW:
            # It answers, only not in time for this look: the next look may have it.
            return []
        lost = _some_lost(said)
        why = "the driver has lost it" if lost else said.nvml_reason or _why_unnamed(said)
        code = _LOST if lost else "gpu_unreadable"
        return [Condition(code, f"the GPU cannot be identified: {why}", device=uuid)]
    record = here[uuid]
    if record is None:
        return []
    found: list[Condition] = []
    if record.lost:
        detail = "the driver lost it while it was read; what it is now is unknown"
        found.append(Condition(_LOST, detail, device=uuid))
    action = record.facts["recovery_action"].value
    if action not in (None, "none"):
        detail = f"the driver asks for {action}"
        found.append(Condition(_RECOVERY, detail, device=uuid))
    if record.facts["remapped_rows_failed"].value:
        found.append(Condition(_REMAP, "a row could not be remapped", device=uuid))
    return found


def _standing(
    record: GpuRecord | None, said: Libraries, before: Sequence[Condition]
) -> list[Condition]:
    """What the driver last said of a GPU, where it says nothing of that now.

    So it is while it is let go of for another GPU, hangs or is slow. Where there is none at all,
    there is nobody who could ever take it back.
    """
    if record is None:
        asked = not said.nvml_reason or said.nvml_reason in NOBODY
        return [] if asked else [one for one in before if one.code in (_LOST, *_FACT_OF)]
    return [
        one
        for one in before
        if one.code in _FACT_OF and record.facts[_FACT_OF[one.code]].presence is Presence.UNKNOWN
    ]
