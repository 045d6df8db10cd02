"""How does an NCCL (or RCCL) topology file describe a host?

`system` holds `cpu` elements (one per NUMA node, with an affinity mask), these hold nested `pci`
elements. A `pci` may contain `gpu` (with `nvlink` or `xgmi`) or `nic` with `net`. Attributes may be
empty or absent. A `nic` right below `cpu` is a network device outside the PCI tree.
"""

from __future__ import annotations

from nodeagent.protocol import Gpu, Nic, NicKind, NumaNode, Nvme, NvSwitch, UuidSource
from nodeagent.protocol.cpus import cpu_list
from nodeagent.topology.cpus import parse_mask
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.model import Draft, Topology, collapse_switches
from nodeagent.topology.nvlink import RawLink, resolve_links
from nodeagent.topology.pci import (
    DeviceKind,
    hex_id,
    kind_of,
    link_mbps,
    nic_kind,
    normal_address,
)
from nodeagent.topology.xml import Element

_MAX_NUMA = 4095
_NAMELESS = (DeviceKind.BRIDGE, DeviceKind.OTHER, DeviceKind.ACCELERATOR)


def import_nccl(root: Element, file_sha256: str | None = None) -> Topology:
    """The host in an NCCL file whose root is `system`. Raises TopologyError."""
    hosts = {cpu.get("host_hash") for cpu in root.named("cpu")} - {None}
    if len(hosts) > 1:
        raise TopologyError("topology_several_hosts", "the file describes more than one host")
    return _Importer(file_sha256).read(root)


