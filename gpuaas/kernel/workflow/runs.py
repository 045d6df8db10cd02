"""How is a run begun, woken, cancelled and shown?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, ids, notify, nudges
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models.work import ENDED, RunState, WorkflowRun
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.workflow.definitions import RUN_CANCELLED, definition_of, initial_steps

log = logging.getLogger(__name__)

DRIVE_TASK = "gpuaas.kernel.drive"
TOPIC: Final = "run:"
"""What the topic of a run begins with; its id follows."""
AT_ONCE: Final = 32
"""How many runs one hint names at most: the others go to other workers."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: the step's name, percent of the whole, and a line for people."""

    step: str
    percent: int
    message: str


def topic_of(run_id: UUID) -> str:
    """The notify topic that is published in every commit that changes the run."""
    return f"{TOPIC}{run_id}"


def start(
    kind: str,
    *,
    subject_kind: str,
    subject_id: UUID,
    tenant_id: UUID | None,
    input: Mapping[str, Any],
    actor: Actor,
    done: tuple[str, ...] = (),
    run_id: UUID | None = None,
) -> WorkflowRun:
    """Write a run that is due at once, in the caller's transaction; it is nudged on commit.

    ``done`` names the steps that the caller has done already. KeyError: unknown kind.
    """
    definition = definition_of(kind)
    with transaction.atomic(), platform_scope():
        now = clock.db_now()
        run = WorkflowRun.objects.create(
            id=run_id or ids.new_id(),
            kind=kind,
            tenant_id=tenant_id,
            subject_kind=subject_kind,
            subject_id=subject_id,
            steps=initial_steps(kind, done, at=now),
            input=dict(input),
            actor=actor.as_json(),
            correlation=actor.request_id,
            due_at=now,
            deadline_at=now + timedelta(seconds=definition.deadline_s),
            updated_at=now,
        )
        notify.publish(topic_of(run.pk))
        transaction.on_commit(partial(nudge, run.pk))
    return run


def actor_of(run: WorkflowRun) -> Actor:
    """Who began the run, for services that a step calls; without rights of its own."""
    return Actor(
        kind=run.actor.get("kind", "system"),
        id=run.actor.get("id", "platform"),
        name=run.actor.get("name", "platform"),
        tenant_id=run.tenant_id,
        request_id=run.correlation,
    )


def nudge(*run_ids: UUID) -> None:
    """Hint that runs are due. Never blocks and never fails: the sweep finds them anyway."""
    for start in range(0, len(run_ids), AT_ONCE):
        nudges.send(DRIVE_TASK, *map(str, run_ids[start : start + AT_ONCE]))


def standing() -> QuerySet[WorkflowRun]:
    """Runs that have not ended. Each is due some time: of these there is an index, while those
    that have ended become ever more."""
    return WorkflowRun.objects.filter(due_at__isnull=False).exclude(state__in=ENDED)


def signal(run_id: UUID) -> None:
    """In the caller's transaction: what the run waits for may have happened.

    The row is not waited for here, since the caller may hold locks that a driver wants; when
    a driver has it, the run is made due right after the commit instead.
    """
    with transaction.atomic(), platform_scope():
        row = (
            WorkflowRun.objects.select_for_update(no_key=True, skip_locked=True)
            .filter(pk=run_id)
            .exclude(state__in=ENDED)
            .values_list("pk", flat=True)
        )
        reached = WorkflowRun.objects.filter(pk__in=list(row)).update(due_at=clock.db_now())
    transaction.on_commit(partial(_after_signal, run_id, reached == 1))


def _after_signal(run_id: UUID, reached: bool) -> None:
    if not reached:
        try:
            with transaction.atomic(), platform_scope():
                WorkflowRun.objects.filter(pk=run_id).exclude(state__in=ENDED).update(
                    due_at=clock.db_now()
                )
        except DatabaseError:
            log.info("run %s was busy; its own due time will find the change", run_id)
    nudge(run_id)


def cancellation(actor: Actor, reason: str) -> dict[str, Any]:
    """The error that a run has which somebody cancelled; the step where it stood comes to it."""
    return {
        "code": RUN_CANCELLED.code,
        "detail": reason or RUN_CANCELLED.title,
        "facts": {"by": actor.as_json()},
    }


@transaction.atomic
def cancel(run_id: UUID, actor: Actor, reason: str) -> WorkflowRun:
    """Stop going forward and undo what was done; the run ends cancelled.

    Waits for the row, so it comes before any lock that the run's steps take. A run that has
    ended, or is being undone already, is returned as it is. NotFound: no such run.
    """
    with platform_scope():
        run = WorkflowRun.objects.select_for_update(no_key=True).filter(pk=run_id).first()
        if run is None:
            raise errors.NotFound
        if run.state in ENDED or run.state == RunState.COMPENSATING:
            return run
        now = clock.db_now()
        run.state = RunState.COMPENSATING
        run.error = {**cancellation(actor, reason), "step": run.step}
        run.attempt = 0
        run.due_at = run.updated_at = now
        run.save(update_fields=["state", "error", "attempt", "due_at", "updated_at"])
        notify.publish(topic_of(run.pk))
    transaction.on_commit(partial(nudge, run.pk))
    return run


def progress(run: WorkflowRun) -> Progress:
    """How far the run is, from its row alone."""
    total = len(run.steps) or 1
    finished = sum(1 for step in run.steps if step["state"] == "done")
    current = next((s for s in run.steps if s["name"] == run.step), None)
    if run.state == RunState.SUCCEEDED:
        return Progress(run.step, 100, "done")
    if run.state in ENDED:
        return Progress(run.step, 100 * finished // total, (run.error or {}).get("detail", ""))
    name = run.step or next((s["name"] for s in run.steps if s["state"] != "done"), "")
    within = int((current or {}).get("percent") or 0) if run.state == RunState.RUNNING else 0
    percent = min(99, (100 * finished + within) // total)
    detail = (current or {}).get("detail") or ""
    if run.state == RunState.COMPENSATING:
        return Progress(name, percent, detail or f"undoing {name}")
    return Progress(name, percent, detail or name.replace("_", " "))
