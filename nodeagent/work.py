"""How is one verified task carried out, and what result does it give?"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.backend import Backend, BackendError, HostRebooted, LeaseLost, TaskCancelled
from nodeagent.client import ControlPlane, Refused, Unreachable
from nodeagent.clock import Clock
from nodeagent.journal import Outcome
from nodeagent.protocol import (
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    CompleteRequest,
    DiscoverParams,
    FailRequest,
    FailureCode,
    HeartbeatRequest,
    ReleaseResult,
    SlotEvidence,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
    evidence_signing_bytes,
    task_slots,
)
from nodeagent.signing import sign
from nodeagent.verify import VerifiedTask

log = logging.getLogger("nodeagent")
_MAX_DETAIL = 2000


class StopFlag(Protocol):
    """Set when a release of the same allocation wants this work to end."""

    def is_set(self) -> bool:
        """Whether to end."""


@dataclass
class LeaseKeeper:
    """The progress callback of one task: heartbeats, and ends the work when it should end.

    A heartbeat goes out at the first step and then not more often than every `every_s` seconds.
    Only the making of things is cancelled; a cleanup that has begun is carried to its end.
    """

    control: ControlPlane
    clock: Clock
    task: VerifiedTask
    stop: StopFlag
    every_s: float
    cancellable: bool
    _last: float = float("-inf")

    async def __call__(self, step: str, percent: int) -> None:
        if self.cancellable and self.stop.is_set():
            raise TaskCancelled
        if self.clock.now() - self._last < self.every_s:
            return
        self._last = self.clock.now()
        envelope = self.task.envelope
        beat = HeartbeatRequest(envelope.lease_epoch, step, max(0, min(percent, 100)))
        try:
            answer = await self.control.heartbeat(envelope.task_id, beat)
        except Unreachable:
            # Work goes on: the lease may still be ours, and the result says which it was.
            return
        except Refused as refusal:
            if refusal.code == "lease_lost":
                raise LeaseLost from refusal
            return
        if answer.cancel and self.cancellable:
            raise TaskCancelled


async def carry_out(
    task: VerifiedTask, backend: Backend, progress: LeaseKeeper, key: Ed25519PrivateKey
) -> Outcome:
    """Run a task on the host and turn what happens into the result to send, evidence signed.

    Raises LeaseLost when the task stopped being ours, and lets HostRebooted and asyncio's
    cancellation through: then there is no result, and the journal's next reader will say so.
    """
    envelope = task.envelope
    boot_id = backend.boot_id()
    try:
        result, evidence = await _run(task, backend, progress)
    except TaskCancelled:
        return failure(task, boot_id, FailureCode.CANCELLED, "stopped as asked", retryable=False)
    except BackendError as error:
        return failure(
            task,
            boot_id,
            error.code,
            error.detail,
            retryable=error.retryable,
            evidence=error.evidence,
            signature=_signature(task, boot_id, error.evidence, key),
        )
    except (LeaseLost, HostRebooted):
        raise
    except Exception as error:
        log.exception("task %s (%s) broke", envelope.task_id, envelope.kind)
        detail = f"the host's code raised {type(error).__name__}"
        return failure(task, boot_id, FailureCode.BACKEND_ERROR, detail, retryable=True)
    signature = _signature(task, boot_id, evidence, key)
    complete = CompleteRequest(envelope.lease_epoch, boot_id, result, evidence, signature)
    return Outcome("complete", complete.to_json())


def failure(
    task: VerifiedTask,
    boot_id: str,
    code: str,
    detail: str,
    *,
    retryable: bool,
    evidence: tuple[SlotEvidence, ...] = (),
    signature: str | None = None,
) -> Outcome:
    """The result of a task that did not succeed."""
    request = FailRequest(
        lease_epoch=task.envelope.lease_epoch,
        boot_id=boot_id,
        code=str(code),
        detail=detail[:_MAX_DETAIL],
        retryable=retryable,
        evidence=evidence,
        evidence_signature=signature,
    )
    return Outcome("fail", request.to_json())


def _signature(
    task: VerifiedTask,
    boot_id: str,
    evidence: tuple[SlotEvidence, ...],
    key: Ed25519PrivateKey,
) -> str | None:
    """The node's word for the evidence; without evidence there is nothing to sign."""
    if not evidence:
        return None
    envelope = task.envelope
    signed = evidence_signing_bytes(
        node_id=envelope.node_id,
        task_id=envelope.task_id,
        lease_epoch=envelope.lease_epoch,
        boot_id=boot_id,
        evidence=evidence,
    )
    return sign(key, signed)


async def _run(
    task: VerifiedTask, backend: Backend, progress: LeaseKeeper
) -> tuple[dict[str, Any], tuple[SlotEvidence, ...]]:
    kind, params = task.envelope.kind, task.params
    if isinstance(params, DiscoverParams):
        return (await backend.discover(progress)).to_json(), ()
    if isinstance(params, BurnInParams):
        load = Unwanted(task.envelope.task_id, task.envelope.lease_epoch)
        return (await backend.burn_in(params, progress, load, task.signed)).to_json(), ()
    for slot in task_slots(params):
        if slot.part is not None and slot.part.kind not in backend.part_kinds:
            raise BackendError(
                FailureCode.PART_UNSUPPORTED,
                f"this host hands over whole GPUs; it makes no {slot.part.kind} parts",
                retryable=False,
            )
    if isinstance(params, VmProvisionParams | BaremetalProvisionParams):
        return (await backend.provision(kind, params, progress, task.signed)).to_json(), ()
    assert isinstance(params, VmReleaseParams | BaremetalReleaseParams)
    evidence = await backend.release(kind, params, progress, task.signed)
    return ReleaseResult(params.allocation_id, params.attempt).to_json(), evidence
