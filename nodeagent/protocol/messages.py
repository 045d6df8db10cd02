"""Which documents do agent and control plane exchange? Every time is whole unix seconds (UTC)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from nodeagent.protocol.codec import Free, Integer, Many, Message, Text
from nodeagent.protocol.kinds import Presence, TaskKind, VmState
from nodeagent.protocol.parts import GpuPart, PartKind
from nodeagent.protocol.topology import Code, Id

Token = Annotated[str, Text(200, pattern=r"[A-Za-z0-9_.~-]+")]
PublicKey = Annotated[str, Text(44, least=44, pattern=r"[A-Za-z0-9+/]{43}=")]
Signature = Annotated[str, Text(88, least=88, pattern=r"[A-Za-z0-9+/]{86}==")]
BootId = Annotated[str, Text(64, least=8, pattern=r"[A-Za-z0-9-]+")]
NodeId = Annotated[str, Text(64, pattern=r"[A-Za-z0-9-]+")]
TaskId = Annotated[str, Text(64, pattern=r"[A-Za-z0-9-]+")]
AllocationId = Annotated[str, Text(64, pattern=r"[A-Za-z0-9-]+")]
Hostname = Annotated[str, Text(253, pattern=r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")]
Version = Annotated[str, Text(64, pattern=r"[A-Za-z0-9.+_-]+")]
Time = Annotated[int, Integer(0, 2**40)]
Epoch = Annotated[int, Integer(0)]
Milliseconds = Annotated[int, Integer(0, 86_400_000)]
Percent = Annotated[int, Integer(0, 100)]
Step = Annotated[str, Text(64, pattern=r"[a-z][a-z0-9_]*")]
Detail = Annotated[str, Text(2000, least=0, multiline=True)]
HexDigest = Annotated[str, Text(64, pattern=r"[0-9a-f]{64}")]
TaskIds = Annotated[tuple[TaskId, ...], Many(64)]


@dataclass(frozen=True)
class JoinRequest(Message):
    """POST /join, unsigned: a one-time token exchanged for a credential bound to a key."""

    token: Token = field(repr=False)
    public_key: PublicKey
    boot_id: BootId
    hostname: Hostname
    agent_version: Version
    facts: Annotated[dict[str, Any], Free(32)]


@dataclass(frozen=True)
class JoinAnswer(Message):
    """The same join (token and key) repeated gives the same answer."""

    ignores_unknown: ClassVar[bool] = True
    node_id: NodeId
    node_name: Annotated[str, Text(253)]
    credential_id: Id
    expires_at: Time
    control_public_key: PublicKey
    server_time: Time
    poll_ms: Milliseconds


@dataclass(frozen=True)
class RenewRequest(Message):
    """POST /credential:renew, signed with the present key; public_key may be a new one."""

    public_key: PublicKey


@dataclass(frozen=True)
class RenewAnswer(Message):
    """A new credential; the control plane's key may have changed with it."""

    ignores_unknown: ClassVar[bool] = True
    credential_id: Id
    expires_at: Time
    server_time: Time
    control_public_key: PublicKey | None = None


@dataclass(frozen=True)
class LeaseRequest(Message):
    """POST /tasks:lease. running: tasks this agent holds and has not yet had acknowledged."""

    boot_id: BootId
    max: Annotated[int, Integer(0, 16)]
    capabilities: Annotated[tuple[Annotated[str, Text(64)], ...], Many(32)]
    running: TaskIds = ()


@dataclass(frozen=True)
class TaskEnvelope(Message):
    """The signed part of a task. The parameters are bound to it by params_sha256.

    boot_id null means that the task is good for any boot (a discovery, or a release after a
    reboot); otherwise a task of an earlier boot is refused.
    """

    task_id: TaskId
    node_id: NodeId
    kind: TaskKind
    attempt: Annotated[int, Integer(0, 10_000)]
    lease_epoch: Epoch
    boot_id: BootId | None
    not_before: Time
    expires_at: Time
    nonce: Annotated[str, Text(64, least=16, pattern=r"[A-Za-z0-9_-]+")]
    params_sha256: HexDigest
    schema: Annotated[int, Integer(1, 1)]


@dataclass(frozen=True)
class SignedTask(Message):
    """One leased task. params is parsed by kind with `params.parse_params`.

    The envelope stays a raw object here, so that an agent can name and refuse a task of a kind or
    schema that it does not know, instead of failing the whole lease.
    """

    envelope: Annotated[dict[str, Any], Free(32)]
    params: Annotated[dict[str, Any], Free(32)]
    signature: Signature


@dataclass(frozen=True)
class Unwanted(Message):
    """A task whose load must end. lease_epoch: no lease of it below this one counts any more."""

    task_id: TaskId
    lease_epoch: Epoch


@dataclass(frozen=True)
class LeaseAnswer(Message):
    """Tasks leased to this node, and when to ask again.

    unwanted: burn-ins that were stopped, told until the agent has answered each with `cancelled`:
    its load has ended, and cannot begin any more. Left out where there are none.
    """

    ignores_unknown: ClassVar[bool] = True
    tasks: Annotated[tuple[SignedTask, ...], Many(16)]
    next_poll_ms: Milliseconds
    server_time: Time
    unwanted: Annotated[tuple[Unwanted, ...], Many(16)] = ()
    left_out_when_empty: ClassVar[frozenset[str]] = frozenset({"unwanted"})


