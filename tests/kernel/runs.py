"""What are the tests of runs made of?  Scripted steps, a beginning, and a driver that dies."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from gpuaas.kernel import clock, events, ids, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.workflow import Done, Outcome


class Killed(BaseException):
    """Stands for kill -9: nothing of the code below gets to run."""


class Script:
    """A step function that gives scripted outcomes in turn, the last one for ever."""

    def __init__(self, *outcomes: Outcome | BaseException) -> None:
        self.outcomes = list(outcomes) or [Done()]
        self.calls = 0

    def __call__(self, run: WorkflowRun) -> Outcome:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def begin(kind: str, tenant_id: UUID | None = None, **more: object) -> WorkflowRun:
    return workflow.start(
        kind,
        subject_kind="test.thing",
        subject_id=ids.new_id(),
        tenant_id=tenant_id,
        input={"size": 2},
        actor=SYSTEM,
        **more,  # type: ignore[arg-type]  # passed through
    )


def states(run: WorkflowRun) -> list[str]:
    return [f"{s['name']}:{s['state']}" for s in run.steps]


def finish(run: WorkflowRun, at: clock.FakeClock, turns: int = 60) -> WorkflowRun:
    """Drive as a worker would, over any number of deaths, until the run has ended."""
    for _ in range(turns):
        with suppress(Killed):
            run = workflow.drive(run.pk)
        run.refresh_from_db()
        if run.ended_at is not None:
            return run
        at.advance(60)
    raise AssertionError(f"the run did not end: {run.state} {run.steps}")


def note(run: WorkflowRun, what: str) -> Outcome:
    events.record(kind="kernel.test.effect", actor=SYSTEM, facts={"what": what})
    return Done()


def effects() -> list[str]:
    return list(
        Event.objects.filter(kind="kernel.test.effect")
        .order_by("pk")
        .values_list("facts__what", flat=True)
    )
