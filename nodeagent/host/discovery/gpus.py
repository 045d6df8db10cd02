"""Which GPUs has the host?  The bus says that they are there, the libraries say who they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodeagent.host.discovery.amd import AmdGpu, AmdReading, read_amd
from nodeagent.host.discovery.bus import PciDevice, group_fact
from nodeagent.host.discovery.machine import Facts
from nodeagent.host.discovery.memory import GpuMemory, KnownGpu, marks_of
from nodeagent.host.discovery.memory import said as said_of
from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.host.nvml import GpuRecord, Nvml, NvmlUnavailable, read_gpus
from nodeagent.host.nvml.device import LINK_CPU, LINK_SWITCH
from nodeagent.host.nvml.fabric import NOT_READY
from nodeagent.host.nvml.fabric import on_the_wire as fabric_on_the_wire
from nodeagent.protocol import Gpu, GpuFabric, Presence, UuidSource
from nodeagent.topology.model import Draft
from nodeagent.topology.nvlink import CPU_CLASS, NVSWITCH_CLASS, RawLink
from nodeagent.topology.pci import AMD, NVIDIA, DeviceKind, address_key

# Where no daemon keeps GPUs initialised, a driver takes a second or two for each, in one call or in
# several. A discovery waits for as long as calls come back; a look must not keep its host silent.
REPLACED = "gpu_serial_changed"
LINKS_UNTOLD = "nvlink_unreadable"
_BY_LIBRARY = frozenset({UuidSource.NVML, UuidSource.AMDSMI})
_READ_CALL_S = 60.0
_LOOK_CALL_S, _MOST_LOOK_S = 15.0, 20.0


@dataclass(frozen=True)
class Libraries:
    """What the vendors' libraries said. `nvml_reason` is why NVML could not be asked, if so."""

    nvml: tuple[GpuRecord, ...]
    nvml_reason: str
    amd: AmdReading


@dataclass(frozen=True)
class Identity:
    """Who a GPU is, and who says so."""

    uuid: Fact[str]
    source: UuidSource
    model: Fact[str]
    memory_bytes: Fact[int]


def ask_libraries(
    nvml: Nvml | None, bus: Mapping[str, PciDevice], *, wiring: bool = True
) -> Libraries:
    """Ask those libraries whose vendor's cards are on the bus, and NVML always. Never raises.

    A driver that hangs is not waited for: then nobody knows what it would have said. Of one that is
    only slow a look that is not waited for is the next one's answer.
    """
    if nvml is None:
        return _ask(None, bus, wiring)
    try:
        if wiring:
            return nvml.within(_READ_CALL_S, lambda: _ask(nvml, bus, wiring))
        return nvml.within(
            _LOOK_CALL_S, lambda: _ask(nvml, bus, wiring), most_s=_MOST_LOOK_S, late="look"
        )
    except NvmlUnavailable as error:
        return Libraries((), error.reason, AmdReading({}, error.reason))


def _ask(nvml: Nvml | None, bus: Mapping[str, PciDevice], wiring: bool) -> Libraries:
    records: list[GpuRecord] = []
    reason = "not_asked" if nvml is None else ""
    if nvml is not None:
        try:
            with nvml.session() as session:
                records = read_gpus(session, wiring=wiring)
        except NvmlUnavailable as error:
            reason = error.reason
    has_amd = any(one.kind is DeviceKind.GPU and one.vendor == AMD for one in bus.values())
    if not has_amd:
        return Libraries(tuple(records), reason, AmdReading({}, "no_card"))
    return Libraries(tuple(records), reason, _ask_amd(nvml))


def _ask_amd(nvml: Nvml | None) -> AmdReading:
    """AMD's library holds GPUs open while it is asked, as NVML does."""
    if nvml is None:
        return read_amd()
    try:
        with nvml.holding():
            return read_amd(nvml.answered)
    except NvmlUnavailable as error:
        return AmdReading({}, error.reason)


