"""What becomes of a workload's intent when a request about it is admitted, or comes to nothing?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from admission.errors import WorkloadStateRefused
from admission.models import Action, Workload
from admission.states import WorkloadState
from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance


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


def intent_taken(workload_id: UUID, action: str, replicas: int, actor: Actor) -> None:
    """What was admitted for a workload is its intent from now on; ``replicas`` were placed.

    Raises WorkloadStateRefused when it stops or has ended meanwhile: nothing is added to it.
    """
    row = intent_locked(workload_id)
    if row.state == WorkloadState.SUBMITTED:
        advance(row, "admit", actor=actor)
    elif row.state != WorkloadState.ADMITTED:
        raise WorkloadStateRefused(f"The workload is {row.state}.", state=row.state)
    elif action == Action.SCALE:
        intent_change(row, {"replicas": row.replicas + replicas}, actor)


def intent_dropped(workload_id: UUID | None, outcome: str, code: str, actor: Actor) -> None:
    """A workload whose first request came to nothing has ended."""
    if workload_id is None:
        return
    row = intent_locked(workload_id)
    if row.state == WorkloadState.SUBMITTED:
        changes = {"outcome": outcome, "code": code, "ended_at": clock.db_now()}
        advance(row, "end", actor=actor, reason=code, changes=changes)
