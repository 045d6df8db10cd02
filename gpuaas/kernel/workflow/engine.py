"""What does one turn of a run do?"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Q

from gpuaas.kernel import actor, clock, errors, events, notify
from gpuaas.kernel.models.work import ENDED, RunState, WorkflowRun
from gpuaas.kernel.plain import plain
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.workflow.definitions import (
    RUN_CANCELLED,
    RUN_OVERDUE,
    STEP_FAILED,
    STEP_OVERDUE,
    Backoff,
    Definition,
    Done,
    Fail,
    Function,
    Outcome,
    Retry,
    Step,
    Wait,
    definition_of,
)
from gpuaas.kernel.workflow.runs import topic_of

log = logging.getLogger(__name__)

LEASE_S = 5.0
"""How long a run rests after its driver died in the middle of a turn."""
UNKNOWN_KIND_S = 60.0
_SAVED = (
    "state",
    "step",
    "attempt",
    "steps",
    "result",
    "error",
    "due_at",
    "lease_until",
    "updated_at",
    "ended_at",
)
_ENGINE = actor.system("workflow")


@dataclass(frozen=True, slots=True)
class Hiccup:
    """The database refused for a passing reason (deadlock, lock timeout): no attempt."""

    detail: str


def drive(run_id: UUID) -> WorkflowRun:
    """Take the run as far as it goes now: until it waits, backs off, ends, or is another's.

    Returns the row as it is afterwards. NotFound: no such run. Database errors that end the
    connection are raised; the run is found again by the sweep.
    """
    epoch = _claim(run_id)
    if epoch is not None:
        while _turn(run_id, epoch):
            pass
    with platform_scope():
        run = WorkflowRun.objects.filter(pk=run_id).first()
    if run is None:
        raise errors.NotFound
    return run


def sweep(limit: int = 100) -> int:
    """Drive the runs that are due, oldest first; one run's failure stops no other."""
    now = clock.db_now()
    due = list(
        WorkflowRun.objects.filter(_free(now), due_at__lte=now)
        .order_by("due_at")
        .values_list("pk", flat=True)[:limit]
    )
    drive_each(due)
    return len(due)


def drive_each(run_ids: Iterable[UUID]) -> None:
    """Drive several in turn; one run's failure stops no other, and one that is gone is passed over.

    A lost connection is raised: the others are found again by the sweep.
    """
    for run_id in run_ids:
        try:
            drive(run_id)
        except errors.NotFound:
            continue
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("run %s could not be driven", run_id)


def _free(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lte=now)


@transaction.atomic
def _claim(run_id: UUID) -> int | None:
    """Become the driver: the new lease epoch, or None when there is nothing to do here."""
    with platform_scope():
        now = clock.db_now()
        run = (
            WorkflowRun.objects.select_for_update(no_key=True, skip_locked=True)
            .filter(_free(now), pk=run_id, due_at__lte=now)
            .exclude(state__in=ENDED)
            .first()
        )
        if run is None:
            return None
        if run.lease_until is not None:
            _count_interruption(run)
        run.lease_epoch += 1
        run.lease_until = now + timedelta(seconds=LEASE_S)
        run.save(update_fields=["lease_epoch", "lease_until", "steps"])
        return run.lease_epoch


def _count_interruption(run: WorkflowRun) -> None:
    """The last driver died inside this step; too many such deaths fail the step."""
    for entry in run.steps:
        if entry["name"] == run.step or (not run.step and entry["state"] == "pending"):
            entry["interrupted"] = entry.get("interrupted", 0) + 1
            return


@transaction.atomic
def _turn(run_id: UUID, epoch: int) -> bool:
    """One step function and what came of it. True: the next turn may follow at once."""
    with platform_scope():
        # Waits: a rival's failed claim holds this row for a moment, and skipping it would leave
        # the run to rest for the whole lease.
        run = (
            WorkflowRun.objects.select_for_update(no_key=True)
            .filter(pk=run_id, lease_epoch=epoch)
            .exclude(state__in=ENDED)
            .first()
        )
        if run is None:
            return False
        now = clock.db_now()
        seen = _visible(run)
        try:
            definition = definition_of(run.kind)
        except KeyError:
            log.warning("run %s is of kind %r, which this process does not know", run_id, run.kind)
            more = _later(run, now, UNKNOWN_KIND_S)
        else:
            backward = run.state == RunState.COMPENSATING
            more = (_backward if backward else _forward)(run, definition, now)
        run.updated_at = now
        run.lease_until = now + timedelta(seconds=LEASE_S) if more else None
        run.save(update_fields=_SAVED)
        if _visible(run) != seen:
            notify.publish(topic_of(run.pk))
        return more


