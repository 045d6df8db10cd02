"""Do runs go forward, wait, end and get undone as their definition says?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import DatabaseError, transaction

from gpuaas.kernel import clock, errors, ids, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.scope import tenant_scope
from gpuaas.kernel.workflow import Definition, Done, Fail, Outcome, Retry, Step, Wait
from tests.kernel.factories import tenant
from tests.kernel.runs import Script, begin, effects, finish, note, states

pytestmark = pytest.mark.django_db


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
