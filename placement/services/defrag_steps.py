"""How does a defragmentation go on, move by move, and when does it stop?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from admission.models import AdmissionRequest, Workload
from admission.states import WorkloadState
from gpuaas.kernel import clock, events, workflow
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.workflow import Done, Fail, Outcome, Wait
from placement.defrag_errors import DefragPlanStale
from placement.domain.capacity import schedulable
from placement.models import Allocation, Claim, Defragmentation
from placement.selectors.nodes import facts_of
from placement.services.allocations import ask_place
from placement.services.bundle import Item
from placement.services.defrag import refuse_unless_on
from placement.services.defrag_search import move_ask
from placement.services.nodes import locked, refold
from placement.services.queue import place_first
from placement.services.workloads import unchanged
from placement.states import LIVE, AllocationState

PART = system("defrag")
POLL_S = 30.0
GONE = (AllocationState.RELEASING, AllocationState.RELEASED, AllocationState.CLEANUP_BLOCKED)


def moved(run: WorkflowRun) -> Outcome:
    """Make one move after the other: each is looked at again, and holds its place before it leaves.

    The next begins when the one before has left and its slots are proven clean. What is not as it
    was planned stops the run with the reason; what was moved stays where it is.
    """
    row = Defragmentation.objects.select_for_update(no_key=True).get(pk=run.subject_id)
    total = len(row.moves)
    for k, move in enumerate(row.moves):
        if move["state"] == "moved":
            continue
        stopped = _begin(row, move) if move["request"] is None else _watched(move)
        row.save(update_fields=["moves"])
        if stopped is not None:
            return stopped
        if move["state"] != "moved":
            left, came = move["source"], move["target"]
            said = f"move {k + 1} of {total}: {move['name']} from {left} to {came}, {move['state']}"
            return Wait(POLL_S, said, 100 * k // total)
    return Done({"host": row.host.name, "moves": total})


def _begin(row: Defragmentation, move: dict[str, Any]) -> Fail | None:
    """Claim the new place of one move, if all is still as it was planned."""
    stale = _closed(row) or _changed(move)
    if stale:
        return Fail(DefragPlanStale.code, stale, {"move": move["name"]})
    workload = Workload.objects.select_related("sku").get(allocations__pk=move["allocation"])
    ask = move_ask(workload, allocation=move["allocation"], node=move["target"], why=row.pk)

    def intent(item: Item) -> None:
        unchanged(workload)

    try:
        refuse_unless_on(row.pool)
        ticket = ask_place(ask, actor=_actor(row), intent=intent)
    except ProductError as refused:
        move["state"] = "refused"
        detail = f"{move['name']} could not be moved to {move['target']}: {refused.detail}"
        return Fail(refused.code, detail, {"move": move["name"], **refused.facts})
    move["request"] = str(ticket.request_id)
    move["state"] = "arriving"
    return None


def _closed(row: Defragmentation) -> str:
    """Why the room that is made is of no use any more, or an empty text: nobody moves for that."""
    facts = facts_of([row.host_id])[row.host_id]
    if schedulable(replace(facts, held=False)):
        return ""
    return f"{row.host.name}, where room is made, takes no new work any more."


def _actor(row: Defragmentation) -> Actor:
    """Whoever began it, as an operator: the platform moves for them."""
    kept = row.actor
    return Actor(
        kind=kept.get("kind", "system"),
        id=kept.get("id", "platform"),
        name=kept.get("name", "platform"),
        operator=True,
    )


def _changed(move: dict[str, Any]) -> str:
    """What is not as it was planned, or an empty text."""
    row = (
        Allocation.objects.select_related("node", "workload").filter(pk=move["allocation"]).first()
    )
    if row is None or row.state != AllocationState.ACTIVE or row.node.name != move["source"]:
        return f"{move['name']} is not active on {move['source']} any more."
    held = Claim.objects.filter(allocation=row, state__in=LIVE).values_list("slot_index", flat=True)
    if sorted(held) != move["leaves"]:
        return f"{move['name']} holds other slots than it did."
    workload = row.workload
    if workload is None or workload.state != WorkloadState.ADMITTED:
        return f"The workload of {move['name']} does not run any more."
    if not workload.spec.get("movable"):
        return f"The workload of {move['name']} may not be moved any more."
    return ""


def _watched(move: dict[str, Any]) -> Fail | None:
    """How far one move is: arriving, leaving, or moved; or why it came to nothing."""
    request = AdmissionRequest.objects.get(pk=move["request"])
    fresh = Allocation.objects.get(request=request)
    old = Allocation.objects.get(pk=move["allocation"])
    if fresh.state in GONE:
        return Fail(
            fresh.outcome_code or "run_cancelled",
            f"The new place of {move['name']} came to nothing: {fresh.outcome_detail}",
            {"move": move["name"]},
        )
    if old.state == AllocationState.CLEANUP_BLOCKED:
        return Fail(
            "cleanup_blocked",
            f"{move['name']} has left {move['source']}, and its slots are not proven clean: "
            f"{old.outcome_detail}",
            {"move": move["name"]},
        )
    if old.state == AllocationState.RELEASED and fresh.state == AllocationState.ACTIVE:
        move["state"] = "moved"
    elif fresh.state == AllocationState.ACTIVE:
        move["state"] = "leaving"
    return None


def opened(run: WorkflowRun) -> Outcome:
    """All is moved: the host takes work again, and who waits is looked at first.

    Room that was made for one request goes to it, before the host is open to anybody else.
    """
    named = Defragmentation.objects.get(pk=run.subject_id).for_request
    place_first(named, after=lambda: _end(run, "moved", "", ""))
    return Done({"outcome": "moved"})


def stopped(run: WorkflowRun) -> None:
    """It ends before all was moved: the host takes work again, and the reason is kept."""
    error = run.error or {}
    _end(run, "stopped", str(error.get("code", "")), str(error.get("detail", "")))


def _end(run: WorkflowRun, outcome: str, code: str, detail: str) -> None:
    row = Defragmentation.objects.select_for_update(no_key=True).get(pk=run.subject_id)
    if row.ended_at is not None:
        return
    row.ended_at, row.outcome, row.code, row.detail = clock.db_now(), outcome, code, detail
    row.save(update_fields=["ended_at", "outcome", "code", "detail"])
    refold(locked(row.host_id))
    events.record(
        kind="placement.defragmentation.end",
        subject=row,
        actor=PART,
        reason=code,
        facts={"outcome": outcome, "host": row.host.name, "detail": detail, "pool": row.pool.name},
    )


def progress_signal(pool_id: UUID) -> None:
    """An allocation of the pool came to life or ended: a run of moves may go on."""
    running = Defragmentation.objects.filter(pool_id=pool_id, ended_at__isnull=True)
    for run_id in running.values_list("run_id", flat=True):
        workflow.signal(run_id)