def _visible(run: WorkflowRun) -> str:
    return repr((run.state, run.step, run.attempt, run.steps, run.error))


def _forward(run: WorkflowRun, definition: Definition, now: datetime) -> bool:
    entry = next((e for e in run.steps if e["state"] != "done"), None)
    if entry is None:
        return _end(run, RunState.SUCCEEDED, now)
    step = definition.step(entry["name"])
    run.state = RunState.RUNNING
    run.step = step.name
    if entry["started_at"] is None:
        entry["started_at"] = now.isoformat()
    if run.deadline_at is not None and now >= run.deadline_at:
        return _fail(run, entry, Fail(RUN_OVERDUE.code, RUN_OVERDUE.title), now)
    if entry.get("interrupted", 0) >= step.retry.attempts:
        detail = f"the process that ran {step.name} died {entry['interrupted']} times"
        return _fail(run, entry, Fail(STEP_FAILED.code, detail), now)
    entry["state"] = "running"
    run.attempt = entry["attempt"] + 1
    outcome = _call(step.run, run)
    entry["interrupted"] = 0
    match outcome:
        case Done(output):
            entry.update(state="done", ended_at=now.isoformat(), attempt=run.attempt)
            entry.update(detail="", error=None, percent=None)
            if output:
                run.result = {**(run.result or {}), **plain(output)}
            run.due_at = now
            return True
        case Wait(due_in_s, detail, percent):
            return _wait(run, entry, step, now, due_in_s, detail, percent)
        case Hiccup(detail):
            entry["detail"] = detail
            entry["hiccups"] = hiccups = entry.get("hiccups", 0) + 1
            return _later(run, now, step.retry.delay_s(hiccups))
        case Retry():
            entry["attempt"] += 1
            entry["error"] = {"code": outcome.code, "detail": outcome.detail}
            if entry["attempt"] >= step.retry.attempts:
                return _fail(run, entry, Fail(outcome.code, outcome.detail, outcome.facts), now)
            run.attempt = entry["attempt"]
            return _later(run, now, _delay_s(step.retry, entry["attempt"], outcome))
        case Fail():
            entry["attempt"] += 1
            return _fail(run, entry, outcome, now)


def _wait(
    run: WorkflowRun,
    entry: dict[str, Any],
    step: Step,
    now: datetime,
    due_in_s: float,
    detail: str,
    percent: int | None,
) -> bool:
    entry.update(detail=detail, percent=percent)
    ends = [now + timedelta(seconds=due_in_s)]
    if step.timeout_s is not None:
        over = datetime.fromisoformat(entry["started_at"]) + timedelta(seconds=step.timeout_s)
        if now >= over:
            late = f"{step.name} did not end within {step.timeout_s:g} s: {detail}"
            return _fail(run, entry, Fail(STEP_OVERDUE.code, late), now)
        ends.append(over)
    if run.deadline_at is not None:
        ends.append(run.deadline_at)
    run.due_at = min(ends)
    return False


def _later(run: WorkflowRun, now: datetime, seconds: float) -> bool:
    run.due_at = now + timedelta(seconds=seconds)
    return False


def _delay_s(retry: Backoff, attempt: int, outcome: Retry) -> float:
    return retry.delay_s(attempt) if outcome.after_s is None else outcome.after_s


def _fail(run: WorkflowRun, entry: dict[str, Any], why: Fail, now: datetime) -> bool:
    error = {"code": why.code, "detail": why.detail}
    entry.update(state="failed", ended_at=now.isoformat(), error=error)
    run.error = {**error, "facts": plain(why.facts), "step": entry["name"]}
    run.state = RunState.COMPENSATING
    run.attempt = 0
    run.due_at = now
    return True