def add_gpus(
    draft: Draft, bus: Mapping[str, PciDevice], said: Libraries, memory: GpuMemory | None
) -> tuple[dict[str, Facts], list[RawLink]]:
    """Put every GPU into the draft. Facts by device id and NVLinks come back."""
    records = _by_address(draft, said.nvml)
    doubled = _doubled(draft, said)
    facts: dict[str, Facts] = {}
    links: dict[str, list[RawLink]] = {}
    untold: dict[str, str] = {}
    fresh: list[KnownGpu] = []
    places = [one for one in bus.values() if one.kind is DeviceKind.GPU and one.physical is None]
    for device in sorted(places, key=lambda one: address_key(one.address)):
        record = records.pop(device.address, None)
        who = identify(device, record, said, memory)
        if who.uuid.value in doubled:
            who = Identity(
                unknown("duplicate_uuid"), UuidSource.UNKNOWN, who.model, who.memory_bytes
            )
        amd = said.amd.gpus.get(device.address)
        domain = amd.hive.value if amd is not None else None
        if amd is not None and amd.partitions > 1:
            detail = f"it is divided into {amd.partitions} partitions; a machine gets it whole"
            draft.find("gpu_partitioned", detail, device.address)
        fabric = None if record is None else fabric_on_the_wire(record.fabric)
        _put(draft, device.address, who, device, f"xgmi-{domain}"[:120] if domain else None, fabric)
        facts[device.address] = _facts(who, device, bus, record)
        if record is not None:
            links[device.address] = _links(device.address, record)
        elif amd is not None:
            links[device.address] = [
                RawLink(device.address, peer, None, None) for peer in amd.peers
            ]
        untold |= _untold(device.address, record, amd)
        if who.source in _BY_LIBRARY and who.uuid.value is not None:
            told = who.model.value, who.memory_bytes.value
            fresh.append(KnownGpu(device.address, who.uuid.value, marks_of(device), *told))
        _find_trouble(draft, device, record, who)
        unnamed = record is None and who.source is not UuidSource.AMDSMI
        other = memory.replaced(device) if memory is not None and unnamed else None
        if other is not None:
            draft.find(REPLACED, said_of(other, device), device.address)
    for address, record in records.items():
        draft.find("gpu_not_on_bus", "NVML counts a GPU that the bus does not list", address)
        uuid = record.uuid if record.uuid.value not in doubled else unknown("duplicate_uuid")
        source = UuidSource.NVML if uuid.value else UuidSource.UNKNOWN
        known = Identity(uuid, source, record.name, record.memory_bytes)
        _put(draft, address, known, None, None, fabric_on_the_wire(record.fabric))
        facts[address] = {name: _plain(fact) for name, fact in record.facts.items()}
        links[address] = _links(address, record)
        untold |= _untold(address, record, None)
    if memory is not None:
        _recall_links(places, links, untold, said, memory)
        # What could not be read now takes nothing back that was read before.
        read = {pci: found for pci, found in links.items() if found or pci not in untold}
        memory.keep(fresh, read)
    for address, reason in untold.items():
        if not links.get(address):
            # Without a word it would be one that is known to be linked with nobody.
            detail = f"which GPUs it is linked with cannot be read: {reason}"
            draft.find(LINKS_UNTOLD, detail, address)
    return facts, [link for found in links.values() for link in found]


def _recall_links(
    places: Sequence[PciDevice],
    links: dict[str, list[RawLink]],
    untold: dict[str, str],
    said: Libraries,
    memory: GpuMemory,
) -> None:
    """Add the links of GPUs that machines hold now, and those of others to them: they are down.

    untold: GPUs whose links cannot be read, and why; one that nobody remembers joins them.
    """
    seen = named_by_library(said) - untold.keys()
    for device in places:
        kept = memory.links(device)
        known = kept or []
        if device.address not in seen:
            links[device.address] = links.get(device.address) or known
            if kept is None and memory.recall(device) is not None:
                untold.setdefault(device.address, "not_remembered")
            continue
        mine = links.setdefault(device.address, [])
        told = {link.target for link in mine}
        hidden = {one.address for one in places} - seen
        mine += [link for link in known if link.target in hidden - told]


