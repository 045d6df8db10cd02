"""Does a run come through whatever happens to its steps and drivers?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction

from gpuaas.kernel import clock, errors, events, ids, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.scope import tenant_scope
from gpuaas.kernel.workflow import Definition, Done, Fail, Outcome, Retry, Step, Wait, engine
from gpuaas.kernel.workflow import definitions as known
from tests.kernel.factories import tenant

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


NAMES = ["one", "two", "three"]


@pytest.mark.parametrize("victim", NAMES)
@pytest.mark.parametrize("how", ["raises", "busy", "killed_before", "killed_after", "retries"])
def test_each_step_failed_once_and_repeated_has_its_effect_once(
    at: clock.FakeClock, define: Callable[..., str], victim: str, how: str
) -> None:
    left = [2]

    def step(name: str) -> Step:
        def run_step(run: WorkflowRun) -> Outcome:
            trouble = name == victim and left[0] > 0
            if trouble:
                left[0] -= 1
            if trouble and how == "killed_before":
                raise Killed
            if trouble and how == "retries":
                return Retry("not yet")
            done = note(run, name)
            if trouble:
                raise {
                    "raises": ValueError(),
                    "busy": OperationalError("deadlock detected"),
                    "killed_after": Killed(),
                }[how]
            return done

        return Step(name, run_step)

    run = finish(begin(define(*map(step, NAMES))), at)
    assert (run.state, effects(), left) == ("succeeded", NAMES, [0])


@pytest.mark.parametrize("failing", NAMES)
def test_each_step_failing_for_good_undoes_what_was_begun_once(
    at: clock.FakeClock, define: Callable[..., str], failing: str
) -> None:
    deaths = [1]

    def undo(run: WorkflowRun) -> Outcome:
        if deaths[0]:
            deaths[0] -= 1
            raise Killed
        return note(run, f"undo {run.step}")

    def step(name: str) -> Step:
        return Step(name, lambda run: Fail("broken") if name == failing else note(run, name), undo)

    run = finish(begin(define(*map(step, NAMES))), at)
    begun = NAMES[: NAMES.index(failing) + 1]
    assert run.state == "failed"
    assert effects() == [*begun[:-1], *(f"undo {name}" for name in reversed(begun))]


def test_a_step_that_kills_its_process_every_time_is_given_up(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    run = finish(begin(define(Step("poison", Script(Killed())))), at)
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", "step_failed")
    assert "died 5 times" in run.error["detail"]


def test_a_compensation_that_never_works_is_named_and_the_others_are_done(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    stuck = Script(RuntimeError())
    kind = define(
        Step("one", Script(), lambda run: note(run, "undo one")),
        Step("two", Script(), stuck),
        Step("three", Script(Fail("broken", "no power"))),
    )
    run = finish(begin(kind), at)
    assert run.error is not None
    assert (run.state, run.error["code"], stuck.calls) == ("failed", "broken", 5)
    assert run.error["facts"] == {"not_undone": ["two"]}
    assert effects() == ["undo one"]


def test_a_failing_last_word_does_not_keep_the_run_from_ending(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    calls = []

    def last_word(run: WorkflowRun) -> None:
        calls.append(run.state)
        raise ValueError

    run = finish(begin(define(Step("one", Script(Fail("broken"))), on_failed=last_word)), at)
    assert (run.state, calls) == ("failed", ["failed"] * 5)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_cancelled_run_undoes_what_was_begun_and_stays_cancelled(
    at: clock.FakeClock, define: Callable[..., str], turns: int
) -> None:
    def step(name: str) -> Step:
        script = Script(Wait(10, "waiting"), Done())
        return Step(name, script, lambda run: note(run, f"undo {name}"))

    run = begin(define(step("one"), step("two")))
    for _ in range(turns):
        workflow.drive(run.pk)
        at.advance(10)
    cancelled = workflow.cancel(run.pk, SYSTEM, "changed my mind")
    assert cancelled.state == "compensating"
    run = workflow.drive(run.pk)
    assert run.error is not None
    assert (run.state, run.error["detail"]) == ("cancelled", "changed my mind")
    assert effects() == [[], ["undo one"], ["undo two", "undo one"]][turns]
    assert workflow.cancel(run.pk, SYSTEM, "again").state == "cancelled"
    workflow.signal(run.pk)
    assert workflow.drive(run.pk).state == "cancelled"
    assert all(s["state"] not in ("pending", "running") for s in run.steps)


def test_a_run_that_ended_well_can_not_be_cancelled(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    run = workflow.drive(begin(define(Step("one", Script()))).pk)
    assert workflow.cancel(run.pk, SYSTEM, "too late").state == "succeeded"
    with pytest.raises(DatabaseError, match="not a listed move"), transaction.atomic():
        WorkflowRun.objects.filter(pk=run.pk).update(state="running")


def test_cancelling_what_does_not_exist_is_not_found(define: Callable[..., str]) -> None:
    with pytest.raises(errors.NotFound):
        workflow.cancel(ids.new_id(), SYSTEM, "")


def test_a_signal_makes_a_waiting_run_due_at_once(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    run = workflow.drive(begin(define(Step("one", Script(Wait(600), Done())))).pk)
    assert workflow.drive(run.pk).state == "running"
    workflow.signal(run.pk)
    assert workflow.drive(run.pk).state == "succeeded"


def test_a_step_that_waits_too_long_fails_with_its_own_code(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    run = begin(define(Step("one", Script(Wait(600, "no news")), timeout_s=90)))
    run = workflow.drive(run.pk)
    assert run.due_at is not None
    at.advance((run.due_at - at.now()).total_seconds())
    run = workflow.drive(run.pk)
    assert run.error is not None
    assert (run.state, run.error["code"]) == ("failed", "step_overdue")


def test_a_run_past_its_deadline_fails_and_is_still_undone(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    waiting = Step("one", Script(Wait(3600)), lambda run: note(run, "undo one"))
    run = workflow.drive(begin(define(waiting, deadline_s=60)).pk)
    assert run.due_at == run.deadline_at
    at.advance(60)
    run = workflow.drive(run.pk)
    assert run.error is not None
    assert (run.state, run.error["code"], effects()) == ("failed", "run_overdue", ["undo one"])


def test_a_product_error_fails_the_run_at_once_unless_it_may_pass(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    hard = Script(errors.PermissionDenied("not yours", tenant=ids.new_id()))
    run = workflow.drive(begin(define(Step("one", hard))).pk)
    assert run.error is not None
    assert (run.state, run.error["code"], hard.calls) == ("failed", "permission_denied", 1)


def test_a_product_error_that_may_pass_is_tried_again(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    soft = Script(errors.ServiceUnavailable(), Done())
    run = finish(begin(define(Step("one", soft))), at)
    assert (run.state, soft.calls) == ("succeeded", 2)


def test_the_sweep_drives_what_is_due_and_one_bad_run_stops_no_other(
    at: clock.FakeClock, define: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = define(Step("one", Script()))
    runs = [begin(kind) for _ in range(3)]
    sound = engine.drive

    def drive(run_id: UUID) -> WorkflowRun:
        if run_id == runs[1].pk:
            raise RuntimeError
        return sound(run_id)

    monkeypatch.setattr(engine, "drive", drive)
    assert workflow.sweep() == 3
    for run in runs:
        run.refresh_from_db()
    assert [run.state for run in runs] == ["succeeded", "pending", "succeeded"]


def test_a_kind_this_process_does_not_know_is_left_for_one_that_does(
    at: clock.FakeClock, define: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(define(Step("one", Script())))
    with monkeypatch.context() as patch:
        patch.setattr(known, "_definitions", {})
        assert workflow.drive(run.pk).state == "pending"
    at.advance(60)
    assert workflow.drive(run.pk).state == "succeeded"


def test_a_tenant_sees_its_own_runs_and_can_begin_and_signal_them(
    at: clock.FakeClock, define: Callable[..., str]
) -> None:
    kind = define(Step("one", Script()))
    mine, other = tenant("mine"), tenant("other")
    foreign = begin(kind, tenant_id=other.pk)
    with tenant_scope(mine.pk):
        run = begin(kind, tenant_id=mine.pk)
        workflow.signal(run.pk)
        assert list(WorkflowRun.objects.values_list("pk", flat=True)) == [run.pk]
        assert not WorkflowRun.objects.filter(pk=foreign.pk).exists()


def test_definitions_are_checked_when_they_are_registered(define: Callable[..., str]) -> None:
    kind = define(Step("place", None), Step("one", Script()))
    with pytest.raises(ValueError, match="twice"):
        workflow.register(Definition(kind, (Step("other", Script()),), 60))
    with pytest.raises(ValueError, match="repeated"):
        workflow.register(Definition("more", (Step("a", Script()), Step("a", Script())), 60))
    with pytest.raises(ValueError, match="begun"):
        workflow.initial_steps(kind)
    with pytest.raises(KeyError):
        workflow.definition_of("nobody.declared")
    shown = workflow.initial_steps(kind, done=("admit", "place"), running="one")
    assert [(s["name"], s["state"]) for s in shown] == [
        ("admit", "done"),
        ("place", "done"),
        ("one", "running"),
    ]


@pytest.mark.django_db(transaction=True)
def test_many_drivers_at_once_call_each_step_once(define: Callable[..., str]) -> None:
    ready = threading.Barrier(6)
    kind = define(*(Step(name, lambda run: note(run, run.step)) for name in NAMES))
    runs = [begin(kind).pk for _ in range(5)]

    def work(_: int) -> None:
        try:
            ready.wait(10)
            for run_id in runs:
                workflow.drive(run_id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    while workflow.sweep():
        pass
    assert set(WorkflowRun.objects.values_list("state", flat=True)) == {"succeeded"}
    assert sorted(effects()) == sorted(NAMES * 5)


@pytest.mark.django_db(transaction=True)
def test_a_signal_to_a_run_that_is_being_driven_is_not_lost(define: Callable[..., str]) -> None:
    inside, leave = threading.Event(), threading.Event()
    calls = []

    def wait_once(run: WorkflowRun) -> Outcome:
        calls.append(run.step)
        if len(calls) > 1:
            return Done()
        inside.set()
        leave.wait(10)
        return Wait(3600)

    def drive() -> None:
        workflow.drive(run.pk)
        connections.close_all()

    def signal() -> None:
        workflow.signal(run.pk)
        connections.close_all()

    run = begin(define(Step("one", wait_once)))
    driver, signaller = threading.Thread(target=drive), threading.Thread(target=signal)
    driver.start()
    assert inside.wait(10)
    signaller.start()
    leave.set()
    driver.join()
    signaller.join()
    assert workflow.drive(run.pk).state == "succeeded"
    assert calls == ["one", "one"]
