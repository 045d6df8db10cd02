"""What does each task kind take, and what does it give back?"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from nodeagent.protocol.burning import BurnInParams, BurnInResult
from nodeagent.protocol.codec import Integer, Many, Message, Text
from nodeagent.protocol.errors import WireError
from nodeagent.protocol.kinds import DeviceMode, TaskKind, VmState
from nodeagent.protocol.messages import Address, AllocationId, BootId, Hostname
from nodeagent.protocol.parts import GpuPart
from nodeagent.protocol.topology import Bytes, Cpuset, Id, Index, Numa, TopologyReport, Uuid

# Base64 text only: no option prefix, no line break, so that a key can never carry a command.
SSH_KEY_PATTERN = r"(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-[a-z0-9@.-]+) " + (
    r"[A-Za-z0-9+/]+={0,3}( [^\x00-\x1f\"'`$\\]{0,200})?"
)
SshKeys = Annotated[tuple[Annotated[str, Text(4096, pattern=SSH_KEY_PATTERN)], ...], Many(32)]
ImageName = Annotated[str, Text(120, pattern=r"[a-z0-9][a-z0-9._:/-]*")]


@dataclass(frozen=True)
class SlotDevices(Message):
    """The devices of one approved slot. A shared NIC is never named here: nic is then null.

    extra_nics and extra_nvmes are further devices that are the slot's alone, as in CandidateSlot.
    memory_bytes and cpuset are null where the approved slot does not know them. part: what of the
    GPU is handed over where that is not all of it; the slot's other devices are not then. It is
    left out, and not null, where there is none: an older agent does not know the member.
    """

    slot_index: Index
    gpu_uuid: Uuid
    nic: Id | None = None
    nvme: Id | None = None
    numa: Numa | None = None
    cpuset: Cpuset | None = None
    memory_bytes: Bytes | None = None
    nic_mode: DeviceMode = DeviceMode.UNKNOWN
    nvme_mode: DeviceMode = DeviceMode.UNKNOWN
    extra_nics: Annotated[tuple[Id, ...], Many(64)] = ()
    extra_nvmes: Annotated[tuple[Id, ...], Many(64)] = ()
    part: GpuPart | None = None
    left_out_when_empty: ClassVar[frozenset[str]] = frozenset({"part"})

    def check(self, pointer: str) -> None:
        """A part comes without the devices of its slot."""
        if self.part is not None and (self.all_nics() or self.all_nvmes()):
            raise WireError(pointer, "not_with_a_part", "a part has no NIC or NVMe of its slot")

    def all_nics(self) -> tuple[str, ...]:
        """Every NIC that is handed over with the slot."""
        return (*(() if self.nic is None else (self.nic,)), *self.extra_nics)

    def all_nvmes(self) -> tuple[str, ...]:
        """Every NVMe that is handed over with the slot."""
        return (*(() if self.nvme is None else (self.nvme,)), *self.extra_nvmes)


Slots = Annotated[tuple[SlotDevices, ...], Many(256, least=1)]


@dataclass(frozen=True)
class DiscoverParams(Message):
    """slice.topology_discover takes nothing."""


@dataclass(frozen=True)
class VmProvisionParams(Message):
    """slice.vm_provision."""

    allocation_id: AllocationId
    image: ImageName
    ssh_keys: SshKeys
    hostname: Hostname
    slots: Slots

    def check(self, pointer: str) -> None:
        """No slot and no device twice."""
        _check_slots(self.slots, f"{pointer}/slots")


@dataclass(frozen=True)
class VmReleaseParams(Message):
    """slice.vm_release. attempt counts the cleanup's attempts and is echoed in the result."""

    allocation_id: AllocationId
    attempt: Annotated[int, Integer(0, 10_000)]
    slots: Slots

    def check(self, pointer: str) -> None:
        """No slot and no device twice."""
        _check_slots(self.slots, f"{pointer}/slots")


@dataclass(frozen=True)
class BaremetalProvisionParams(Message):
    """baremetal.provision. devices: every slot of the node."""

    allocation_id: AllocationId
    image: ImageName
    ssh_keys: SshKeys
    hostname: Hostname
    devices: Slots

    def check(self, pointer: str) -> None:
        """No slot and no device twice, and no part: a host is handed over whole."""
        _check_slots(self.devices, f"{pointer}/devices")
        for index, slot in enumerate(self.devices):
            if slot.part is not None:
                where = f"{pointer}/devices/{index}/part"
                raise WireError(where, "not_allowed", "a whole host has no parts")


