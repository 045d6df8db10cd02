"""May this node run this task? Everything is checked before anything is done."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nodeagent.backend import Observation
from nodeagent.identity import Identity
from nodeagent.journal import Journal
from nodeagent.protocol import (
    PROVISION_KINDS,
    BurnInParams,
    CandidateSlot,
    DeviceMode,
    RefusalCode,
    SignedTask,
    SlotDevices,
    TaskEnvelope,
    TaskKind,
    TaskParams,
    TopologyReport,
    WireError,
    params_sha256,
    parse_params,
    parts_clash,
    task_allocation,
    task_signing_bytes,
    task_slots,
)
from nodeagent.shares import Shares
from nodeagent.signing import verify

_TASK_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_CLOCK_TOLERANCE_S = 30


@dataclass(frozen=True)
class VerifiedTask:
    """A task that passed every check. signed: as it came, for whoever checks it again."""

    envelope: TaskEnvelope
    params: TaskParams
    signed: SignedTask

    @property
    def allocation_id(self) -> str | None:
        """The allocation it acts for, if any."""
        return task_allocation(self.params)


class TaskRefused(Exception):
    """The task must not be run. Nothing of it has been."""

    def __init__(self, code: RefusalCode, detail: str) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class Facts:
    """What a task is checked against. server_now: unix seconds on the server's clock.

    former_keys: what may have signed it beside the control plane's key, base64.
    """

    identity: Identity
    boot_id: str
    server_now: int
    capabilities: Collection[TaskKind]
    journal: Journal
    former_keys: Collection[str] = ()


def verify_task(task: SignedTask, facts: Facts) -> VerifiedTask:
    """Check who sent a task, to whom, and whether it is valid now. Raises TaskRefused."""
    identity = facts.identity
    envelope = open_envelope(task, (identity.control_public_key, *facts.former_keys))
    if envelope.node_id != identity.node_id:
        raise TaskRefused(RefusalCode.WRONG_NODE, "the task is for another node")
    if envelope.kind not in facts.capabilities:
        raise TaskRefused(RefusalCode.UNSUPPORTED_TASK, "this node does not do this kind of task")
    params = open_params(envelope, task.params)
    known = facts.journal.entry(envelope.task_id)
    if known is not None and envelope.lease_epoch < known.epoch:
        raise TaskRefused(RefusalCode.STALE_EPOCH, "a newer lease of this task has been seen")
    if facts.server_now > envelope.expires_at:
        raise TaskRefused(RefusalCode.TASK_EXPIRED, "the task's validity is over")
    if facts.server_now + _CLOCK_TOLERANCE_S < envelope.not_before:
        raise TaskRefused(RefusalCode.TASK_NOT_YET_VALID, "the task is not valid yet")
    if envelope.boot_id is not None and envelope.boot_id != facts.boot_id:
        raise TaskRefused(RefusalCode.WRONG_BOOT, "the task is for another boot of this node")
    allocation = task_allocation(params)
    if envelope.kind in PROVISION_KINDS and allocation and facts.journal.released(allocation):
        raise TaskRefused(
            RefusalCode.ALLOCATION_RELEASED, "this allocation was already released here"
        )
    return VerifiedTask(envelope, params, task)


def open_envelope(task: SignedTask, keys: Collection[str]) -> TaskEnvelope:
    """What was signed, by one of these keys (base64). Raises TaskRefused."""
    try:
        signed = task_signing_bytes(task.envelope)
    except WireError as error:
        raise TaskRefused(RefusalCode.SCHEMA_INVALID, str(error)) from error
    if not any(verify(key, task.signature, signed) for key in keys):
        raise TaskRefused(RefusalCode.SIGNATURE_INVALID, "not signed by the control plane's key")
    try:
        return TaskEnvelope.from_json(task.envelope, "/envelope")
    except WireError as error:
        unknown_kind = error.pointer == "/envelope/kind" and error.code == "unknown_value"
        code = RefusalCode.UNSUPPORTED_TASK if unknown_kind else RefusalCode.SCHEMA_INVALID
        raise TaskRefused(code, str(error)) from error


def open_params(envelope: TaskEnvelope, raw: dict[str, Any]) -> TaskParams:
    """The parameters that the envelope is bound to. Raises TaskRefused."""
    try:
        if params_sha256(raw) != envelope.params_sha256:
            raise TaskRefused(
                RefusalCode.PARAMS_MISMATCH, "the parameters are not those that were signed"
            )
        return parse_params(envelope.kind, raw)
    except WireError as error:
        raise TaskRefused(RefusalCode.SCHEMA_INVALID, str(error)) from error


def verify_devices(
    task: VerifiedTask, report: TopologyReport, seen: Observation, shares: Shares
) -> None:
    """Check that every named device is the slot's own, and not somebody else's now.

    Raises TaskRefused. A NIC or NVMe is accepted only where the node itself says that it is
    exclusive to that slot; CPUs must lie within what the node has counted to that GPU, now or
    before another card came or went, and memory must not exceed it.
    """
    # Slots follow UUIDs: the control plane keeps a slot's number when cards come and go.
    slots = {slot.gpu_uuid: slot for slot in report.slots if slot.gpu_uuid is not None}
    if isinstance(task.params, BurnInParams):
        _refuse_busy(task.params, slots, seen)
        return
    for wanted in task_slots(task.params):
        own = slots.get(wanted.gpu_uuid)
        if own is None:
            raise TaskRefused(
                RefusalCode.DEVICE_MISMATCH,
                f"slot {wanted.slot_index}: this node does not have that GPU",
            )
        problem = _devices_problem(wanted, own, shares)
        if problem:
            raise TaskRefused(RefusalCode.DEVICE_MISMATCH, f"slot {wanted.slot_index}: {problem}")
    if task.envelope.kind in PROVISION_KINDS:
        _refuse_taken(task, seen)


def reply_address(envelope: dict[str, Any]) -> tuple[str, int] | None:
    """Task id and epoch to answer a refused task by; None when it does not even have those."""
    task_id, epoch = envelope.get("task_id"), envelope.get("lease_epoch")
    if not isinstance(task_id, str) or not _TASK_ID.fullmatch(task_id):
        return None
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < 2**63:
        return None
    return task_id, epoch


def _devices_problem(wanted: SlotDevices, own: CandidateSlot, shares: Shares) -> str | None:
    own_nics = (own.nic, *own.extra_nics) if own.nic_mode is DeviceMode.EXCLUSIVE else ()
    own_nvmes = (own.nvme, *own.extra_nvmes) if own.nvme_mode is DeviceMode.EXCLUSIVE else ()
    if not set(wanted.all_nics()) <= set(own_nics):
        return "names a NIC that is not exclusively its own"
    if not set(wanted.all_nvmes()) <= set(own_nvmes):
        return "names an NVMe device that is not exclusively its own"
    if wanted.numa is not None and wanted.numa != own.numa:
        return "names another NUMA node"
    return shares.problem(wanted.gpu_uuid, own.numa, wanted.cpuset, wanted.memory_bytes) or None


def _refuse_busy(
    params: BurnInParams, slots: Mapping[str, CandidateSlot], seen: Observation
) -> None:
    """A burn-in is for this node's own GPUs, and only while nobody has them."""
    unknown = [gpu for gpu in params.gpus if gpu not in slots]
    if unknown:
        raise TaskRefused(RefusalCode.DEVICE_MISMATCH, f"this node does not have {unknown[0]}")
    places = {slots[gpu].index for gpu in params.gpus}
    held = any(one.id in params.gpus and one.holder is not None for one in seen.devices.gpus)
    if held or any(places & set(vm.slots) for vm in seen.vms):
        raise TaskRefused(
            RefusalCode.DEVICE_IN_USE, "something on this node has one of the GPUs to burn in"
        )


def _refuse_taken(task: VerifiedTask, seen: Observation) -> None:
    slots = task_slots(task.params)
    # Of a GPU that is handed over in parts, the machines that have them say who has what.
    gpus = {slot.gpu_uuid for slot in slots if slot.part is None}
    for device in seen.devices.gpus:
        if device.id in gpus and device.holder not in (None, task.allocation_id):
            raise TaskRefused(
                RefusalCode.DEVICE_IN_USE, "something else on this node has one of the GPUs"
            )
    for slot in slots:
        there = [
            vm.part
            for vm in seen.vms
            if vm.claim_ref != task.allocation_id and slot.slot_index in vm.slots
        ]
        if parts_clash(slot.part, there):
            raise TaskRefused(
                RefusalCode.DEVICE_IN_USE, "something else on this node has one of the slots"
            )