class _Importer:
    def __init__(self, file_sha256: str | None) -> None:
        self.draft = Draft("nccl", file_sha256)
        self.links: list[RawLink] = []
        self.odd_places: list[str | None] = []

    def read(self, root: Element) -> Topology:
        self._add_numa(root.named("cpu"))
        only_cpu = len(root.named("cpu")) == 1
        for child in root.children:
            if child.tag == "cpu":
                self._walk(child, self._numa_of(child, only_cpu), None)
        # Devices outside any cpu element have no known place.
        self._walk(root, None, None)
        collapse_switches(self.draft, self.odd_places)
        resolve_links(self.draft, self.links)
        self._find_unknowns()
        return self.draft.finish()

    def _add_numa(self, cpus: list[Element]) -> None:
        masks: dict[int, frozenset[int] | None] = {}
        for cpu in cpus:
            number = self._numa_of(cpu, len(cpus) == 1)
            if number is None:
                self.draft.find("numa_unknown", "a cpu element has no NUMA number")
                continue
            mask = parse_mask(cpu.get("affinity"))
            if number in masks:
                self.draft.find("duplicate_numa", f"NUMA node {number} is described twice")
                known = masks[number]
                mask = None if known is None or mask is None else known | mask
            elif _integer(cpu.get("numaid")) != number:
                self.draft.find(
                    "numa_implied", "the only cpu element has no NUMA number; taken as 0"
                )
            masks[number] = mask
        for number, mask in masks.items():
            others = [other for key, other in masks.items() if key != number and other]
            if mask is not None and any(mask & other for other in others):
                self.draft.find("cpu_overlap", f"NUMA node {number} shares CPUs with another one")
                self._put_numa(number, None)
            else:
                self._put_numa(number, mask)

    def _put_numa(self, number: int, mask: frozenset[int] | None) -> None:
        if mask is None:
            self.draft.find("cpuset_unknown", f"the CPUs of NUMA node {number} are unknown")
        cpuset = None if mask is None else cpu_list(mask)
        self.draft.numa[number] = NumaNode(number, cpuset, None)

    def _numa_of(self, cpu: Element, only_cpu: bool) -> int | None:
        number = _integer(cpu.get("numaid"))
        if number is not None and 0 <= number <= _MAX_NUMA:
            return number
        # A machine without NUMA says -1, and its one cpu element is the whole machine.
        return 0 if only_cpu else None

    def _walk(self, parent: Element, numa: int | None, switch: str | None) -> None:
        for child in parent.children:
            if child.tag == "pci":
                self._pci(child, numa, switch)
            elif child.tag == "nic":
                self._outside_nic(child, numa)
            elif child.tag == "gpu":
                self._gpu(child, None, child, numa, switch)

    def _pci(self, element: Element, numa: int | None, switch: str | None) -> None:
        pci = normal_address(element.get("busid"))
        kind = self._kind(element)
        if pci is None and kind not in _NAMELESS:
            self.draft.find("pci_unknown", f"a {kind} device has no readable PCI address")
        below = switch
        if kind is DeviceKind.BRIDGE:
            below = self.draft.add_switch(pci, numa, switch, hex_id(element.get("vendor")))
        elif not self.draft.claim(pci, kind):
            return
        elif kind is DeviceKind.GPU:
            gpus = element.named("gpu")
            self._gpu(element, pci, gpus[0] if gpus else None, numa, switch)
        elif kind is DeviceKind.NIC:
            self._nic(element, pci, numa, switch)
        elif kind is DeviceKind.NVME:
            name = pci or f"nvme-{len(self.draft.nvmes)}"
            self.draft.nvmes.append(Nvme(name, pci, numa, switch))
        elif kind is DeviceKind.NVSWITCH:
            name = pci or f"nvswitch-{len(self.draft.nvswitches)}"
            self.odd_places.append(switch)
            self.draft.nvswitches.append(NvSwitch(name, pci, numa))
        elif kind is DeviceKind.DISPLAY:
            self.draft.find("display_not_gpu", "a display that is no compute GPU; ignored", pci)
        elif kind is DeviceKind.ACCELERATOR:
            self.draft.find_accelerator(pci, hex_id(element.get("vendor")))
        elif kind is DeviceKind.UNKNOWN:
            self.draft.find("class_unknown", "a PCI device has no readable class; ignored", pci)
        for child in element.named("pci"):
            self._pci(child, numa, below)

    def _kind(self, element: Element) -> DeviceKind:
        """What a device contains is stronger evidence than its class, which may be missing."""
        if element.named("gpu"):
            return DeviceKind.GPU
        class_code, vendor = hex_id(element.get("class")), hex_id(element.get("vendor"))
        kind = kind_of(class_code, vendor, bare_display_is_gpu=True)
        if kind in (DeviceKind.UNKNOWN, DeviceKind.OTHER, DeviceKind.ACCELERATOR):
            if element.named("nic"):
                return DeviceKind.NIC
            if element.named("pci"):
                return DeviceKind.BRIDGE
        return kind

    def _gpu(
        self,
        place: Element,
        pci: str | None,
        gpu: Element | None,
        numa: int | None,
        switch: str | None,
    ) -> None:
        bandwidth = link_mbps(place.get("link_speed"), place.get("link_width"))
        self.draft.gpus.append(
            Gpu(
                index=len(self.draft.gpus),
                uuid=None,
                uuid_source=UuidSource.UNKNOWN,
                pci=pci,
                model=None,
                memory_bytes=None,
                numa=numa,
                switch=switch,
                nvlink_domain=None,
                link_mbps=bandwidth,
            )
        )
        if gpu is None or pci is None:
            return
        for link in gpu.named("nvlink", "xgmi"):
            target_class = hex_id(link.get("tclass"))
            count = _integer(link.get("count"))
            known = count if count is not None and 0 < count <= 1024 else None
            self.links.append(RawLink(pci, link.get("target"), target_class, known))

    def _nic(self, element: Element, pci: str | None, numa: int | None, switch: str | None) -> None:
        nets = [net for nic in element.named("nic") for net in nic.named("net")]
        vendor, device = hex_id(element.get("vendor")), hex_id(element.get("device"))
        self.draft.nics.append(
            Nic(
                id=pci or f"nic-{len(self.draft.nics)}",
                pci=pci,
                kind=nic_kind(hex_id(element.get("class")), vendor, device),
                numa=numa,
                switch=switch,
                speed_mbps=_speed(nets),
                name=_name(nets),
                link_mbps=link_mbps(element.get("link_speed"), element.get("link_width")),
            )
        )

    def _outside_nic(self, element: Element, numa: int | None) -> None:
        nets = element.named("net") or [element]
        for net in nets:
            name = _name([net]) or f"net-{len(self.draft.nics)}"
            device = f"net:{name}"
            if any(nic.id == device for nic in self.draft.nics):
                device = f"{device}#{len(self.draft.nics)}"
            self.draft.nics.append(
                Nic(device, None, NicKind.UNKNOWN, numa, None, _speed([net]), _name([net]))
            )
            self.draft.find(
                "nic_outside_pci",
                "a network device is outside the PCI tree; no slot can be given it",
                device,
            )

    def _find_unknowns(self) -> None:
        gpus, total = self.draft.gpus, len(self.draft.gpus)
        if not total:
            self.draft.find("no_gpu", "the file describes no GPU")
            return
        self.draft.find("gpu_uuid_unknown", f"UUID unknown for {total} of {total} GPUs")
        self.draft.find("gpu_model_unknown", f"model unknown for {total} of {total} GPUs")
        self.draft.find("gpu_memory_unknown", f"memory size unknown for {total} of {total} GPUs")
        self.draft.find("numa_memory_unknown", "the memory of NUMA nodes is not in the file")
        slow = sum(gpu.link_mbps is None for gpu in gpus)
        if slow:
            self.draft.find("link_speed_unknown", f"link speed unknown for {slow} of {total} GPUs")
        placeless = sum(gpu.numa is None for gpu in gpus)
        if placeless:
            self.draft.find("gpu_numa_unknown", f"NUMA node unknown for {placeless} GPUs")


def _integer(text: str | None) -> int | None:
    if text is None or len(text) > 12:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def _speed(nets: list[Element]) -> int | None:
    speeds = [_integer(net.get("speed")) or 0 for net in nets]
    best = max(speeds, default=0)
    return best if 0 < best <= 10**9 else None


def _name(nets: list[Element]) -> str | None:
    for net in nets:
        name = net.get("name")
        if name is not None and len(name) <= 64 and name.isprintable():
            return name
    return None