@dataclass(frozen=True)
class BaremetalReleaseParams(Message):
    """baremetal.release."""

    allocation_id: AllocationId
    attempt: Annotated[int, Integer(0, 10_000)]
    devices: Slots

    def check(self, pointer: str) -> None:
        """No slot and no device twice, and no part: a host is handed over whole."""
        _check_slots(self.devices, f"{pointer}/devices")
        for index, slot in enumerate(self.devices):
            if slot.part is not None:
                where = f"{pointer}/devices/{index}/part"
                raise WireError(where, "not_allowed", "a whole host has no parts")


TaskParams = (
    DiscoverParams
    | VmProvisionParams
    | VmReleaseParams
    | BaremetalProvisionParams
    | BaremetalReleaseParams
    | BurnInParams
)


@dataclass(frozen=True)
class VmSummary(Message):
    """The VM, or for bare metal the installed host, that now serves the allocation."""

    name: Annotated[str, Text(120)]
    state: VmState
    image: ImageName


@dataclass(frozen=True)
class ProvisionResult(Message):
    """Result of both provision kinds."""

    allocation_id: AllocationId
    address: Address
    boot_id: BootId
    vm: VmSummary


@dataclass(frozen=True)
class ReleaseResult(Message):
    """Result of both release kinds; the proof is in the evidence beside it."""

    allocation_id: AllocationId
    attempt: Annotated[int, Integer(0, 10_000)]


TaskResult = TopologyReport | ProvisionResult | ReleaseResult | BurnInResult

_PARAMS: MappingProxyType[TaskKind, type[TaskParams]] = MappingProxyType(
    {
        TaskKind.DISCOVER: DiscoverParams,
        TaskKind.VM_PROVISION: VmProvisionParams,
        TaskKind.VM_RELEASE: VmReleaseParams,
        TaskKind.BAREMETAL_PROVISION: BaremetalProvisionParams,
        TaskKind.BAREMETAL_RELEASE: BaremetalReleaseParams,
        TaskKind.BURN_IN: BurnInParams,
    }
)
_RESULTS: MappingProxyType[TaskKind, type[TaskResult]] = MappingProxyType(
    {
        TaskKind.DISCOVER: TopologyReport,
        TaskKind.VM_PROVISION: ProvisionResult,
        TaskKind.VM_RELEASE: ReleaseResult,
        TaskKind.BAREMETAL_PROVISION: ProvisionResult,
        TaskKind.BAREMETAL_RELEASE: ReleaseResult,
        TaskKind.BURN_IN: BurnInResult,
    }
)


def parse_params(kind: TaskKind, value: Any) -> TaskParams:
    """The parameters of a task, strictly. Raises WireError with pointers from /params."""
    return _PARAMS[kind].from_json(value, "/params")


def parse_result(kind: TaskKind, value: Any) -> TaskResult:
    """The result of a task, strictly. Raises WireError with pointers from /result."""
    return _RESULTS[kind].from_json(value, "/result")


def task_slots(params: TaskParams) -> tuple[SlotDevices, ...]:
    """The slots or devices that a task acts on; none for a discovery or a burn-in."""
    if isinstance(params, VmProvisionParams | VmReleaseParams):
        return params.slots
    if isinstance(params, BaremetalProvisionParams | BaremetalReleaseParams):
        return params.devices
    return ()


def task_allocation(params: TaskParams) -> str | None:
    """The allocation that a task acts for; none for a discovery or a burn-in."""
    if isinstance(params, DiscoverParams | BurnInParams):
        return None
    return params.allocation_id


def _check_slots(slots: tuple[SlotDevices, ...], pointer: str) -> None:
    for what, values in (
        ("slot", [str(slot.slot_index) for slot in slots]),
        ("GPU", [slot.gpu_uuid for slot in slots]),
        ("NIC", [nic for slot in slots for nic in slot.all_nics()]),
        ("NVMe", [nvme for slot in slots for nvme in slot.all_nvmes()]),
    ):
        if len(set(values)) != len(values):
            raise WireError(pointer, "not_unique", f"one {what} is named twice")
