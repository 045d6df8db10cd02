"""Does a run come through when the process that drives it is killed with SIGKILL?"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from gpuaas.kernel import events, ids, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.workflow import Definition, Done, Outcome, Step
from gpuaas.kernel.workflow import definitions as known
from tests.kernel.doomed import STEPS
from tests.kernel.processes import process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("victim", STEPS)
def test_a_driver_killed_in_any_step_leaves_a_run_that_another_finishes(
    victim: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(run: WorkflowRun) -> Outcome:
        events.record(kind="kernel.test.effect", actor=SYSTEM, facts={"what": run.step})
        return Done()

    monkeypatch.setattr(known, "_definitions", {})
    workflow.register(Definition("doomed", tuple(Step(name, step) for name in STEPS), 3600))
    run = workflow.start(
        "doomed",
        subject_kind="test.thing",
        subject_id=ids.new_id(),
        tenant_id=None,
        input={},
        actor=SYSTEM,
    )
    log = tmp_path / "doomed.log"
    words = f"doomed.drive({str(run.pk)!r}, {victim!r}, {when!r})"
    code = f"import django; django.setup(); from tests.kernel import doomed; {words}"
    with process("-c", code, log=log) as doomed:
        assert doomed.wait(60) == -signal.SIGKILL, log.read_text()
    run.refresh_from_db()
    assert (run.state, [s["state"] == "done" for s in run.steps].count(True)) == (
        "pending" if victim == "one" else "running",
        STEPS.index(victim),
    )
    end = time.monotonic() + 20
    while run.ended_at is None and time.monotonic() < end:
        workflow.sweep()
        run.refresh_from_db()
        time.sleep(0.02)
    assert run.state == "succeeded"
    effects = Event.objects.filter(kind="kernel.test.effect").order_by("pk")
    assert list(effects.values_list("facts__what", flat=True)) == list(STEPS)
