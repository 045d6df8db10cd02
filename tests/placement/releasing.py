"""What does a release do, told plainly: statement by statement, as the rules say it?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import models

from gpuaas.kernel import clock, ids, told, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Delivery, Event, WorkflowRun
from gpuaas.kernel.transitions import advance
from placement.models import Allocation, Claim, ClaimDevice, Node, NodeTask
from placement.services.allocations import allocation_release
from placement.services.nodes import locked, recount
from placement.services.releases import MAKING, RELEASE_S, Leaving
from placement.states import LIVE, AllocationState, ClaimState, Outcome, TaskState
from tenants.models import ProjectQuota, QuotaCounter
from tenants.services.tenancy import quota_return
from tests.builders import OPERATOR, Host, TenantWorld, drive_all

BEGUN = (AllocationState.RELEASING, AllocationState.CLEANUP_BLOCKED, AllocationState.RELEASED)
TABLES: tuple[type[models.Model], ...] = (
    Allocation,
    Claim,
    ClaimDevice,
    NodeTask,
    WorkflowRun,
    Event,
    Delivery,
    Node,
    QuotaCounter,
    ProjectQuota,
)


def by_the_book(one: Leaving) -> UUID:
    """Begin one release with a statement for each thing; the run that gives it back."""
    row = Allocation.objects.get(pk=one.allocation_id)
    if one.cancel is not None and row.state in MAKING:
        workflow.cancel(row.run_id, one.actor, one.cancel)
    if row.state in BEGUN:
        return row.run_id
    for open_task in row.tasks.filter(state__in=[TaskState.PENDING, TaskState.LEASED]):
        ended = {"lease_epoch": open_task.lease_epoch + 1, "ended_at": clock.db_now()}
        advance(open_task, "cancel", actor=one.actor, changes=ended)
    run_id = ids.new_id()
    task = _task(row, run_id)
    workflow.start(
        "allocation.release",
        subject_kind="placement.allocation",
        subject_id=row.pk,
        tenant_id=row.tenant_id,
        input={"task": str(task.pk), "attempt": row.attempt},
        actor=one.actor,
        run_id=run_id,
    )
    asked_for = Outcome.ENDED if row.state == AllocationState.ACTIVE else Outcome.CANCELLED
    advance(
        row,
        "release",
        actor=one.actor,
        reason=one.code if told.host_speaks(one.code) else one.detail,
        changes={
            "outcome": one.outcome or asked_for,
            "outcome_code": one.code,
            "outcome_detail": one.detail,
            "run_id": run_id,
            "release_asked_at": clock.db_now(),
        },
    )
    for claim in row.claims.filter(state__in=LIVE).order_by("slot_index"):
        if claim.state in (ClaimState.RESERVED, ClaimState.ACTIVE):
            advance(claim, "release", actor=one.actor)
    return run_id


def ended_by_the_book(allocation_id: UUID, actor: Actor, reason: str) -> None:
    """End one allocation with a statement for each thing."""
    row = Allocation.objects.get(pk=allocation_id)
    node = locked(row.node_id)
    amounts: dict[UUID, int] = {}
    for claim in row.claims.filter(state__in=LIVE).order_by("slot_index"):
        ended = {"ended_at": clock.db_now()}
        advance(claim, "finish", actor=actor, reason=reason, changes=ended)
        claim.devices.update(live=False)
        if claim.holder == "tenant":
            so_far = amounts.get(claim.resource_class_id, 0)
            amounts[claim.resource_class_id] = so_far + claim.amount_milli
    over = {"released_at": clock.db_now(), "connection": None}
    advance(row, "finish", actor=actor, reason=reason, changes=over)
    recount(node)
    if amounts:
        quota_return(tenant_id=row.tenant_id, amounts=amounts, project_id=row.project_id)


def _task(row: Allocation, run_id: UUID) -> NodeTask:
    whole = row.slots == 0
    part = "devices" if whole else "slots"
    [given] = row.tasks.filter(kind__endswith="provision").values_list("params", flat=True)
    held = set(row.claims.filter(state__in=LIVE).values_list("slot_index", flat=True))
    parts = [one for one in given[part] if whole or one["slot_index"] in held]
    return NodeTask.objects.create(
        node_id=row.node_id,
        kind="baremetal.release" if whole else "slice.vm_release",
        allocation=row,
        params={"allocation_id": str(row.pk), "attempt": row.attempt, part: parts},
        claim_attempt=row.attempt,
        deadline_at=clock.db_now() + timedelta(seconds=RELEASE_S),
        run_id=run_id,
    )


def rows() -> dict[str, list[dict[str, Any]]]:
    """Every row that a release could touch, but for what a database counts by itself.

    What is made anew is called by the allocation that it is for; the database's own time is "now".
    """
    names: dict[str, str] = {}
    for run in WorkflowRun.objects.all():
        names[str(run.pk)] = f"{run.kind} of {run.subject_id}"
    for task in NodeTask.objects.all():
        names[str(task.pk)] = f"{task.kind} of {task.allocation_id}"
    real = datetime.now(tz=clock.db_now().tzinfo)

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return "now" if abs(value - real) < timedelta(hours=1) else value.isoformat()
        if isinstance(value, dict):
            return {key: plain(one) for key, one in sorted(value.items())}
        return names.get(str(value), value)

    found: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:
        left_out = ("uid", "xid") if table is Event else ("event",) if table is Delivery else ()
        fields = [f for f in table._meta.concrete_fields if f.name not in left_out]
        if table in (Event, Delivery):
            fields = [f for f in fields if not f.primary_key]
        found[table.__name__] = [
            {f.name: plain(getattr(row, f.attname)) for f in fields}
            for row in table._default_manager.order_by("pk")
        ]
    for noun in ("NodeTask", "WorkflowRun"):
        found[noun].sort(key=lambda row: str(row["id"]))
    return found


def brought_to(
    state: str, tenant: TenantWorld, host: Host, sku: str, wishes: dict[str, Any]
) -> UUID:
    """An allocation on a host of its own, as far as that state; "thinned": one claim has ended."""
    made = tenant.order(sku, **wishes).allocation_id
    assert made is not None
    steps: Sequence[str] = ("placed", "provisioning", "active")
    if state == "placed":
        return made
    [task] = host.lease()
    if state == "provisioning":
        return made
    host.complete(task)
    drive_all()
    if state == "preempting":
        advance(Allocation.objects.get(pk=made), "preempt", actor=OPERATOR)
    if state == "thinned":
        claim = Claim.objects.filter(allocation_id=made).order_by("slot_index")[0]
        for edge in ("release", "finish"):
            claim = advance(claim, edge, actor=OPERATOR)
    if state in (*steps, "preempting", "thinned"):
        return made
    allocation_release(allocation_id=made, reason="", actor=OPERATOR)
    if state == "releasing":
        return made
    [task] = host.lease()
    if state == "cleanup_blocked":
        host.fail(task)
    else:
        host.complete(task)
    drive_all()
    return made
