"""Builds the part of /sys and /proc that discovery reads, from a description."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.topology.model import Topology, ancestors

GPU, ETHERNET, INFINIBAND, NVME, NVSWITCH, BRIDGE = (
    "0x030200",
    "0x020000",
    "0x020700",
    "0x010802",
    "0x068000",
    "0x060400",
)
NVIDIA, MELLANOX, SAMSUNG, AMD = "0x10de", "0x15b3", "0x144d", "0x1002"


@dataclass
class TreeBuilder:
    """A root folder that is filled step by step."""

    root: Path
    paths: dict[str, Path] = field(default_factory=dict)

    def write(self, place: str, content: str) -> None:
        """One file of the kernel's."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")

    def link(self, place: str, target: Path) -> None:
        """One link, relative as the kernel makes them."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))

    def numa(self, number: int, cpus: str, memory_kb: int | None = 264_000_000) -> None:
        """A NUMA node."""
        base = f"sys/devices/system/node/node{number}"
        self.write(f"{base}/cpulist", cpus)
        self.write(f"{base}/distance", "10 21")
        if memory_kb is not None:
            self.write(f"{base}/meminfo", f"Node {number} MemTotal:  {memory_kb} kB")

    def hugepages(self, numa: int, size_kb: int, total: int, free: int) -> None:
        """Huge pages of a NUMA node."""
        base = f"sys/devices/system/node/node{numa}/hugepages/hugepages-{size_kb}kB"
        self.write(f"{base}/nr_hugepages", str(total))
        self.write(f"{base}/free_hugepages", str(free))

    def device(
        self,
        address: str,
        class_code: str,
        vendor: str,
        *,
        numa: int | None = 0,
        above: str | None = None,
        device: str = "0x2330",
        driver: str | None = None,
        group: int | None = None,
        link: tuple[str, str] | None = ("32.0 GT/s PCIe", "16"),
        serial: int | None = None,
    ) -> Path:
        """A function on the bus, below a bridge or a root."""
        parent = self.paths.get(above or "") or self.root / f"sys/devices/pci{address[:7]}"
        path = parent / address
        path.mkdir(parents=True)
        self.paths[address] = path
        place = path.relative_to(self.root).as_posix()
        self.write(f"{place}/class", class_code)
        self.write(f"{place}/vendor", vendor)
        self.write(f"{place}/device", device)
        self.write(f"{place}/subsystem_vendor", vendor)
        self.write(f"{place}/subsystem_device", "0x0001")
        self.write(f"{place}/numa_node", str(-1 if numa is None else numa))
        if link is not None:
            self.write(f"{place}/max_link_speed", link[0])
            self.write(f"{place}/max_link_width", link[1])
        if driver is not None:
            target = self.root / "sys/bus/pci/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            self.link(f"{place}/driver", target)
        if group is not None:
            target = self.root / f"sys/kernel/iommu_groups/{group}"
            target.mkdir(parents=True, exist_ok=True)
            self.link(f"{place}/iommu_group", target)
        if serial is not None:
            (path / "config").write_bytes(config_space(serial))
        self.link(f"sys/bus/pci/devices/{address}", path)
        return path

    def rebind(self, address: str, driver: str) -> None:
        """Give a device to another driver."""
        path = self.paths[address] / "driver"
        path.unlink(missing_ok=True)
        target = self.root / "sys/bus/pci/drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))

    def remove(self, address: str) -> None:
        """Take a device off the bus."""
        (self.root / f"sys/bus/pci/devices/{address}").unlink()


def config_space(serial: int) -> bytes:
    """A configuration space whose first extended capability is the device serial number."""
    space = bytearray(4096)
    struct.pack_into("<III", space, 0x100, 0x0001_0003, serial & 0xFFFFFFFF, serial >> 32)
    return bytes(space)


def chained(*headers: tuple[int, int]) -> bytes:
    """A configuration space with these headers of extended capabilities, each at its offset."""
    space = bytearray(4096)
    for offset, header in headers:
        struct.pack_into("<I", space, offset, header)
    return bytes(space)


def tree_of(root: Path, topology: Topology) -> TreeBuilder:
    """The tree of a host whose topology file is known: the same devices, bridges and CPUs."""
    tree = TreeBuilder(root)
    for node in topology.numa:
        memory = None if node.memory_bytes is None else node.memory_bytes // 1024
        tree.numa(node.id, node.cpuset or "", memory)
    for cores in topology.cores.values():
        for core in cores:
            for cpu in core:
                siblings = ",".join(map(str, sorted(core)))
                tree.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", siblings)
    above = {switch.id: switch for switch in topology.switches}
    names = _bridge_names(topology)
    for switch in topology.switches:
        for name in reversed(ancestors(switch.id, above)):
            if names[name] not in tree.paths:
                parent = above[name].parent
                tree.device(
                    names[name],
                    BRIDGE,
                    "0x1000",
                    numa=above[name].numa,
                    above=names[parent] if parent else None,
                    link=None,
                )
    for gpu in topology.gpus:
        assert gpu.pci is not None
        tree.device(gpu.pci, GPU, NVIDIA, numa=gpu.numa, above=names.get(gpu.switch or ""))
    for nic in topology.nics:
        if nic.pci is not None:
            kind = INFINIBAND if nic.kind == "infiniband" else ETHERNET
            efa = nic.kind == "efa"
            tree.device(
                nic.pci,
                kind,
                "0x1d0f" if efa else MELLANOX,
                device="0xefa1" if efa else "0x1021",
                numa=nic.numa,
                above=names.get(nic.switch or ""),
            )
    for nvme in topology.nvmes:
        if nvme.pci is not None:
            above_it = names.get(nvme.switch or "")
            tree.device(nvme.pci, NVME, SAMSUNG, numa=nvme.numa, above=above_it)
    for number, one in enumerate(topology.nvswitches):
        address = one.pci or f"00ff:{number:02x}:00.0"
        tree.device(address, NVSWITCH, NVIDIA, numa=one.numa, device="0x22a3")
    return tree


def _bridge_names(topology: Topology) -> Mapping[str, str]:
    """Bridges by the id in the file; one without an address gets a free one."""
    taken = {gpu.pci for gpu in topology.gpus} | {nic.pci for nic in topology.nics}
    taken |= {nvme.pci for nvme in topology.nvmes}
    names: dict[str, str] = {}
    for number, switch in enumerate(topology.switches):
        address = switch.id if switch.id[4:5] == ":" and switch.id not in taken else ""
        names[switch.id] = address or f"00fe:{number:02x}:00.0"
    return names
