"""What does a node say about how its devices are wired? Unknown is null plus a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nodeagent.protocol.codec import Integer, Many, Message, Text
from nodeagent.protocol.errors import WireError
from nodeagent.protocol.kinds import DeviceMode, NicKind, Presence, UuidSource

PCI_PATTERN = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
FABRIC_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
CPUSET_PATTERN = r"|\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*"

Id = Annotated[str, Text(120)]
Pci = Annotated[str, Text(16, pattern=PCI_PATTERN)]
Cpuset = Annotated[str, Text(16_384, least=0, pattern=CPUSET_PATTERN)]
Uuid = Annotated[str, Text(80, pattern=r"[A-Za-z0-9][A-Za-z0-9_.:-]*")]
Model = Annotated[str, Text(200)]
Bytes = Annotated[int, Integer(1, 2**60)]
Numa = Annotated[int, Integer(0, 4095)]
Index = Annotated[int, Integer(0, 4095)]
Bandwidth = Annotated[int, Integer(1, 10**9)]
Code = Annotated[str, Text(64, pattern=r"[a-z][a-z0-9_]*")]


@dataclass(frozen=True)
class TopologySource(Message):
    """What was read: format is `nccl`, `hwloc` or `live`."""

    format: Annotated[str, Text(32)]
    file_sha256: Annotated[str, Text(64, pattern=r"[0-9a-f]{64}")] | None = None


@dataclass(frozen=True)
class NumaNode(Message):
    """One NUMA node: cpuset as a Linux CPU list ("0-23,48-71"), null when unknown."""

    id: Numa
    cpuset: Cpuset | None
    memory_bytes: Bytes | None


@dataclass(frozen=True)
class Switch(Message):
    """One PCI bridge or switch above a device; parent is another switch's id."""

    id: Id
    numa: Numa | None
    parent: Id | None


@dataclass(frozen=True)
class GpuFabric(Message):
    """The NVLink domain that a GPU shares with other hosts: present, absent, or unknown and why."""

    presence: Presence
    cluster: Annotated[str, Text(36, least=36, pattern=FABRIC_PATTERN)] | None = None
    clique: Annotated[int, Integer(0, 2**32 - 2)] | None = None
    reason: Code | None = None

    def check(self, pointer: str) -> None:
        """Cluster and clique are told exactly when there is a domain."""
        there = self.presence is Presence.PRESENT
        if (self.cluster is None) is there or (self.clique is None) is there:
            raise WireError(pointer, "bad_format", "a domain has both a cluster and a clique")
        if self.cluster is not None and not self.cluster.strip("0-"):
            raise WireError(f"{pointer}/cluster", "bad_format", "a cluster of zeros is none")


@dataclass(frozen=True)
class Gpu(Message):
    """One GPU; index counts from 0 in PCI order. link is its PCIe bandwidth after encoding.

    nvlink_domain: within its host; fabric: across hosts, null where nobody looked.
    """

    index: Index
    uuid: Uuid | None
    uuid_source: UuidSource
    pci: Pci | None
    model: Model | None
    memory_bytes: Bytes | None
    numa: Numa | None
    switch: Id | None
    nvlink_domain: Id | None
    link_mbps: Bandwidth | None = None
    fabric: GpuFabric | None = None


@dataclass(frozen=True)
class Nic(Message):
    """One network device. speed is megabits a second; reserved: the host itself lives by it."""

    id: Id
    pci: Pci | None
    kind: NicKind
    numa: Numa | None
    switch: Id | None
    speed_mbps: Bandwidth | None
    name: Annotated[str, Text(64)] | None = None
    link_mbps: Bandwidth | None = None
    reserved: bool = False


@dataclass(frozen=True)
class Nvme(Message):
    """One NVMe device; reserved: the host itself lives on it."""

    id: Id
    pci: Pci | None
    numa: Numa | None
    switch: Id | None
    size_bytes: Bytes | None = None
    reserved: bool = False


@dataclass(frozen=True)
class NvSwitch(Message):
    """One NVSwitch device (never a GPU)."""

    id: Id
    pci: Pci | None
    numa: Numa | None


@dataclass(frozen=True)
class NvLink(Message):
    """Links between two devices, named by PCI address; count null when only known to exist."""

    from_: Id
    to: Id
    count: Annotated[int, Integer(1, 1024)] | None


