"""What becomes of a workload's intent when a request about it is admitted, or comes to nothing?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from admission.errors import WorkloadStateRefused
from admission.models import Action, AdmissionRequest, Workload
from admission.states import RequestState, WorkloadState
from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ConcurrentUpdate
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from placement.models import Allocation
from placement.states import AllocationState

STANDING: Final = (AllocationState.PLACED, AllocationState.PROVISIONING, AllocationState.ACTIVE)


def waiting_locked(workload_id: UUID) -> None:
    """Lock what waits for a workload, each run before its request, as whoever ends one does.

    To be called before the workload itself is locked: the cycle has a request in hand first.
    """
    mine = AdmissionRequest.objects.filter(workload_id=workload_id, state=RequestState.QUEUED)
    ids = [run_id for run_id in mine.values_list("run_id", flat=True) if run_id is not None]
    runs = WorkflowRun.objects.filter(pk__in=ids)
    list(runs.order_by("pk").select_for_update(no_key=True))
    list(mine.order_by("pk").select_for_update(no_key=True))


def intent_locked(workload_id: UUID) -> Workload:
    """The workload, under its lock."""
    return Workload.objects.select_for_update(no_key=True).get(pk=workload_id)


def intent_change(row: Workload, changes: dict[str, Any], actor: Actor) -> Workload:
    """Change what is wanted: one generation later, with its event."""
    before = {name: getattr(row, name) for name in changes}
    for name, value in changes.items():
        setattr(row, name, value)
    row.generation += 1
    row.version += 1
    row.save(update_fields=[*changes, "generation", "version"])
    events.record(
        kind="admission.workload.change",
        subject=row,
        actor=actor,
        before=before,
        after=changes,
        facts={"generation": row.generation},
    )
    return row


def intent_taken(
    workload_id: UUID, action: str, replicas: int, actor: Actor, *, spec: Mapping[str, Any]
) -> None:
    """What was admitted for a workload is its intent from now on; ``replicas`` were placed.

    ``spec`` is the request's own. Raises WorkloadStateRefused when the workload stops or has
    ended meanwhile: nothing is added to it; ConcurrentUpdate when it is another than the one
    that was to be moved.
    """
    row = intent_locked(workload_id)
    if row.state == WorkloadState.SUBMITTED:
        advance(row, "admit", actor=actor)
    elif row.state != WorkloadState.ADMITTED:
        raise WorkloadStateRefused(f"The workload is {row.state}.", state=row.state)
    elif action == Action.SCALE:
        if _renewed(spec, row, action) != dict(spec):
            raise ConcurrentUpdate("The workload was changed meanwhile.")
        intent_change(row, {"replicas": row.replicas + replicas}, actor)
    elif action == Action.PLACEMENT:
        old, now = set(spec["moves"]), set(standing_of(row))
        if row.generation != spec["generation"] or not old <= now or len(now - old) != replicas:
            raise ConcurrentUpdate("The workload was changed meanwhile.")
        places = {name: spec.get(name, []) for name in ("zones", "datasets")}
        intent_change(row, {"spec": {**row.spec, **places}}, actor)


def intent_dropped(workload_id: UUID | None, outcome: str, code: str, actor: Actor) -> None:
    """A workload whose first request came to nothing has ended."""
    if workload_id is None:
        return
    row = intent_locked(workload_id)
    if row.state == WorkloadState.SUBMITTED:
        changes = {"outcome": outcome, "code": code, "ended_at": clock.db_now()}
        advance(row, "end", actor=actor, reason=code, changes=changes)


def standing_of(row: Workload) -> list[str]:
    """The ids of the workload's allocations that stand, in order."""
    rows = Allocation.objects.filter(workload=row, state__in=STANDING)
    return [str(pk) for pk in rows.order_by("pk").values_list("pk", flat=True)]


def last_move(workload_id: UUID) -> AdmissionRequest | None:
    """The latest move of a workload that was admitted, whatever became of it."""
    asked = AdmissionRequest.objects.filter(
        workload=workload_id, action=Action.PLACEMENT, state=RequestState.ADMITTED
    )
    return asked.order_by("-created_at", "-id").first()


def leaving_of(workload_id: UUID) -> tuple[str, ...]:
    """The ids of what a workload's latest move takes away, while its new places stand."""
    last = last_move(workload_id)
    if last is None or not Allocation.objects.filter(request=last, state__in=STANDING).exists():
        return ()
    return tuple(last.spec.get("moves", []))


def move_of(row: Workload) -> tuple[int, dict[str, Any]]:
    """How many new allocations moving it takes now, and which old ones they replace.

    Fewer than stand while an earlier move is under way: it has both places then.
    """
    old = standing_of(row)
    return min(row.replicas, len(old)), {"moves": old, "generation": row.generation}


def _renewed(spec: Mapping[str, Any], row: Workload, action: str) -> dict[str, Any]:
    """A request's spec with what its workload says by now of where, and beside whom, it runs.

    A move says itself where it goes. As in ``wishes_kept`` what is empty is left out.
    """
    names = ("sharing",) if action == Action.PLACEMENT else ("zones", "datasets", "sharing")
    kept = {name: value for name, value in spec.items() if name not in names}
    return {**kept, **{name: row.spec[name] for name in names if row.spec.get(name)}}


def change_renewed(request: AdmissionRequest) -> bool:
    """Bring a waiting move, or more replicas, to what their workload is now; False: nothing of it
    stands that could move.

    The request is locked. What a move asks for grows and shrinks with the workload.
    """
    workload = request.workload
    assert workload is not None
    replicas, spec = request.replicas, _renewed(request.spec, workload, request.action)
    if request.action == Action.PLACEMENT:
        replicas, moves = move_of(workload)
        if not replicas:
            return False
        spec |= moves
    if (request.replicas, request.spec) != (replicas, spec):
        request.amount_milli = request.amount_milli // request.replicas * replicas
        request.replicas, request.spec = replicas, spec
        request.save(update_fields=["amount_milli", "replicas", "spec"])
    return True
