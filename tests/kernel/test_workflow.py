"""Does a run come through whatever happens to its steps and drivers?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from gpuaas.kernel import clock, ids, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.workflow import Definition, Done, Fail, Outcome, Retry, Step, Wait
from gpuaas.kernel.workflow import definitions as known

pytestmark = pytest.mark.django_db


@pytest.fixture
def at() -> Iterator[clock.FakeClock]:
    with clock.use(clock.FakeClock(datetime(2030, 1, 1, tzinfo=UTC))) as fake:
        assert isinstance(fake, clock.FakeClock)
        yield fake


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr(known, "_definitions", {})

    def make(*steps: Step, deadline_s: float = 3600, **more: object) -> str:
        workflow.register(Definition("test", steps, deadline_s, **more))  # type: ignore[arg-type]
        return "test"

    return make


class Script:
    """A step function that gives scripted outcomes in turn, the last one for ever."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.outcomes = list(outcomes) or [Done()]
        self.calls = 0

    def __call__(self, run: WorkflowRun) -> Outcome:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def begin(kind: str, **more: object) -> WorkflowRun:
    return workflow.start(
        kind,
        subject_kind="test.thing",
        subject_id=ids.new_id(),
        tenant_id=None,
        input={"size": 2},
        actor=SYSTEM,
        **more,  # type: ignore[arg-type]
    )


def states(run: WorkflowRun) -> list[str]:
    return [f"{s['name']}:{s['state']}" for s in run.steps]


def test_steps_run_in_order_and_their_outputs_are_the_result(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    kind = define(
        Step("one", Script(Done({"a": 1}))),
        Step("two", Script(Wait(30, "looking", 50), Done({"b": 2}))),
    )
    run = workflow.drive(begin(kind).pk)
    assert (run.state, states(run)) == ("running", ["one:done", "two:running"])
    assert workflow.progress(run) == workflow.Progress("two", 75, "looking")
    assert workflow.drive(run.pk).state == "running"
    at.advance(30)
    run = workflow.drive(run.pk)
    assert (run.state, run.result, run.due_at) == ("succeeded", {"a": 1, "b": 2}, None)
    assert workflow.progress(run).percent == 100
    assert Event.objects.filter(subject_id=run.pk, kind="kernel.workflowrun.succeeded").count() == 1


def test_a_failed_run_is_undone_backwards_and_says_why(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    undone: list[str] = []

    def undo(run: WorkflowRun) -> Outcome:
        undone.append(run.step)
        return Done()

    ended: list[str] = []
    kind = define(
        Step("place", None, undo),
        Step("one", Script(), undo),
        Step("plain", Script()),
        Step("two", Script(Fail("no_luck", "none left", {"n": 3})), undo),
        Step("never", Script(), undo),
        on_failed=lambda run: ended.append(run.state),
    )
    run = workflow.drive(begin(kind, done=("admit", "place")).pk)
    assert undone == ["two", "one", "place"]
    assert (run.state, ended) == ("failed", ["failed"])
    assert run.error == {"code": "no_luck", "detail": "none left", "facts": {"n": 3}, "step": "two"}
    assert states(run)[0] == "admit:done"
    assert states(run)[-1] == "never:skipped"


def test_a_step_that_keeps_raising_backs_off_and_then_fails_the_run(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    bad = Script(ValueError("password=hunter2"))
    run = begin(define(Step("bad", bad)))
    waits = []
    for _ in range(10):
        run = workflow.drive(run.pk)
        if run.due_at is None:
            break
        waits.append((run.due_at - at.now()).total_seconds())
        at.advance(waits[-1])
    assert (bad.calls, waits) == (5, [1, 2, 4, 8])
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", "step_failed")
    assert "hunter2" not in repr(run.error) + repr(run.steps)


def test_retry_returned_by_a_step_ends_with_its_own_code(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    step = Step("try", Script(Retry("busy", "host_busy", 3)), retry=workflow.Backoff(attempts=2))
    run = workflow.drive(begin(define(step)).pk)
    assert run.due_at is not None
    assert (run.due_at - at.now()).total_seconds() == 3
    at.advance(3)
    run = workflow.drive(run.pk)
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", "host_busy")