def _backward(run: WorkflowRun, definition: Definition, now: datetime) -> bool:
    compensable = {s.name: s for s in definition.steps if s.compensate is not None}
    begun = [
        e
        for e in run.steps
        if e["name"] in compensable
        and e["state"] in ("done", "running", "failed")
        and e.get("undo") not in ("done", "failed")
    ]
    if not begun:
        return _end_failed(run, definition, now)
    entry = begun[-1]
    step = compensable[entry["name"]]
    run.step = step.name
    entry["undo"] = "running"
    if entry.get("interrupted", 0) >= step.retry.attempts:
        return _not_undone(run, entry, "the process that undid it died every time")
    outcome = _call(step.compensate, run)
    entry["interrupted"] = 0
    match outcome:
        case Done():
            entry.update(undo="done", detail="")
            run.attempt = 0
            return True
        case Wait(due_in_s, detail, _):
            entry["detail"] = detail
            return _later(run, now, due_in_s)
        case Hiccup(detail):
            entry["detail"] = detail
            entry["hiccups"] = hiccups = entry.get("hiccups", 0) + 1
            return _later(run, now, step.retry.delay_s(hiccups))
        case Retry():
            run.attempt += 1
            entry["detail"] = outcome.detail
            if run.attempt >= step.retry.attempts:
                return _not_undone(run, entry, outcome.detail)
            return _later(run, now, _delay_s(step.retry, run.attempt, outcome))
        case Fail():
            return _not_undone(run, entry, outcome.detail or outcome.code)


def _not_undone(run: WorkflowRun, entry: dict[str, Any], detail: str) -> bool:
    """Give this compensation up, say so in the run's error, and go on with the others."""
    log.error("run %s: %s could not be undone: %s", run.pk, entry["name"], detail)
    entry.update(undo="failed", detail=detail)
    error = dict(run.error or {})
    facts = dict(error.get("facts") or {})
    facts["not_undone"] = [*facts.get("not_undone", []), entry["name"]]
    run.error = {**error, "facts": facts}
    run.attempt = 0
    return True


def _end_failed(run: WorkflowRun, definition: Definition, now: datetime) -> bool:
    code = (run.error or {}).get("code")
    state = RunState.CANCELLED if code == RUN_CANCELLED.code else RunState.FAILED
    if definition.on_failed is None:
        return _end(run, state, now)
    run.state, previous = state, run.state
    try:
        with transaction.atomic():
            definition.on_failed(run)
    except Exception as error:
        _raise_if_lost(error)
        run.state = previous
        run.attempt += 1
        log.exception("run %s: on_failed raised (attempt %d)", run.pk, run.attempt)
        retry = Backoff()
        if run.attempt < retry.attempts:
            return _later(run, now, retry.delay_s(run.attempt))
    return _end(run, state, now)


def _end(run: WorkflowRun, state: RunState, now: datetime) -> bool:
    for entry in run.steps:
        if entry["state"] in ("pending", "running"):
            entry["state"] = "skipped" if entry["state"] == "pending" else "cancelled"
    run.state = state
    run.due_at = None
    run.ended_at = now
    events.record(
        kind=f"kernel.workflowrun.{state.value}",
        subject=run,
        actor=_ENGINE,
        after={"state": state.value},
        reason=(run.error or {}).get("code", ""),
        facts={
            "kind": run.kind,
            "subject_kind": run.subject_kind,
            "subject_id": str(run.subject_id),
        },
    )
    return False


def _call(function: Function | None, run: WorkflowRun) -> Outcome | Hiccup:
    """Call a step's function in a savepoint: what it wrote is undone when it raises."""
    if function is None:
        raise RuntimeError(f"{run.kind}.{run.step} has nothing to call")
    try:
        with transaction.atomic():
            return function(run)
    except errors.ProductError as refusal:
        if refusal.retryable:
            return Retry(refusal.detail, refusal.code, facts=refusal.facts)
        return Fail(refusal.code, refusal.detail, refusal.facts)
    except OperationalError as error:
        _raise_if_lost(error)
        return Hiccup("the database was busy")
    except Exception as error:
        _raise_if_lost(error)
        # The text of an unexpected error may hold values; people get its type, logs the rest.
        log.exception("run %s: step %s raised", run.pk, run.step)
        return Retry(f"an unexpected {type(error).__name__}")


def _raise_if_lost(error: Exception) -> None:
    """With the connection gone nothing can be written down here; the sweep starts again."""
    if isinstance(error, DatabaseError | InterfaceError) and (
        connection.needs_rollback or not connection.is_usable()
    ):
        raise error
