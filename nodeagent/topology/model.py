"""What is one host's wiring, whatever file or library it was read from?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nodeagent.protocol import (
    DeviceFact,
    Finding,
    Gpu,
    Nic,
    NumaNode,
    NvLink,
    Nvme,
    NvSwitch,
    Switch,
)
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.pci import EMULATORS, address_key

MAX_GPUS = 256
MAX_DEVICES = 512
MAX_FINDINGS = 2000
MAX_FACTS = 4096
_MAX_DETAIL = 500


@dataclass(frozen=True)
class Topology:
    """The neutral model. GPUs are in PCI order and numbered by it.

    cores: per NUMA node the CPU threads of each core, where known. facts: what else was looked at.
    apart: functions that are given away by themselves, whatever else their card has. joined: cards
    (addresses without function) that are parts of one, with a name that all of these have.
    """

    source_format: str
    file_sha256: str | None
    numa: tuple[NumaNode, ...]
    cores: Mapping[int, tuple[frozenset[int], ...]]
    switches: tuple[Switch, ...]
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    nvmes: tuple[Nvme, ...]
    nvswitches: tuple[NvSwitch, ...]
    nvlinks: tuple[NvLink, ...]
    findings: tuple[Finding, ...]
    facts: tuple[DeviceFact, ...] = ()
    apart: frozenset[str] = frozenset()
    joined: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Draft:
    """Collects devices while an importer walks its file, and makes a Topology of them.

    emulated: bridges that a hypervisor made; what hangs alone below one may share a real one.
    """

    source_format: str
    file_sha256: str | None = None
    numa: dict[int, NumaNode] = field(default_factory=dict)
    cores: dict[int, tuple[frozenset[int], ...]] = field(default_factory=dict)
    switches: dict[str, Switch] = field(default_factory=dict)
    gpus: list[Gpu] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    nvmes: list[Nvme] = field(default_factory=list)
    nvswitches: list[NvSwitch] = field(default_factory=list)
    nvlinks: list[NvLink] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    facts: list[DeviceFact] = field(default_factory=list)
    emulated: set[str] = field(default_factory=set)
    apart: set[str] = field(default_factory=set)
    joined: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _found: set[Finding] = field(default_factory=set)

    def find(self, code: str, detail: str, device: str | None = None) -> None:
        """Record a finding, once of a device; what goes beyond the report's bound is dropped."""
        found = Finding(code, detail[:_MAX_DETAIL], device[:120] if device else None)
        known = device is not None and found in self._found
        if not known and len(self.findings) < MAX_FINDINGS:
            self._found.add(found)
            self.findings.append(found)

    def find_accelerator(self, pci: str | None, vendor: str | None) -> None:
        """Record a processing accelerator of a vendor whose devices nobody here can hand out."""
        detail = f"a processing accelerator of vendor {vendor or 'unknown'} is no GPU; ignored"
        self.find("accelerator_not_gpu", detail, pci)

    def claim(self, pci: str | None, what: str) -> bool:
        """Whether this address is new; a second device at it becomes a finding."""
        if pci is None:
            return True
        if pci in self._taken:
            self.find("duplicate_device", f"a second {what} at one PCI address is ignored", pci)
            return False
        self._taken.add(pci)
        return True

    def add_switch(
        self, pci: str | None, numa: int | None, parent: str | None, vendor: str | None = None
    ) -> str:
        """Add a bridge and return its id, made unique where a file repeats an address."""
        base = pci or f"bridge-{len(self.switches)}"
        name, count = base, 1
        while name in self.switches:
            count += 1
            name = f"{base}#{count}"
        if count == 2:
            self.find("duplicate_switch", "two bridges have one PCI address", base)
        self.switches[name] = Switch(name, numa, parent)
        if vendor in EMULATORS:
            self.emulated.add(name)
        return name

    def finish(self) -> Topology:
        """The finished model. Raises TopologyError when there are more devices than a host has."""
        if len(self.gpus) > MAX_GPUS or len(self.numa) > 256:
            raise TopologyError("topology_too_large", "more GPUs or NUMA nodes than a host has")
        if max(len(self.nics), len(self.nvmes), len(self.nvswitches) * 2) > MAX_DEVICES:
            raise TopologyError("topology_too_large", "more devices than a host has")
        ordered = sorted(self.gpus, key=lambda gpu: address_key(gpu.pci))
        return Topology(
            source_format=self.source_format,
            file_sha256=self.file_sha256,
            numa=tuple(self.numa[number] for number in sorted(self.numa)),
            cores=dict(self.cores),
            switches=self._used_switches(),
            gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(ordered)),
            apart=frozenset(self.apart),
            joined=dict(self.joined),
            nics=tuple(sorted(self.nics, key=lambda nic: address_key(nic.pci))),
            nvmes=tuple(sorted(self.nvmes, key=lambda nvme: address_key(nvme.pci))),
            nvswitches=tuple(sorted(self.nvswitches, key=lambda one: address_key(one.pci))),
            nvlinks=tuple(self.nvlinks),
            findings=tuple(self.findings),
            facts=tuple(self.facts[:MAX_FACTS]),
        )

    def _used_switches(self) -> tuple[Switch, ...]:
        used: set[str] = set()
        for place in _places(self):
            used.update(ancestors(place, self.switches))
        kept = tuple(switch for name, switch in self.switches.items() if name in used)
        if len(kept) > 1024:
            raise TopologyError("topology_too_large", "more bridges than a host has")
        return kept


def ancestors(switch: str | None, switches: Mapping[str, Switch]) -> list[str]:
    """A switch and those above it, nearest first."""
    chain: list[str] = []
    while switch is not None and switch not in chain:
        chain.append(switch)
        switch = switches[switch].parent if switch in switches else None
    return chain


def collapse_switches(draft: Draft, other_places: list[str | None]) -> None:
    """Keep only bridges where devices meet, and hang devices and bridges on those.

    Each port of a PCI switch is listed as a bridge of its own, and some cards bring a bridge along:
    one with a single device behind it brings nothing together. Of several bridges in a row with the
    same devices below, the lowest stands for all. A GPU that no bridge joins with anything hangs on
    the uppermost of its own: it is known to share no switch. other_places: the bridges right above
    devices that are in no list of the draft.
    """
    below: Counter[str] = Counter()
    for place in (*_places(draft), *other_places):
        below.update(ancestors(place, draft.switches))

    def standing(place: str | None, more_than: int) -> str | None:
        chain = ancestors(place, draft.switches)
        return next((name for name in chain if below[name] > more_than), None)

    def own(place: str | None) -> str | None:
        chain = ancestors(place, draft.switches)
        return None if not chain or draft.emulated.intersection(chain) else chain[-1]

    draft.gpus = [
        replace(gpu, switch=standing(gpu.switch, 1) or own(gpu.switch)) for gpu in draft.gpus
    ]
    alone = {gpu.switch for gpu in draft.gpus}
    draft.nics = [replace(nic, switch=standing(nic.switch, 1)) for nic in draft.nics]
    draft.nvmes = [replace(nvme, switch=standing(nvme.switch, 1)) for nvme in draft.nvmes]
    draft.switches = {
        name: replace(switch, parent=standing(switch.parent, below[name]))
        for name, switch in draft.switches.items()
        if below[name] > 1 or name in alone
    }


def _places(draft: Draft) -> list[str | None]:
    """The bridges right above the draft's devices."""
    return [
        *(gpu.switch for gpu in draft.gpus),
        *(nic.switch for nic in draft.nics),
        *(nvme.switch for nvme in draft.nvmes),
    ]
