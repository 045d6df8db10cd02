"""How does an hwloc (lstopo) XML file describe a host?

Objects nest: Machine, Package, NUMANode, caches, cores; Bridge, PCIDev and OSDev hang below the
object whose CPUs are near them. In version 1 a NUMANode contains its package, from version 2 on it
is a memory child beside it; a version 1 machine without NUMA has no NUMANode at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodeagent.protocol import HOST_BRIDGE, Gpu, NicKind, NumaNode, Nvme, NvSwitch, UuidSource
from nodeagent.protocol.cpus import cpu_list
from nodeagent.topology.cpus import parse_mask
from nodeagent.topology.hwloc_device import PciDevice, read_pci_device
from nodeagent.topology.hwloc_tables import table_links
from nodeagent.topology.model import Draft, Topology, collapse_switches
from nodeagent.topology.nvlink import resolve_links
from nodeagent.topology.pci import DeviceKind, normal_address
from nodeagent.topology.xml import Element

_IO_TYPES = frozenset({"Bridge", "PCIDev", "OSDev", "Misc"})
_MAX_NUMA = 4095


def import_hwloc(root: Element, file_sha256: str | None = None) -> Topology:
    """The host in an hwloc file whose root is `topology`. Raises TopologyError."""
    return _Importer(root, file_sha256).read()


@dataclass(frozen=True)
class _Place:
    """Where a walk is: the NUMA node that is near, and the bridge above."""

    numa: int | None
    switch: str | None = None


class _Importer:
    def __init__(self, root: Element, file_sha256: str | None) -> None:
        self.root = root
        self.draft = Draft("hwloc", file_sha256)
        version = root.get("version") or "1"
        self.major = int(version.split(".")[0]) if version.split(".")[0].isdecimal() else 1
        self.cpus: dict[int, frozenset[int]] = {}
        self.odd_places: list[str | None] = []
        self.by_object: dict[str, str] = {}
        self.nvswitch_ids: set[str] = set()
        self.nameless: list[tuple[PciDevice, _Place]] = []

    def read(self) -> Topology:
        machines = self.root.named("object")
        self._add_numa(machines)
        only = next(iter(self.draft.numa)) if len(self.draft.numa) == 1 else None
        for machine in machines:
            self._walk(machine, _Place(only))
        self._name_the_nameless()
        collapse_switches(self.draft, self.odd_places)
        self._add_links()
        self._find_unknowns()
        return self.draft.finish()

    def _add_numa(self, machines: list[Element]) -> None:
        everything = list(_objects(machines))
        nodes = [one for one in everything if one.get("type") in ("NUMANode", "Node")]
        if not nodes and machines:
            # Version 1 leaves the NUMA node out where the machine has only one.
            self.draft.find(
                "numa_implied", "no NUMA node is described; the machine is taken as one"
            )
            self._put_numa(0, machines[0])
        for place, node in enumerate(nodes):
            number = _number(node.get("os_index"))
            number = place if number is None or number > _MAX_NUMA else number
            if number in self.draft.numa:
                self.draft.find("duplicate_numa", f"NUMA node {number} is described twice")
            else:
                self._put_numa(number, node)
        self._drop_overlaps()
        cores = [parse_mask(one.get("cpuset")) for one in everything if one.get("type") == "Core"]
        for number, cpus in self.cpus.items():
            self.draft.cores[number] = tuple(core for core in cores if core and core <= cpus)

    def _put_numa(self, number: int, node: Element) -> None:
        cpus = parse_mask(node.get("cpuset"))
        if cpus is None:
            self.draft.find("cpuset_unknown", f"the CPUs of NUMA node {number} are unknown")
        else:
            self.cpus[number] = cpus
        memory = _number(node.get("local_memory"))
        known = memory if memory is not None and 0 < memory < 2**60 else None
        if known is None:
            self.draft.find("numa_memory_unknown", f"the memory of NUMA node {number} is unknown")
        cpuset = None if cpus is None else cpu_list(cpus)
        self.draft.numa[number] = NumaNode(number, cpuset, known)

    def _drop_overlaps(self) -> None:
        """Memory of several kinds may share CPUs; the lowest node keeps them, once."""
        seen: frozenset[int] = frozenset()
        for number in sorted(self.cpus):
            cpus = self.cpus[number]
            if cpus & seen:
                self.draft.find("cpu_overlap", f"NUMA node {number} shares CPUs with another one")
                del self.cpus[number]
                self.draft.numa[number] = replace(self.draft.numa[number], cpuset=None)
            else:
                seen |= cpus

    def _walk(self, element: Element, place: _Place) -> None:
        kind = element.get("type")
        if kind == "PCIDev":
            self._pci_device(element, place)
        elif kind == "Bridge":
            bridge = self.draft.add_switch(
                normal_address(element.get("pci_busid")) or _host_bridge(element),
                place.numa,
                place.switch,
                read_pci_device(element, self.major).vendor,
            )
            place = _Place(place.numa, bridge)
        elif kind not in _IO_TYPES:
            place = _Place(self._locality(element, place.numa))
        for child in element.named("object"):
            if not (kind == "PCIDev" and child.get("type") == "OSDev"):
                self._walk(child, place)

    def _locality(self, element: Element, above: int | None) -> int | None:
        """The one NUMA node with CPUs that an object belongs to; None when there are several."""
        nodes = parse_mask(element.get("nodeset"))
        if nodes is not None:
            near = [number for number in sorted(nodes) if self.cpus.get(number)]
            if len(near) == 1:
                return near[0]
            if near:
                return None
        cpus = parse_mask(element.get("cpuset"))
        if cpus:
            near = [number for number in sorted(self.cpus) if self.cpus[number] & cpus]
            return near[0] if len(near) == 1 else None
        return above

    def _pci_device(self, element: Element, place: _Place) -> None:
        device = read_pci_device(element, self.major)
        if device.kind is DeviceKind.NVSWITCH and device.vendor_device is not None:
            self.nvswitch_ids.add(device.vendor_device)
        if device.kind is DeviceKind.UNKNOWN:
            self.nameless.append((device, place))
        else:
            self._add(device, place)
        for name in device.object_ids:
            if device.pci is not None:
                self.by_object[name] = device.pci

    def _add(self, device: PciDevice, place: _Place) -> None:
        relevant = (DeviceKind.GPU, DeviceKind.NIC, DeviceKind.NVME, DeviceKind.NVSWITCH)
        if device.kind is DeviceKind.DISPLAY:
            self.draft.find("display_not_gpu", "a display that is no compute GPU", device.pci)
        if device.kind is DeviceKind.ACCELERATOR:
            self.draft.find_accelerator(device.pci, device.vendor)
        if device.kind not in relevant or not self.draft.claim(device.pci, device.kind):
            return
        if device.pci is None:
            self.draft.find("pci_unknown", f"a {device.kind} has no readable PCI address")
        if device.kind is DeviceKind.GPU:
            self.draft.gpus.append(self._gpu(device, place))
        elif device.kind is DeviceKind.NIC:
            name = device.pci or f"nic-{len(self.draft.nics)}"
            self.draft.nics.append(device.as_nic(name, place.numa, place.switch))
        elif device.kind is DeviceKind.NVME:
            name = device.pci or f"nvme-{len(self.draft.nvmes)}"
            self.draft.nvmes.append(
                Nvme(name, device.pci, place.numa, place.switch, device.memory_bytes)
            )
        else:
            self.odd_places.append(place.switch)
            name = device.pci or f"nvswitch-{len(self.draft.nvswitches)}"
            self.draft.nvswitches.append(NvSwitch(name, device.pci, place.numa))

    def _gpu(self, device: PciDevice, place: _Place) -> Gpu:
        uuid = device.uuid
        if uuid is not None and any(gpu.uuid == uuid for gpu in self.draft.gpus):
            self.draft.find("gpu_uuid_duplicate", "two GPUs have one UUID", device.pci)
            uuid = None
        return Gpu(
            index=len(self.draft.gpus),
            uuid=uuid,
            uuid_source=UuidSource.UNKNOWN if uuid is None else UuidSource.FILE,
            pci=device.pci,
            model=device.model,
            memory_bytes=device.memory_bytes,
            numa=place.numa,
            switch=place.switch,
            nvlink_domain=device.hive,
            link_mbps=device.link_mbps,
        )

    def _name_the_nameless(self) -> None:
        """A device that could not be read counts as an NVSwitch only if the file says so."""
        for device, place in self.nameless:
            if device.subtype == "NVSwitch" or device.vendor_device in self.nvswitch_ids:
                detail = "the class cannot be read; the file calls it an NVSwitch"
                self.draft.find("class_unreadable", detail, device.pci)
                self._add(replace(device, kind=DeviceKind.NVSWITCH), place)
            else:
                detail = "a PCI device has no readable class; ignored"
                self.draft.find("class_unknown", detail, device.pci)

    def _add_links(self) -> None:
        ends = {gpu.pci for gpu in self.draft.gpus} | {one.pci for one in self.draft.nvswitches}
        tables = self.root.named("distances2", "distances2hetero")
        links = table_links(tables, self.by_object)
        resolve_links(self.draft, [link for link in links if link.source in ends])

    def _find_unknowns(self) -> None:
        gpus, total = self.draft.gpus, len(self.draft.gpus)
        if not total:
            self.draft.find("no_gpu", "the file describes no GPU")
        for code, what, missing in (
            ("gpu_uuid_unknown", "UUID", sum(gpu.uuid is None for gpu in gpus)),
            ("gpu_model_unknown", "model", sum(gpu.model is None for gpu in gpus)),
            ("gpu_memory_unknown", "memory size", sum(gpu.memory_bytes is None for gpu in gpus)),
            ("link_speed_unknown", "link speed", sum(gpu.link_mbps is None for gpu in gpus)),
            ("gpu_numa_unknown", "NUMA node", sum(gpu.numa is None for gpu in gpus)),
        ):
            if missing:
                self.draft.find(code, f"{what} unknown for {missing} of {total} GPUs")
        vague = sum(nic.kind is NicKind.UNKNOWN for nic in self.draft.nics)
        if vague:
            self.draft.find("nic_kind_unknown", f"kind unknown for {vague} network devices")


def _objects(elements: list[Element]) -> list[Element]:
    """These objects and all below them, in the order of the file."""
    found: list[Element] = []
    pending = list(reversed(elements))
    while pending:
        element = pending.pop()
        found.append(element)
        pending.extend(reversed(element.named("object")))
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def _host_bridge(element: Element) -> str | None:
    buses = element.get("bridge_pci")
    return f"{HOST_BRIDGE}{buses}"[:100] if buses else None
