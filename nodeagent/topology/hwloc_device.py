"""What does hwloc tell about one PCI device, with the operating system devices below it?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeagent.protocol import Nic, NicKind
from nodeagent.topology.pci import AMAZON, DeviceKind, kind_of, nic_kind, normal_address
from nodeagent.topology.xml import Element

_PCI_TYPE = re.compile(r"([0-9a-fA-F]{4})(?:\s*\[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\])?")
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{7,79}")
_UUID_INFOS = ("NVIDIAUUID", "AMDUUID", "LevelZeroUUID")
# All in KiB. The first three say the memory of the device, the last that of a disk.
_SIZE_INFOS = ("CUDAGlobalMemorySize", "RSMIVRAMSize", "OpenCLGlobalMemorySize", "Size")
_SENTINELS = frozenset({"", "n/a", "none", "unknown", "not supported", "[n/a]", "0", "-1"})
_GPU_BACKENDS = frozenset({"NVML", "CUDA", "RSMI", "OpenCL", "LevelZero"})
_OPENFABRICS, _NETWORK = "openfabrics", "network"
# Up to version 2 the type is a number, from 3 on a set of bits.
_OLD_TYPES = {0: "storage", 1: "gpu", 2: _NETWORK, 3: _OPENFABRICS, 4: "dma", 5: "coproc"}
_NEW_BITS = {1: "storage", 2: "memory", 4: "gpu", 8: "coproc", 16: _NETWORK, 32: _OPENFABRICS}


@dataclass(frozen=True)
class OsDevice:
    """An operating system device: its name, what it is used for, and its infos."""

    name: str
    uses: frozenset[str]
    infos: dict[str, str]


@dataclass(frozen=True)
class PciDevice:
    """What a PCIDev element says. object_ids: gp_index of it and of what hangs below."""

    pci: str | None
    kind: DeviceKind
    class_code: str | None
    vendor: str | None
    device: str | None
    subtype: str | None
    model: str | None
    uuid: str | None
    hive: str | None
    memory_bytes: int | None
    link_mbps: int | None
    os_devices: tuple[OsDevice, ...]
    object_ids: tuple[str, ...]

    @property
    def vendor_device(self) -> str | None:
        """vendor:device, or None when either is unknown."""
        return None if self.vendor is None else f"{self.vendor}:{self.device}"

    def as_nic(self, name: str, numa: int | None, switch: str | None) -> Nic:
        """The NIC that this device is; its name is the one that people use for it."""
        kind = nic_kind(self.class_code, self.vendor, self.device)
        names = [one.name for one in self.os_devices if one.uses & {_NETWORK, _OPENFABRICS}]
        if any(one.startswith("ib") for one in names):
            kind = NicKind.INFINIBAND
        elif self.vendor == AMAZON and any(one.startswith("efa") for one in names):
            kind = NicKind.EFA
        shown = names[0][:64] if names else None
        return Nic(name, self.pci, kind, numa, switch, None, shown, self.link_mbps)


def read_pci_device(element: Element, major: int) -> PciDevice:
    """Read a PCIDev element of an hwloc file of that major version."""
    found = _PCI_TYPE.match(element.get("pci_type") or "")
    class_code, vendor, device = (
        (part.lower() if part else None for part in found.groups()) if found else (None,) * 3
    )
    if vendor == "0000":
        vendor, device = None, None
    os_devices = tuple(_os_device(one, major) for one in element.named("object"))
    infos = _infos(element)
    for one in os_devices:
        infos = {**one.infos, **infos}
    kind = kind_of(class_code, vendor, bare_display_is_gpu=False)
    if kind is DeviceKind.UNKNOWN or kind is DeviceKind.DISPLAY:
        kind = _kind_by_use(os_devices, kind)
    return PciDevice(
        pci=normal_address(element.get("pci_busid")),
        kind=kind,
        class_code=class_code,
        vendor=vendor,
        device=device,
        subtype=element.get("subtype") or infos.get("Type"),
        model=_text(infos.get("GPUModel") or infos.get("PCIDevice")),
        uuid=_uuid(infos),
        hive=_hive(infos),
        memory_bytes=_size(infos),
        link_mbps=_bandwidth(element.get("pci_link_speed")),
        os_devices=os_devices,
        object_ids=tuple(filter(None, map(_object_id, (element, *element.named("object"))))),
    )


def _kind_by_use(os_devices: tuple[OsDevice, ...], otherwise: DeviceKind) -> DeviceKind:
    """What the operating system uses a device of unknown class for."""
    for one in os_devices:
        if one.infos.get("Backend") in _GPU_BACKENDS:
            return DeviceKind.GPU
        if one.uses & {_NETWORK, _OPENFABRICS}:
            return DeviceKind.NIC
        if "storage" in one.uses and one.name.startswith("nvme"):
            return DeviceKind.NVME
    return otherwise


def _os_device(element: Element, major: int) -> OsDevice:
    text = element.get("osdev_type") or ""
    number = int(text) if text.isdecimal() and len(text) < 6 else None
    uses: frozenset[str] = frozenset()
    if number is not None and major >= 3:
        uses = frozenset(use for bit, use in _NEW_BITS.items() if number & bit)
    elif number is not None and number in _OLD_TYPES:
        uses = frozenset({_OLD_TYPES[number]})
    return OsDevice(element.get("name") or "", uses, _infos(element))


def _object_id(element: Element) -> str | None:
    return element.get("gp_index")


def _infos(element: Element) -> dict[str, str]:
    return {info.get("name") or "": info.get("value") or "" for info in element.named("info")}


def _text(value: str | None) -> str | None:
    """A short printable text; words that stand for "no value" are unknown."""
    if value is None or value.strip().lower() in _SENTINELS or not value.isprintable():
        return None
    return value.strip()[:200]


def _uuid(infos: dict[str, str]) -> str | None:
    for name in _UUID_INFOS:
        value = _text(infos.get(name))
        if value is not None and _UUID.fullmatch(value):
            return value
    return None


def _hive(infos: dict[str, str]) -> str | None:
    hive = _text(infos.get("XGMIHiveID"))
    return None if hive is None or not hive.strip("0x") else f"xgmi-{hive[:64]}"


def _size(infos: dict[str, str]) -> int | None:
    for name in _SIZE_INFOS:
        value = infos.get(name, "")
        if value.isdecimal() and len(value) < 16 and 0 < int(value) < 2**50:
            return int(value) * 1024
    return None


def _bandwidth(gigabytes: str | None) -> int | None:
    """hwloc gives gigabytes a second after encoding; 0 means unknown."""
    try:
        value = float(gigabytes or "0")
    except ValueError:
        return None
    return int(value * 8000) if 0 < value < 10_000 else None
