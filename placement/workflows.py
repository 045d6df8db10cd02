"""Which durable runs carry an allocation from request to release?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel import clock
from gpuaas.kernel.actor import system
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from gpuaas.kernel.workflow import Definition, Done, Fail, Outcome, Step, Wait, register
from placement.models import Allocation, Claim, CleanupProof, NodeTask
from placement.services import defrag_steps
from placement.services.cleanup import live_claims, release_begin, release_block, release_finish
from placement.services.intents import intent_dropped
from placement.states import AllocationState, ClaimState, TaskState
from placement.states import Outcome as AllocationOutcome

PLATFORM = system("workflow")
POLL_S = 60.0
DAYS_30_S = 30 * 86_400.0
ENDS_S = 86_400.0
"""A cleanup ends by the time that its step may wait for the host. Nobody may have looked at it for
long, since the workers were away: what the host has proven meanwhile stands all the same."""


def _task(run: WorkflowRun) -> NodeTask:
    return NodeTask.objects.get(pk=run.input["task"])


def _waiting(task: NodeTask) -> Wait:
    where = task.step.replace("_", " ") if task.step else task.state
    return Wait(POLL_S, f"host: {where}", task.percent)


def place(run: WorkflowRun) -> Outcome:
    """A queued request waits here; the pool's cycle moves the run on when it is placed."""
    request = AdmissionRequest.objects.get(pk=run.subject_id)
    if request.state == RequestState.QUEUED:
        return Wait(POLL_S, request.detail or "waiting for capacity")
    return Fail(request.code or f"request_{request.state}", request.detail)


def provision(run: WorkflowRun) -> Outcome:
    """Wait for the host to make what was placed."""
    task = _task(run)
    if task.state == TaskState.SUCCEEDED:
        return Done()
    if task.state == TaskState.FAILED:
        error = task.error or {}
        return Fail(
            "provision_failed",
            f"{error.get('code', 'failed')}: {error.get('detail', '')}".strip(": "),
            {"task": str(task.pk), "node_code": error.get("code", "")},
        )
    if task.state == TaskState.CANCELLED:
        return Fail("run_cancelled", "The allocation was released while it was being made.")
    return _waiting(task)


def activate(run: WorkflowRun) -> Outcome:
    """Record the address and hand the allocation over."""
    task = _task(run)
    allocation = Allocation.objects.get(pk=run.subject_id)
    result: dict[str, Any] = task.result or {}
    address = result.get("address") or {}
    connection = {
        **address,
        "command": f"ssh -p {address.get('port')} {address.get('user')}@{address.get('host')}",
    }
    if allocation.state == AllocationState.PLACED:
        allocation = advance(allocation, "provision", actor=PLATFORM)
    if allocation.state == AllocationState.PROVISIONING:
        for claim in live_claims(allocation):
            if claim.state == ClaimState.RESERVED:
                advance(claim, "activate", actor=PLATFORM, changes={"boot_id": task.boot_id})
        allocation = advance(
            allocation,
            "activate",
            actor=PLATFORM,
            changes={"active_at": clock.db_now(), "connection": connection},
        )
    if allocation.state != AllocationState.ACTIVE:
        return Fail("run_cancelled", f"The allocation is {allocation.state}.")
    return Done({"allocation": str(allocation.pk), "connection": connection})


def undo_place(run: WorkflowRun) -> Outcome:
    """What was placed and did not come to life is cleaned up and proven like any other."""
    if run.subject_kind != "placement.allocation":
        return Done()
    error = run.error or {}
    cancelled = error.get("code") == "run_cancelled"
    release_begin(
        allocation_id=run.subject_id,
        outcome=AllocationOutcome.CANCELLED if cancelled else AllocationOutcome.FAILED,
        code=error.get("code", "provision_failed"),
        detail=error.get("detail", ""),
        actor=PLATFORM,
    )
    return Done()


def release(run: WorkflowRun) -> Outcome:
    """Wait for the host to clean up. A host that cannot say so proves nothing."""
    task = _task(run)
    if task.state == TaskState.SUCCEEDED:
        return Done()
    if task.state in (TaskState.FAILED, TaskState.CANCELLED):
        error = task.error or {}
        return Fail(
            "cleanup_blocked",
            f"{error.get('code', task.state)}: {error.get('detail', '')}".strip(": "),
            {"task": str(task.pk)},
        )
    return _waiting(task)


def prove(run: WorkflowRun) -> Outcome:
    """End the claims if each has a complete proof of this very attempt."""
    allocation_id: UUID = run.subject_id
    claims = Claim.objects.filter(allocation_id=allocation_id).exclude(state=ClaimState.RELEASED)
    proofs = {
        proof.claim_id: proof
        for proof in CleanupProof.objects.filter(claim__in=claims, attempt=run.input["attempt"])
    }
    missing = []
    for claim in claims.order_by("slot_index"):
        proof = proofs.get(claim.pk)
        where = "node" if claim.slot_index < 0 else f"slot {claim.slot_index}"
        if proof is None:
            missing.append(f"{where}: no proof")
        elif not proof.complete:
            missing += [f"{where}: {m['step']} {m['why']}" for m in proof.missing]
    if missing:
        return Fail("cleanup_blocked", "; ".join(missing)[:1000], {"missing": missing[:50]})
    release_finish(allocation_id=allocation_id, actor=PLATFORM, reason="proof complete")
    return Done({"allocation": str(allocation_id), "state": "released"})


def blocked(run: WorkflowRun) -> None:
    """A release that could not be proven leaves the capacity with the platform, blocked."""
    error = run.error or {}
    release_block(allocation_id=run.subject_id, detail=error.get("detail", ""), actor=PLATFORM)


def expired(run: WorkflowRun) -> None:
    """A request whose run ended without a place leaves the queue with it."""
    if run.subject_kind == "placement.allocation":
        return
    request = AdmissionRequest.objects.get(pk=run.subject_id)
    if request.state == RequestState.QUEUED:
        error = run.error or {}
        advance(
            request,
            "expire",
            actor=PLATFORM,
            reason=error.get("code", ""),
            changes={"code": error.get("code", ""), "detail": error.get("detail", "")},
        )
        cancelled = error.get("code") == "run_cancelled"
        outcome = AllocationOutcome.CANCELLED if cancelled else AllocationOutcome.EXPIRED
        intent_dropped(request.workload_id, outcome, error.get("code", ""), PLATFORM)


DEFRAGMENT = register(
    Definition(
        "placement.defragment",
        steps=(
            Step("move", run=defrag_steps.moved),
            Step("open", run=defrag_steps.opened),
        ),
        deadline_s=86_400.0,
        on_failed=defrag_steps.stopped,
    )
)
CREATE = register(
    Definition(
        "allocation.create",
        steps=(
            Step("admit"),
            Step("place", run=place, compensate=undo_place),
            Step("provision", run=provision, timeout_s=600.0),
            Step("activate", run=activate),
        ),
        deadline_s=DAYS_30_S,
        on_failed=expired,
    )
)
RELEASE = register(
    Definition(
        "allocation.release",
        steps=(
            Step("release", run=release, timeout_s=900.0),
            Step("prove", run=prove),
        ),
        deadline_s=ENDS_S,
        on_failed=blocked,
    )
)
CLEANUP = register(
    Definition(
        "allocation.cleanup",
        steps=(
            Step("release", run=release, timeout_s=900.0),
            Step("prove", run=prove),
        ),
        deadline_s=ENDS_S,
    )
)