@dataclass(frozen=True)
class Finding(Message):
    """Something about this node that is unknown, odd or not used, and the device it concerns."""

    code: Code
    detail: Annotated[str, Text(500)]
    device: Id | None = None


@dataclass(frozen=True)
class DeviceFact(Message):
    """One thing that was looked at: present with its value, absent, or unknown with a reason.

    device null means the host itself.
    """

    device: Id | None
    name: Code
    presence: Presence
    value: Annotated[str, Text(500)] | None = None
    reason: Code | None = None


@dataclass(frozen=True)
class CandidateSlot(Message):
    """One leasable unit as proposed by the node: one GPU with what belongs beside it."""

    index: Index
    gpu_uuid: Uuid | None
    gpu_index: Index
    numa: Numa | None
    switch: Id | None
    cpuset: Cpuset | None
    memory_bytes: Bytes | None
    nic: Id | None
    nic_mode: DeviceMode
    nvme: Id | None
    nvme_mode: DeviceMode
    nvlink_domain: Id | None
    extra_nics: Annotated[tuple[Id, ...], Many(64)] = ()
    extra_nvmes: Annotated[tuple[Id, ...], Many(64)] = ()


@dataclass(frozen=True)
class TopologyReport(Message):
    """The result of slice.topology_discover."""

    schema: Annotated[int, Integer(1, 1)]
    source: TopologySource
    hostname: Annotated[str, Text(253)]
    numa: Annotated[tuple[NumaNode, ...], Many(256)]
    switches: Annotated[tuple[Switch, ...], Many(1024)]
    gpus: Annotated[tuple[Gpu, ...], Many(256)]
    nics: Annotated[tuple[Nic, ...], Many(512)]
    nvmes: Annotated[tuple[Nvme, ...], Many(512)]
    nvswitches: Annotated[tuple[NvSwitch, ...], Many(256)]
    nvlinks: Annotated[tuple[NvLink, ...], Many(8192)]
    findings: Annotated[tuple[Finding, ...], Many(2048)]
    slots: Annotated[tuple[CandidateSlot, ...], Many(256)]
    facts: Annotated[tuple[DeviceFact, ...], Many(4096)] = ()

    def check(self, pointer: str) -> None:
        """Each GPU is in exactly one slot; an exclusive device is in no other slot."""
        indexes = [gpu.index for gpu in self.gpus]
        if len(set(indexes)) != len(indexes):
            raise WireError(f"{pointer}/gpus", "not_unique", "two GPUs have one index")
        uuids = [gpu.uuid for gpu in self.gpus if gpu.uuid is not None]
        if len(set(uuids)) != len(uuids):
            raise WireError(f"{pointer}/gpus", "not_unique", "two GPUs have one UUID")
        if sorted(slot.gpu_index for slot in self.slots) != sorted(indexes):
            raise WireError(f"{pointer}/slots", "bad_format", "not one slot for each GPU")
        uuid_of = {gpu.index: gpu.uuid for gpu in self.gpus}
        if any(slot.gpu_uuid != uuid_of[slot.gpu_index] for slot in self.slots):
            raise WireError(f"{pointer}/slots", "bad_format", "a slot names another GPU's UUID")
        if sorted(slot.index for slot in self.slots) != list(range(len(self.slots))):
            raise WireError(f"{pointer}/slots", "not_unique", "slots are not numbered from 0")
        self._check_exclusive(pointer)

    def _check_exclusive(self, pointer: str) -> None:
        known = {nic.id for nic in self.nics} | {nvme.id for nvme in self.nvmes}
        holders: dict[str, list[bool]] = {}
        for slot in self.slots:
            nic_own = slot.nic_mode is DeviceMode.EXCLUSIVE
            nvme_own = slot.nvme_mode is DeviceMode.EXCLUSIVE
            for device, own in (
                (slot.nic, nic_own),
                (slot.nvme, nvme_own),
                *((extra, nic_own) for extra in slot.extra_nics),
                *((extra, nvme_own) for extra in slot.extra_nvmes),
            ):
                if device is not None:
                    holders.setdefault(device, []).append(own)
        for device, owned in holders.items():
            if device not in known:
                raise WireError(f"{pointer}/slots", "bad_format", "a slot names no known device")
            if any(owned) and len(owned) > 1:
                raise WireError(
                    f"{pointer}/slots", "not_unique", "an exclusive device is in two slots"
                )