def named_by_library(said: Libraries) -> set[str]:
    """The addresses of the GPUs that NVML counts, or AMD's library names."""
    found = {record.pci.value for record in said.nvml if record.pci.value is not None}
    return found | {pci for pci, gpu in said.amd.gpus.items() if gpu.uuid.value is not None}


def identify(
    device: PciDevice, record: GpuRecord | None, said: Libraries, memory: GpuMemory | None
) -> Identity:
    """Who is at an address: what a library says now, else what was read before."""
    if record is not None and record.uuid.value is not None:
        return Identity(record.uuid, UuidSource.NVML, record.name, record.memory_bytes)
    amd = said.amd.gpus.get(device.address)
    if amd is not None and amd.uuid.value is not None:
        return Identity(amd.uuid, UuidSource.AMDSMI, amd.name, amd.memory_bytes)
    known = memory.recall(device) if memory is not None else None
    if record is None and known is not None:
        model: Fact[str] = present(known.model) if known.model else unknown("not_told")
        size: Fact[int] = present(known.memory_bytes) if known.memory_bytes else unknown("not_told")
        return Identity(present(known.uuid), UuidSource.REMEMBERED, model, size)
    if record is not None:
        return Identity(record.uuid, UuidSource.UNKNOWN, record.name, record.memory_bytes)
    reason = _why_unseen(device, said)
    return Identity(unknown(reason), UuidSource.UNKNOWN, unknown(reason), unknown(reason))


def _why_unseen(device: PciDevice, said: Libraries) -> str:
    if device.driver.value == "vfio-pci":
        return "driver_vfio"
    if device.vendor == AMD:
        return said.amd.reason or "not_in_library"
    return said.nvml_reason or "not_in_nvml"


def _by_address(draft: Draft, records: Iterable[GpuRecord]) -> dict[str, GpuRecord]:
    found: dict[str, GpuRecord] = {}
    for record in records:
        address = record.pci.value
        if address is None:
            why = record.handle.reason or record.pci.reason
            draft.find("gpu_unreadable", f"GPU {record.number} of NVML has no address: {why}")
        elif address in found:
            draft.find("duplicate_device", "NVML counts two GPUs at one address", address)
        else:
            found[address] = record
    return found


def _doubled(draft: Draft, said: Libraries) -> set[str]:
    """UUIDs that two devices claim; neither is believed."""
    uuids = [one.uuid.value for one in said.nvml if one.uuid.value is not None]
    uuids += [one.uuid.value for one in said.amd.gpus.values() if one.uuid.value is not None]
    doubled = {uuid for uuid, count in Counter(uuids).items() if count > 1}
    for uuid in sorted(doubled):
        draft.find("gpu_uuid_duplicate", "two GPUs have one UUID; neither is believed", uuid)
    return doubled


def _put(
    draft: Draft,
    address: str,
    who: Identity,
    device: PciDevice | None,
    domain: str | None,
    fabric: GpuFabric | None,
) -> None:
    draft.gpus.append(
        Gpu(
            index=len(draft.gpus),
            uuid=who.uuid.value,
            uuid_source=who.source,
            pci=address,
            model=who.model.value,
            memory_bytes=who.memory_bytes.value,
            numa=device.numa.value if device else None,
            switch=device.parent if device else None,
            nvlink_domain=domain,
            link_mbps=device.link_mbps.value if device else None,
            fabric=fabric,
        )
    )