@dataclass(frozen=True)
class HeartbeatRequest(Message):
    """POST /tasks/{id}/heartbeat."""

    lease_epoch: Epoch
    step: Step
    percent: Percent


@dataclass(frozen=True)
class HeartbeatAnswer(Message):
    """The lease's new end, and whether the agent is asked to stop and fail with `cancelled`."""

    ignores_unknown: ClassVar[bool] = True
    lease_expires_at: Time
    cancel: bool


@dataclass(frozen=True)
class EvidenceStep(Message):
    """One cleanup step of one slot. method `not_applicable` claims that there was no device."""

    step: Step
    ok: bool
    method: Annotated[str, Text(64, pattern=r"[a-z][a-z0-9_]*")]
    detail: Detail
    at: Time


@dataclass(frozen=True)
class SlotEvidence(Message):
    """What was done to one slot."""

    slot_index: Annotated[int, Integer(0, 4095)]
    steps: Annotated[tuple[EvidenceStep, ...], Many(32)]


@dataclass(frozen=True)
class CompleteRequest(Message):
    """POST /tasks/{id}/complete. result is parsed by kind with `params.parse_result`.

    evidence_signature: the node's, over `signed.evidence_signing_bytes`; there where evidence is.
    """

    lease_epoch: Epoch
    boot_id: BootId
    result: Annotated[dict[str, Any], Free(32)]
    evidence: Annotated[tuple[SlotEvidence, ...], Many(256)] = ()
    evidence_signature: Signature | None = None


@dataclass(frozen=True)
class FailRequest(Message):
    """POST /tasks/{id}/fail. evidence: what was proven before it failed, signed as above."""

    lease_epoch: Epoch
    boot_id: BootId
    code: Code
    detail: Detail
    retryable: bool
    evidence: Annotated[tuple[SlotEvidence, ...], Many(256)] = ()
    evidence_signature: Signature | None = None


@dataclass(frozen=True)
class Address(Message):
    """Where a tenant connects to."""

    host: Annotated[str, Text(253, pattern=r"[A-Za-z0-9.:_-]+")]
    port: Annotated[int, Integer(1, 65535)]
    user: Annotated[str, Text(32, pattern=r"[a-z_][a-z0-9_-]*")]


@dataclass(frozen=True)
class ObservedVm(Message):
    """A VM (or bare-metal tenancy) on the host; claim_ref is its allocation id when it has one.

    part: what it has of its slot's GPU, left out where that is all of it.
    """

    claim_ref: AllocationId | None
    name: Annotated[str, Text(120)]
    state: VmState
    slots: Annotated[tuple[Annotated[int, Integer(0, 4095)], ...], Many(256)]
    address: Address | None = None
    part: GpuPart | None = None
    left_out_when_empty: ClassVar[frozenset[str]] = frozenset({"part"})


@dataclass(frozen=True)
class ObservedDevice(Message):
    """A device as seen now; holder is the allocation that has it, clean null when unknown."""

    id: Id
    presence: Presence
    holder: AllocationId | None = None
    clean: bool | None = None


@dataclass(frozen=True)
class ObservedDevices(Message):
    """Devices by family; GPUs by UUID, NICs and NVMes by the ids of the topology report."""

    gpus: Annotated[tuple[ObservedDevice, ...], Many(256)] = ()
    nics: Annotated[tuple[ObservedDevice, ...], Many(512)] = ()
    nvmes: Annotated[tuple[ObservedDevice, ...], Many(512)] = ()


@dataclass(frozen=True)
class Condition(Message):
    """Something about the node that people or placement must know.

    Codes in use: prerequisite_missing, residue_found, unknown_vm, device_missing, burn_in_runs,
    helper_wrong_node, helper_wrong_keys, driver_hangs, gpu_serial_changed, record_damaged,
    machines_returning, machine_not_restarted, gpu_in_use.
    """

    code: Code
    detail: Detail
    device: Id | None = None
    claim_ref: AllocationId | None = None


@dataclass(frozen=True)
class ObservedReport(Message):
    """PUT /nodes/self/observed. seq counts the reports of one boot, from 1.

    parts: the kinds of parts of a GPU that this host can make and clean; left out where none.
    """

    boot_id: BootId
    seq: Annotated[int, Integer(1)]
    at: Time
    vms: Annotated[tuple[ObservedVm, ...], Many(256)]
    devices: ObservedDevices
    conditions: Annotated[tuple[Condition, ...], Many(256)]
    intended_use: Code | None = None
    parts: Annotated[tuple[PartKind, ...], Many(8)] = ()
    left_out_when_empty: ClassVar[frozenset[str]] = frozenset({"parts"})


@dataclass(frozen=True)
class ObservedAnswer(Message):
    """The control plane's acknowledgement of a report."""

    ignores_unknown: ClassVar[bool] = True
    server_time: Time


@dataclass(frozen=True)
class Problem(Message):
    """The parts of a problem+json answer that an agent acts on."""

    ignores_unknown: ClassVar[bool] = True
    code: Code
    detail: Detail = ""
    last_sequence: Annotated[int, Integer(0)] | None = None
    server_time: Time | None = None
