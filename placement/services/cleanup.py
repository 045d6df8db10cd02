"""How does a hold end?  By a complete proof; otherwise the capacity stays blocked."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events, ids, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from placement.errors import NotBlocked, SecondPersonNeeded
from placement.models import Allocation, Claim, ClaimDevice, CleanupOverride, NodeTask
from placement.services.nodes import locked, need_reason, recount
from placement.states import LIVE, AllocationState, ClaimState, Outcome, TaskState
from tenants.errors import PersonNeeded
from tenants.models import User
from tenants.services.access import person_id_of
from tenants.services.second_factor import given_lately_or_refuse
from tenants.services.tenancy import quota_return

RELEASE_S = 900


def _locked(allocation_id: UUID) -> Allocation:
    """The allocation, locked after its node: the one order of locks."""
    seen = Allocation.objects.filter(pk=allocation_id).first()
    if seen is None:
        raise errors.NotFound
    locked(seen.node_id)
    return Allocation.objects.select_for_update(no_key=True).get(pk=allocation_id)


def live_claims(allocation: Allocation) -> list[Claim]:
    """The allocation's claims that have not ended, by slot."""
    return list(Claim.objects.filter(allocation=allocation, state__in=LIVE).order_by("slot_index"))


def _cancel_tasks(allocation: Allocation, actor: Actor) -> None:
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
    return NodeTask.objects.create(
        id=ids.new_id(),
        node_id=allocation.node_id,
        kind="baremetal.release" if whole else "slice.vm_release",
        allocation=allocation,
        params={
            "allocation_id": str(allocation.pk),
            "attempt": allocation.attempt,
            part: given[part],
        },
        claim_attempt=allocation.attempt,
        deadline_at=clock.db_now() + timedelta(seconds=RELEASE_S),
        run_id=run_id,
    )


def _start_run(kind: str, allocation: Allocation, actor: Actor) -> WorkflowRun:
    run_id = ids.new_id()
    task = _release_task(allocation, run_id)
    return workflow.start(
        kind,
        subject_kind="placement.allocation",
        subject_id=allocation.pk,
        tenant_id=allocation.tenant_id,
        input={"task": str(task.pk), "attempt": allocation.attempt},
        actor=actor,
        run_id=run_id,
    )


@transaction.atomic
def release_begin(
    *, allocation_id: UUID, outcome: str | None, code: str, detail: str, actor: Actor
) -> WorkflowRun:
    """Start giving back, from any state before it; from later states show the run there is.

    ``outcome`` None: what the tenant asked for, ended or cancelled by how far it was.
    """
    row = _locked(allocation_id)
    if row.state in (
        AllocationState.RELEASING,
        AllocationState.CLEANUP_BLOCKED,
        AllocationState.RELEASED,
    ):
        return WorkflowRun.objects.get(pk=row.run_id)
    if outcome is None:
        active = row.state == AllocationState.ACTIVE
        outcome = Outcome.ENDED if active else Outcome.CANCELLED
    _cancel_tasks(row, actor)
    run = _start_run("allocation.release", row, actor)
    advance(
        row,
        "release",
        actor=actor,
        reason=detail,
        changes={
            "outcome": outcome,
            "outcome_code": code,
            "outcome_detail": detail,
            "run_id": run.pk,
            "release_asked_at": clock.db_now(),
        },
    )
    for claim in live_claims(row):
        if claim.state in (ClaimState.RESERVED, ClaimState.ACTIVE):
            advance(claim, "release", actor=actor)
    return run


def _give_back(claims: list[Claim], row: Allocation) -> None:
    amounts: dict[UUID, int] = {}
    for claim in claims:
        if claim.holder == "tenant":
            class_id = claim.resource_class_id
            amounts[class_id] = amounts.get(class_id, 0) + claim.amount_milli
    if amounts:
        quota_return(tenant_id=row.tenant_id, amounts=amounts, project_id=row.project_id)