def _facts(
    who: Identity, device: PciDevice, bus: Mapping[str, PciDevice], record: GpuRecord | None
) -> Facts:
    facts: Facts = {
        "uuid": _plain(who.uuid),
        "model": _plain(who.model),
        "memory_bytes": _plain(who.memory_bytes),
        "driver": _plain(device.driver),
        "iommu_group": _plain(device.iommu_group),
        "iommu_group_others": group_fact(bus, device.address),
        "device_serial": _plain(device.serial),
        "link_mbps": _plain(device.link_mbps),
    }
    if record is None:
        return facts
    facts |= {name: _plain(fact) for name, fact in record.facts.items()}
    active = sum(link.active.value is True for link in record.links)
    facts["nvlink_fabric"] = _plain(record.fabric.map(lambda pair: f"{pair[0]}.{pair[1]}"))
    facts["nvlinks_active"] = present(active) if record.links else absent("no_links")
    for number, mig in enumerate(record.mig):
        place = f"gi {mig.gpu_instance.value} ci {mig.compute_instance.value}"
        text = (
            f"{mig.uuid.value or 'uuid unknown'} {place} {mig.profile.value or 'profile unknown'}"
        )
        facts[f"mig_{number}"] = present(text)
    return facts


def _links(address: str, record: GpuRecord) -> list[RawLink]:
    classes = {LINK_SWITCH: NVSWITCH_CLASS, LINK_CPU: CPU_CLASS}
    return [
        RawLink(address, link.remote_pci.value, classes.get(link.remote_kind.value or ""), 1)
        for link in record.links
        if link.active.value
    ]


def _untold(address: str, record: GpuRecord | None, amd: AmdGpu | None) -> dict[str, str]:
    """Why it is not known whether the GPU has links, by its address; empty where it is."""
    reason = ""
    if record is not None:
        told = [link.active for link in record.links]
        if any(active.value for active in told):
            return {}
        reason = next((active.reason for active in told if active.value is None), "")
        if record.facts["mig_mode"].value == "enabled":
            # Divided, it uses none of its links; a machine gets it undivided.
            reason = reason or "mig_enabled"
    elif amd is not None and amd.hive.presence is Presence.UNKNOWN:
        reason = amd.hive.reason
    return {address: reason} if reason else {}


def _find_trouble(draft: Draft, device: PciDevice, record: GpuRecord | None, who: Identity) -> None:
    address = device.address
    if who.source is UuidSource.REMEMBERED:
        detail = "the UUID was read before the GPU was handed out; its driver cannot confirm it now"
        draft.find("gpu_uuid_remembered", detail, address)
    elif who.uuid.value is None:
        draft.find("gpu_uuid_unknown", f"the GPU's UUID cannot be read: {who.uuid.reason}", address)
    if device.vendor == NVIDIA and record is None and who.source is not UuidSource.REMEMBERED:
        draft.find("gpu_not_in_library", "the driver does not count this GPU", address)
    if record is None:
        return
    if record.lost:
        draft.find("gpu_lost", "the driver lost the GPU while it was read", address)
    if record.fabric.reason in NOT_READY:
        detail = f"its fabric manager has not registered it: {record.fabric.reason}"
        draft.find("fabric_not_ready", detail, address)
    action = record.facts["recovery_action"].value
    if action not in (None, "none"):
        draft.find("gpu_recovery_required", f"the driver asks for: {action}", address)
    if record.facts["remapped_rows_failed"].value:
        draft.find("gpu_row_remap_failed", "a memory row could not be remapped", address)
    elif record.facts["remapped_rows_pending"].value:
        draft.find("gpu_row_remap_pending", "remapped rows take effect at the next reset", address)
    if record.facts["mig_mode"].value != record.facts["mig_mode_pending"].value:
        draft.find("mig_mode_pending", "the MIG mode changes at the next reset", address)
    if record.facts["ecc_mode"].value != record.facts["ecc_mode_pending"].value:
        draft.find("ecc_mode_pending", "the ECC mode changes at the next reset", address)
    if record.facts["ecc_mode"].value == "disabled":
        draft.find("ecc_off", "memory errors are neither corrected nor counted", address)
    down = [str(link.number) for link in record.links if link.active.value is False]
    if down and len(down) < len(record.links):
        # Where all are down, the ports lead nowhere, as on a card without a bridge.
        detail = f"{len(down)} of {len(record.links)} NVLinks are down: {', '.join(down)}"
        draft.find("nvlink_down", detail, address)


def _plain(fact: Fact[Any]) -> Fact[object]:
    return Fact(fact.presence, fact.value, fact.reason)
