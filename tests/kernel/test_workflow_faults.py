"""Does a run come through whatever its steps and drivers die of?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import OperationalError, connections

from gpuaas.kernel import clock, workflow
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.workflow import Done, Fail, Outcome, Retry, Step, Wait, engine
from gpuaas.kernel.workflow import definitions as known
from tests.kernel.runs import Killed, Script, begin, effects, finish, note

pytestmark = pytest.mark.django_db

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


@pytest.mark.django_db(transaction=True)
def test_many_drivers_at_once_call_each_step_once(define: Callable[..., str]) -> None:
    ready = threading.Barrier(4)
    kind = define(*(Step(name, lambda run: note(run, run.step)) for name in NAMES))
    runs = [begin(kind).pk for _ in range(5)]

    def work(_: int) -> None:
        try:
            ready.wait(10)
            for run_id in runs:
                workflow.drive(run_id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
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
