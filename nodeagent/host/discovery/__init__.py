"""What is this host made of, and which of it is there now?

`discover` reads everything and gives the same model as a topology file does, so that slots are
derived by one code. `observe_devices` looks again at what is known, cheaply and often. Both read
below a root, so that a captured tree replays; neither raises because of a device.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from nodeagent.host.discovery.amd_card import add_cleanable
from nodeagent.host.discovery.blocks import first_mounts, host_blocks
from nodeagent.host.discovery.bus import (
    PciDevice,
    group_fact,
    parts_of,
    read_bus,
    serials,
    with_serials,
)
from nodeagent.host.discovery.devices import (
    HostInterfaces,
    host_interfaces,
    read_nic,
    read_nvme,
    silicon_of,
)
from nodeagent.host.discovery.gpus import Libraries, add_gpus, ask_libraries
from nodeagent.host.discovery.handing import AS_FOUND, Handing
from nodeagent.host.discovery.machine import Facts, add_numa, machine_facts
from nodeagent.host.discovery.memory import GpuMemory
from nodeagent.host.discovery.observing import DeviceSight, observe_devices
from nodeagent.host.discovery.rooted import AskRoot, RootSight
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import absent, on_the_wire, present, unknown
from nodeagent.host.nvml import Nvml
from nodeagent.host.nvml.library import NOBODY
from nodeagent.protocol import Nic, Nvme, NvSwitch
from nodeagent.topology.model import Draft, Topology, collapse_switches
from nodeagent.topology.nvlink import components, resolve_links
from nodeagent.topology.pci import NVIDIA, DeviceKind, address_key, card_of

__all__ = [
    "AskRoot",
    "DeviceSight",
    "GpuMemory",
    "Handing",
    "RootSight",
    "discover",
    "observe_devices",
    "see_as_root",
]

_HELPS = {
    "library_missing": "install the NVIDIA driver's libraries of this host's driver",
    "driver_not_loaded": "load the module nvidia, or see why it does not load (dmesg)",
    "version_mismatch": "the driver was updated and the old one still runs: restart the host",
    "no_permission": "the agent's user may not open /dev/nvidiactl",
    "driver_hangs": "the driver does not answer; see dmesg for the GPU that keeps it",
}


def discover(
    root: Path = Path("/"),
    nvml: Nvml | None = None,
    memory: GpuMemory | None = None,
    ask_root: AskRoot | None = None,
    handing: Handing = AS_FOUND,
) -> Topology:
    """The host's wiring with what else was looked at.

    nvml: None asks no NVIDIA library. memory: recalls GPUs that machines hold now. ask_root: what
    this process may not see itself. handing: what the operator keeps or divides. Raises
    TopologyError when there is more than a host has, and nothing else.
    """
    once = None if ask_root is None else cache(ask_root)
    return _Discovery(Tree(root), nvml, memory, once, handing).read()


def see_as_root(root: Path = Path("/")) -> RootSight:
    """What a process with root's rights tells one without."""
    tree = Tree(root)
    return replace(first_mounts(tree), serials=serials(read_bus(tree)))


