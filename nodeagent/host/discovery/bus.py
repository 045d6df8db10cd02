"""Which devices are on the PCI bus, below which bridges, and who drives them?"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nodeagent.host.discovery.rooted import AskRoot
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.topology.pci import (
    DeviceKind,
    card_of,
    hex_id,
    kind_of,
    link_mbps,
    normal_address,
)

_MOST_DEVICES = 4096
_GIVEN = frozenset({DeviceKind.GPU, DeviceKind.NIC, DeviceKind.NVME})
_MOST_NUMA = 4095
NOT_ALLOWED, NO_SERIAL, BROKEN_CHAIN = "no_permission", "not_supported", "broken_chain"
"""Why a serial number is not known: only root may read that far; the card has none."""


@dataclass(frozen=True)
class PciDevice:
    """One function on the bus. `parent` is the bridge right above, None below a root or unknown."""

    address: str
    path: Path
    class_code: str | None
    vendor: str | None
    device: str | None
    subsystem: str | None
    kind: DeviceKind
    numa: Fact[int]
    parent: str | None
    driver: Fact[str]
    iommu_group: Fact[str]
    link_mbps: Fact[int]
    serial: Fact[str]
    physical: str | None
    virtual: tuple[str, ...]
    virtual_most: Fact[int]


def read_bus(tree: Tree) -> dict[str, PciDevice]:
    """Every function by address. One that cannot be read is there with what could be."""
    folder = tree.path("sys/bus/pci/devices")
    found: dict[str, PciDevice] = {}
    for name in tree.names(folder)[:_MOST_DEVICES]:
        address = normal_address(name)
        if address is not None:
            found[address] = _read(tree, folder / name, address)
    return found


def serials(bus: Mapping[str, PciDevice]) -> dict[str, Fact[str]]:
    """The serial numbers of the GPUs by address, as far as this process may read them."""
    return {one.address: one.serial for one in bus.values() if one.kind is DeviceKind.GPU}


def with_serials(bus: Mapping[str, PciDevice], ask_root: AskRoot) -> dict[str, PciDevice]:
    """The same bus with those of the GPUs that only root may read."""
    if not any(one.reason == NOT_ALLOWED for one in serials(bus).values()):
        return dict(bus)
    told = ask_root().serials
    return {
        address: replace(device, serial=told.get(address, device.serial))
        if device.serial.reason == NOT_ALLOWED
        else device
        for address, device in bus.items()
    }


def parts_of(tree: Tree, path: Path) -> tuple[str, ...]:
    """Into what a device is divided: its virtual functions, and mediated devices by their UUID.

    All of them end with the driver that made them, whoever has one.
    """
    made = (name for name in tree.names(path) if os.path.lexists(path / name / "mdev_type"))
    return (*_virtual(tree, path), *made)


def group_fact(bus: Mapping[str, PciDevice], address: str) -> Fact[object]:
    """What else is in a device's IOMMU group, and would be given away with it.

    Bridges do not count: they go with what is below. Nor do other functions of the same card,
    unless they are devices that are given away by themselves.
    """
    group = bus[address].iommu_group
    if group.value is None:
        return Fact(group.presence, None, group.reason)
    others = [
        one.address
        for one in bus.values()
        if one.iommu_group.value == group.value
        and one.address != address
        and one.kind is not DeviceKind.BRIDGE
        # Virtual functions end where their card is given away.
        and one.physical != address
        and (card_of(one.address) != card_of(address) or one.kind in _GIVEN)
    ]
    return present(" ".join(others)) if others else absent("alone")


def _read(tree: Tree, entry: Path, address: str) -> PciDevice:
    path = tree.inside(entry) or entry
    class_code = hex_id(tree.text(path / "class").value)
    vendor = hex_id(tree.text(path / "vendor").value)
    subsystem = [tree.text(path / name).value for name in ("subsystem_vendor", "subsystem_device")]
    known = [part for part in map(hex_id, subsystem) if part is not None]
    physical = tree.link_name(path / "physfn").value
    return PciDevice(
        address=address,
        path=path,
        class_code=class_code,
        vendor=vendor,
        device=hex_id(tree.text(path / "device").value),
        subsystem=":".join(known) if len(known) == 2 else None,
        kind=kind_of(class_code, vendor, bare_display_is_gpu=False),
        numa=tree.number(path / "numa_node", most=_MOST_NUMA),
        parent=_parent(path),
        driver=tree.link_name(path / "driver"),
        iommu_group=tree.link_name(path / "iommu_group"),
        link_mbps=_bandwidth(tree, path),
        serial=_serial(tree, path),
        physical=normal_address(physical),
        virtual=_virtual(tree, path),
        virtual_most=tree.number(path / "sriov_totalvfs"),
    )


def _parent(path: Path) -> str | None:
    """The bridge above: the kernel nests a device's folder in its bridge's."""
    return normal_address(path.parent.name)


def _bandwidth(tree: Tree, path: Path) -> Fact[int]:
    """What the link can do at best: the lesser of the device and the port above it.

    The current speed is not taken: an idle GPU turns its link down.
    """
    ends = [_link_of(tree, path)]
    if _parent(path) is not None:
        ends.append(_link_of(tree, path.parent))
    told = [end for end in ends if end is not None]
    return present(min(told)) if ends[0] is not None else unknown("not_told")


def _link_of(tree: Tree, path: Path) -> int | None:
    speed, width = tree.text(path / "max_link_speed"), tree.text(path / "max_link_width")
    return link_mbps(speed.value, width.value)


def _virtual(tree: Tree, path: Path) -> tuple[str, ...]:
    links = [name for name in tree.names(path) if name.startswith("virtfn")]
    targets = (normal_address(tree.link_name(path / name).value) for name in links)
    return tuple(sorted(address for address in targets if address is not None))


def _serial(tree: Tree, path: Path) -> Fact[str]:
    """The device serial number capability (PCI Express base specification, extended id 3).

    It tells one card from another without its driver. Only root may read that far; for others
    the kernel gives the first 64 bytes.
    """
    real = tree.inside(path / "config")
    try:
        space = real.read_bytes()[:4096] if real is not None else b""
    except FileNotFoundError:
        return absent("no_file")
    except OSError:
        return unknown("io_error")
    if len(space) < 0x104:
        return unknown(NOT_ALLOWED)
    if space[0x100:0x104] == bytes([0xFF] * 4):
        # Nobody answers: without power, or off the bus.
        return unknown("no_answer")
    offset = 0x100
    seen: set[int] = set()
    while offset:
        if offset in seen or not 0x100 <= offset <= len(space) - 12:
            # In a circle, or out of what there is: whatever comes after was not seen.
            return unknown(BROKEN_CHAIN)
        seen.add(offset)
        (header,) = struct.unpack_from("<I", space, offset)
        if header == 0 and offset == 0x100:
            # A device without extended capabilities says so.
            break
        if header in (0, 0xFFFFFFFF):
            return unknown(BROKEN_CHAIN)
        if header & 0xFFFF == 3:
            low, high = struct.unpack_from("<II", space, offset + 4)
            number = high << 32 | low
            blank = number in (0, 2**64 - 1)
            return unknown("sentinel") if blank else present(f"{number:016x}")
        # Its two lowest bits are reserved.
        offset = header >> 20 & 0xFFC
    return absent(NO_SERIAL)
