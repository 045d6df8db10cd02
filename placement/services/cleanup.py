"""How does a hold end?  By a complete proof; otherwise the capacity stays blocked."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events, ids, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from placement.errors import NotBlocked
from placement.models import Allocation, Claim, ClaimDevice, Node, NodeTask
from placement.services.nodes import locked, need_reason, recount, refold
from placement.services.releases import RELEASE_S, Leaving, allocation_end, releases_begin
from placement.states import LIVE, AllocationState, ClaimState, TaskState
from tenants.services.tenancy import quota_return


def locked_allocation(allocation_id: UUID) -> Allocation:
    """The allocation, locked after its node: the one order of locks."""
    seen = Allocation.objects.filter(pk=allocation_id).first()
    if seen is None:
        raise errors.NotFound
    locked(seen.node_id)
    return Allocation.objects.select_for_update(no_key=True).get(pk=allocation_id)


def live_claims(allocation: Allocation) -> list[Claim]:
    """The allocation's claims that have not ended, by slot."""
    return list(Claim.objects.filter(allocation=allocation, state__in=LIVE).order_by("slot_index"))


def cancel_tasks(allocation: Allocation, actor: Actor) -> None:
    """Fence off what is still on its way to the host; a late result changes nothing."""
    for task in NodeTask.objects.filter(
        allocation=allocation, state__in=[TaskState.PENDING, TaskState.LEASED]
    ):
        advance(
            task,
            "cancel",
            actor=actor,
            changes={"lease_epoch": task.lease_epoch + 1, "ended_at": clock.db_now()},
        )


def _release_task(allocation: Allocation, run_id: UUID) -> NodeTask:
    """Ask the host to clean up, with the devices that were handed over."""
    whole = allocation.slots == 0
    given = (
        NodeTask.objects.filter(allocation=allocation, kind__endswith="provision")
        .order_by("created_at")
        .values_list("params", flat=True)
        .first()
    )
    assert given is not None
    part = "devices" if whole else "slots"
    # A slot whose claim was overridden may be another tenant's by now.
    held = {claim.slot_index for claim in live_claims(allocation)}
    parts = [one for one in given[part] if whole or one["slot_index"] in held]
    return NodeTask.objects.create(
        id=ids.new_id(),
        node_id=allocation.node_id,
        kind="baremetal.release" if whole else "slice.vm_release",
        allocation=allocation,
        params={
            "allocation_id": str(allocation.pk),
            "attempt": allocation.attempt,
            part: parts,
        },
        claim_attempt=allocation.attempt,
        deadline_at=clock.db_now() + timedelta(seconds=RELEASE_S),
        run_id=run_id,
    )


def _start_cleanup(allocation: Allocation, actor: Actor) -> WorkflowRun:
    run_id = ids.new_id()
    task = _release_task(allocation, run_id)
    return workflow.start(
        "allocation.cleanup",
        subject_kind="placement.allocation",
        subject_id=allocation.pk,
        tenant_id=allocation.tenant_id,
        input={"task": str(task.pk), "attempt": allocation.attempt},
        actor=actor,
        run_id=run_id,
    )


def release_begin(
    *, allocation_id: UUID, outcome: str | None, code: str, detail: str, actor: Actor
) -> WorkflowRun:
    """Start giving back one, without a look at the run that may still make it.

    From any state before it; from later states the run there is. ``outcome`` None: what the
    tenant asked for, ended or cancelled by how far it was. Raises NotFound.
    """
    asked = Leaving(allocation_id, actor, code=code, detail=detail, outcome=outcome)
    for left in releases_begin([asked]):
        return left.run()
    raise errors.NotFound


def _give_back(claims: list[Claim], row: Allocation) -> None:
    amounts: dict[UUID, int] = {}
    for claim in claims:
        if claim.holder == "tenant":
            class_id = claim.resource_class_id
            amounts[class_id] = amounts.get(class_id, 0) + claim.amount_milli
    if amounts:
        quota_return(tenant_id=row.tenant_id, amounts=amounts, project_id=row.project_id)


def claim_finish(claim: Claim, *, actor: Actor, reason: str) -> None:
    """End one claim, and let go of its devices."""
    advance(claim, "finish", actor=actor, reason=reason, changes={"ended_at": clock.db_now()})
    ClaimDevice.objects.filter(claim=claim, live=True).update(live=False)


@transaction.atomic
def release_finish(*, allocation_id: UUID, actor: Actor, reason: str = "") -> Allocation:
    """End the claims, whose proofs are complete or overridden, and free the capacity.

    One statement ends them and counts anew; what was charged is given back last. Repeating it
    is one. Raises NotFound, or TransitionRefused from where it cannot end.
    """
    end = allocation_end(allocation_id, actor, reason)
    if end.ended:
        refold(Node.objects.get(pk=end.node_id))
        if end.amounts:
            quota_return(tenant_id=end.tenant_id, amounts=end.amounts, project_id=end.project_id)
    elif end.was != AllocationState.RELEASED:
        raise errors.TransitionRefused(
            f"The allocation is {end.was}; it cannot end from there, or a claim of it cannot.",
            state=end.was,
            edge="finish",
        )
    return Allocation.objects.get(pk=allocation_id)


@transaction.atomic
def release_block(*, allocation_id: UUID, detail: str, actor: Actor) -> Allocation:
    """Hand the claims to the platform: the tenant stops paying, the capacity stays blocked."""
    row = locked_allocation(allocation_id)
    if row.state != AllocationState.RELEASING:
        return row
    claims = live_claims(row)
    for claim in claims:
        if claim.state == ClaimState.RELEASING:
            advance(
                claim,
                "block",
                actor=actor,
                reason="cleanup_blocked",
                changes={"holder": "platform"},
            )
    row = advance(
        row,
        "block",
        actor=actor,
        reason="cleanup_blocked",
        changes={"outcome_detail": detail, "connection": None},
        facts={"detail": detail},
    )
    recount(locked(row.node_id))
    _give_back(claims, row)
    return row


@transaction.atomic
def cleanup_retry(*, allocation_id: UUID, reason: str, actor: Actor) -> WorkflowRun:
    """Try the cleanup again after a repair: a new attempt needs a new, complete proof.

    Raises OperationInProgress while the try before is still at work: its evidence would be
    thrown away by a second one.
    """
    need_reason(reason)
    row = locked_allocation(allocation_id)
    if row.state != AllocationState.CLEANUP_BLOCKED:
        raise NotBlocked(f"The allocation is {row.state}.", state=row.state)
    at_work = WorkflowRun.objects.filter(pk=row.run_id, ended_at__isnull=True).first()
    if at_work is not None:
        raise errors.OperationInProgress(
            f"Attempt {row.attempt} of the cleanup is still at work ({at_work.step}).",
            operation=str(at_work.pk),
            attempt=row.attempt,
        )
    cancel_tasks(row, actor)
    row.attempt += 1
    Claim.objects.filter(allocation=row, state__in=LIVE).update(attempt=row.attempt)
    run = _start_cleanup(row, actor)
    row.run_id = run.pk
    row.save(update_fields=["attempt", "run_id"])
    events.record(
        kind="placement.allocation.cleanup_retry",
        subject=row,
        actor=actor,
        reason=reason,
        facts={"attempt": row.attempt},
    )
    return run