class _Discovery:
    def __init__(
        self,
        tree: Tree,
        nvml: Nvml | None,
        memory: GpuMemory | None,
        ask_root: AskRoot | None,
        handing: Handing,
    ) -> None:
        self.tree = tree
        bus = read_bus(tree)
        self.bus = bus if ask_root is None else with_serials(bus, ask_root)
        self.said: Libraries = ask_libraries(nvml, self.bus)
        self.memory = memory
        self.ask_root = ask_root
        self.handing = handing
        self.draft = Draft("live")
        self.draft.apart |= handing.all_functions(self.bus)
        self.facts: dict[str, Facts] = {}

    def read(self) -> Topology:
        host = add_numa(self.tree, self.draft) | machine_facts(self.tree)
        why = self.said.nvml_reason
        if why:
            host["nvml"] = absent(why) if why in NOBODY else unknown(why)
        else:
            host["nvml"] = present(f"{len(self.said.nvml)} GPUs")
        gpu_facts, links = add_gpus(self.draft, self.bus, self.said, self.memory)
        self._find_divided()
        self.facts |= gpu_facts
        self._add_others()
        self._join_cards()
        self._add_bridges()
        self._place_on_the_only_node()
        resolve_links(self.draft, links)
        add_cleanable(self.tree, self.bus, self.draft, self.facts)
        self._find_unknowns()
        self._find_silence()
        self._find_split_fabric()
        self.draft.facts = [on_the_wire(None, name, fact) for name, fact in host.items()]
        self.draft.facts += [
            on_the_wire(device, name, fact)
            for device, facts in self.facts.items()
            for name, fact in facts.items()
        ]
        return self.draft.finish()

    def _add_others(self) -> None:
        host, blocks = host_interfaces(self.tree), host_blocks(self.tree, self.ask_root)
        if blocks.unreadable:
            self.draft.find("mounts_unknown", f"no disk is given away: {blocks.unreadable}")
        if host.unlisted:
            self.draft.find("routes_unknown", f"no NIC that is up is given away: {host.unlisted}")
        if host.none and not self.handing.keep:
            detail = (
                "no default route: which NIC the host lives by is not known; name it (agent.keep)"
            )
            self.draft.find("host_nic_unknown", detail)
        for device in sorted(self.bus.values(), key=lambda one: address_key(one.address)):
            if device.physical is not None and device.address not in self.draft.apart:
                # A virtual function is a part of its card and is named there.
                continue
            if device.kind is DeviceKind.NIC:
                facts = self._add_nic(device, host)
            elif device.kind is DeviceKind.NVME:
                nvme, facts = read_nvme(self.tree, device, blocks)
                self._reserve("nvme_carries_host", "the host uses it", nvme)
                there = facts["nvme_holds"].value
                if there is not None and not nvme.reserved:
                    detail = f"it holds {there}, which a lease of its slot erases"
                    self.draft.find("nvme_holds_data", detail, nvme.id)
                kept = self.handing.keeps(device)
                self.draft.nvmes.append(replace(nvme, reserved=nvme.reserved or kept))
            elif device.kind is DeviceKind.NVSWITCH:
                switch = NvSwitch(device.address, device.address, device.numa.value)
                self.draft.nvswitches.append(switch)
                facts = {}
            elif device.kind is DeviceKind.ACCELERATOR:
                self.draft.find_accelerator(device.address, device.vendor)
                continue
            else:
                continue
            if self.handing.keeps(device):
                self.draft.find("device_kept", "agent.keep says that it stays", device.address)
            facts["driver"] = device.driver.map(str)
            facts["iommu_group"] = device.iommu_group.map(str)
            facts["iommu_group_others"] = group_fact(self.bus, device.address)
            self.facts[device.address] = facts

    def _add_nic(self, device: PciDevice, host: HostInterfaces) -> Facts:
        nic, facts = read_nic(self.tree, device, host)
        self._reserve("nic_carries_host", "the host's own traffic goes over it", nic)
        given = self.handing.functions_of(device)
        if given:
            detail = f"{len(given)} of its {len(device.virtual)} virtual functions are handed out"
            self.draft.find("nic_divided", f"{detail}; it stays with the host", nic.id)
        card = self.bus.get(device.physical or "")
        if card is not None:
            facts["sriov_card"] = present(card.address)
            nic = replace(nic, link_mbps=nic.link_mbps or card.link_mbps.value)
        stays = bool(given) or self.handing.keeps(device)
        self.draft.nics.append(replace(nic, reserved=nic.reserved or stays))
        return facts

    def _reserve(self, code: str, detail: str, device: Nic | Nvme) -> None:
        if device.reserved:
            self.draft.find(code, f"{detail}; it stays with the host", device.id)

    def _find_divided(self) -> None:
        for address in (gpu.pci for gpu in self.draft.gpus if gpu.pci in self.bus):
            parts = parts_of(self.tree, self.bus[str(address)].path)
            if parts:
                detail = f"divided for virtual machines: {', '.join(parts)}; it goes to none whole"
                self.draft.find("gpu_divided", detail, address)

    def _join_cards(self) -> None:
        """Cards that are on the bus at several addresses are one, and given away as one."""
        names = [nic.id for nic in self.draft.nics] + [nvme.id for nvme in self.draft.nvmes]
        own = [device for name in names if (device := self.bus[name]).physical is None]
        said = {one.address: set(silicon_of(self.tree, one)) for one in own}
        parts = components((card_of(pci), mark) for pci, marks in said.items() for mark in marks)
        cards: dict[str, list[str]] = {}
        for address in sorted((pci for pci in said if card_of(pci) in parts), key=address_key):
            cards.setdefault(parts[card_of(address)], []).append(address)
        for addresses in cards.values():
            if len({card_of(one) for one in addresses}) > 1:
                self.draft.joined |= {card_of(one): card_of(addresses[0]) for one in addresses}
                detail = f"{', '.join(addresses)} are one device, and are given away together"
                self.draft.find("device_at_several_addresses", detail, addresses[0])

    def _add_bridges(self) -> None:
        """Bridges above the devices, and only those under which devices meet."""
        places = [
            self.bus[one.pci].parent
            for one in self.draft.nvswitches
            if one.pci is not None and one.pci in self.bus
        ]
        for device in self.bus.values():
            chain: list[PciDevice] = []
            above = device.parent
            while above is not None and above in self.bus and len(chain) < 64:
                chain.append(self.bus[above])
                above = self.bus[above].parent
            for bridge in reversed(chain):
                if bridge.address not in self.draft.switches:
                    parent = bridge.parent if bridge.parent in self.draft.switches else None
                    self.draft.add_switch(bridge.address, bridge.numa.value, parent, bridge.vendor)
        collapse_switches(self.draft, places)

    def _place_on_the_only_node(self) -> None:
        """Firmware of machines with one node often leaves the number out."""
        # Nodes of memory alone, as CXL and superchips have them, have no devices either.
        nodes = [number for number, node in self.draft.numa.items() if node.cpuset != ""]
        if len(nodes) != 1:
            return
        (only,) = nodes
        draft = self.draft
        draft.gpus = [
            gpu if gpu.numa is not None else replace(gpu, numa=only) for gpu in draft.gpus
        ]
        draft.nics = [
            nic if nic.numa is not None else replace(nic, numa=only) for nic in draft.nics
        ]
        draft.nvmes = [
            nvme if nvme.numa is not None else replace(nvme, numa=only) for nvme in draft.nvmes
        ]

    def _find_split_fabric(self) -> None:
        """GPUs of one host that are not all in one domain: nobody can say what the host shares."""
        told = [gpu.fabric for gpu in self.draft.gpus if gpu.fabric is not None]
        places = {(one.cluster, one.clique) for one in told if one.cluster is not None}
        inside = sum(one.cluster is not None for one in told)
        if not places or (len(places) == 1 and inside == len(self.draft.gpus)):
            return
        names = ", ".join(sorted(f"{cluster}.{clique}" for cluster, clique in places))
        detail = f"{inside} of {len(self.draft.gpus)} GPUs say that they are in {names}"
        self.draft.find("fabric_not_common", detail)

    def _find_silence(self) -> None:
        """NVIDIA's cards are there and its library says nothing: why, and what helps."""
        why = self.said.nvml_reason
        cards = any(
            one.vendor == NVIDIA and one.kind is DeviceKind.GPU for one in self.bus.values()
        )
        if why in _HELPS and cards:
            self.draft.find("nvml_unavailable", f"{why}: {_HELPS[why]}")

    def _find_unknowns(self) -> None:
        for address in self.handing.unknown(self.bus):
            said = "agent.keep names it, and no NIC or NVMe with this address is here"
            self.draft.find("keep_unknown", said, address)
        gpus, total = self.draft.gpus, len(self.draft.gpus)
        if not total:
            self.draft.find("no_gpu", "the host has no GPU")
        for code, what, missing in (
            ("gpu_model_unknown", "model", sum(gpu.model is None for gpu in gpus)),
            ("gpu_memory_unknown", "memory size", sum(gpu.memory_bytes is None for gpu in gpus)),
            ("gpu_numa_unknown", "NUMA node", sum(gpu.numa is None for gpu in gpus)),
            ("link_speed_unknown", "link speed", sum(gpu.link_mbps is None for gpu in gpus)),
        ):
            if missing:
                self.draft.find(code, f"{what} unknown for {missing} of {total} GPUs")
        for device, facts in self.facts.items():
            others = facts.get("iommu_group_others")
            if others is not None and others.value:
                detail = f"its IOMMU group also has {others.value}; it cannot be given away alone"
                self.draft.find("iommu_group_shared", detail, device)