@transaction.atomic
def release_finish(*, allocation_id: UUID, actor: Actor, reason: str = "") -> Allocation:
    """End the claims, whose proofs are complete or overridden, and free the capacity."""
    row = _locked(allocation_id)
    if row.state == AllocationState.RELEASED:
        return row
    claims = live_claims(row)
    for claim in claims:
        advance(claim, "finish", actor=actor, reason=reason, changes={"ended_at": clock.db_now()})
    ClaimDevice.objects.filter(claim__allocation=row, live=True).update(live=False)
    row = advance(
        row,
        "finish",
        actor=actor,
        reason=reason,
        changes={"released_at": clock.db_now(), "connection": None},
    )
    recount(locked(row.node_id))
    _give_back(claims, row)
    return row


@transaction.atomic
def release_block(*, allocation_id: UUID, detail: str, actor: Actor) -> Allocation:
    """Hand the claims to the platform: the tenant stops paying, the capacity stays blocked."""
    row = _locked(allocation_id)
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


def _blocked(allocation_id: UUID, reason: str) -> Allocation:
    need_reason(reason)
    row = _locked(allocation_id)
    if row.state != AllocationState.CLEANUP_BLOCKED:
        raise NotBlocked(f"The allocation is {row.state}.", state=row.state)
    return row


@transaction.atomic
def cleanup_retry(*, allocation_id: UUID, reason: str, actor: Actor) -> WorkflowRun:
    """Try the cleanup again after a repair: a new attempt needs a new, complete proof."""
    row = _blocked(allocation_id, reason)
    _cancel_tasks(row, actor)
    row.attempt += 1
    Claim.objects.filter(allocation=row, state__in=LIVE).update(attempt=row.attempt)
    run = _start_run("allocation.cleanup", row, actor)
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


@transaction.atomic
def override_request(*, allocation_id: UUID, reason: str, actor: Actor) -> list[CleanupOverride]:
    """Ask to reuse blocked capacity without proof; another operator has to approve."""
    row = _blocked(allocation_id, reason)
    if not person_id_of(actor):
        raise PersonNeeded
    out = []
    for claim in live_claims(row):
        override, _ = CleanupOverride.objects.get_or_create(
            claim=claim, defaults={"reason": reason, "asked_by": _signed(actor)}
        )
        out.append(override)
    events.record(kind="placement.allocation.override_ask", subject=row, actor=actor, reason=reason)
    return out


def single_operator() -> bool:
    """Whether the platform has a single operator: then one person may do both, and it shows."""
    return User.objects.filter(is_staff=True, is_active=True).count() < 2


def _signed(actor: Actor) -> dict[str, str]:
    """The actor with the id of the person behind it: two names of one person are one person."""
    return {**actor.as_json(), "person": person_id_of(actor)}


@transaction.atomic
def override_approve(*, allocation_id: UUID, reason: str, actor: Actor) -> Allocation:
    """Approve an override as a second person; the claims end, marked as overridden.

    Who the two are is told by their accounts, whatever token or name they use. A platform
    with a single operator lets that one do both, which every record of it says. Whoever has
    a second factor has to have given it lately.
    """
    given_lately_or_refuse(actor)
    row = _blocked(allocation_id, reason)
    overrides = list(CleanupOverride.objects.filter(claim__in=live_claims(row)))
    if not overrides:
        raise errors.NotFound("Nobody has asked for an override of this cleanup.")
    alone = single_operator()
    asker, approver = overrides[0].asked_by.get("person", ""), person_id_of(actor)
    if not approver:
        raise PersonNeeded
    same = asker == approver
    if same and not alone:
        raise SecondPersonNeeded(asked_by=overrides[0].asked_by.get("name", ""))
    for override in overrides:
        override.approved_by = {**_signed(actor), "alone": alone and same}
        override.approved_at = clock.db_now()
        override.save(update_fields=["approved_by", "approved_at"])
    _cancel_tasks(row, actor)
    events.record(
        kind="placement.allocation.override_approve",
        subject=row,
        actor=actor,
        reason=reason,
        facts={"alone": alone and same, "asked_by": overrides[0].asked_by},
    )
    return release_finish(allocation_id=row.pk, actor=actor, reason=f"override: {reason}")
