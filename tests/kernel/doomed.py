"""What does a process do that drives a run and is killed in the middle of a step?

Used by test_kill, in a process of its own in which Django is set up already.
"""

from __future__ import annotations

import os
import signal
from uuid import UUID

from gpuaas.kernel import events, workflow
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.workflow import Definition, Done, Outcome, Step, engine

STEPS = ("one", "two", "three")


def drive(run_id: str, victim: str, when: str) -> None:
    """Drive the run until this process is killed, before or after ``victim`` has written."""

    def step(run: WorkflowRun) -> Outcome:
        if (run.step, when) == (victim, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        events.record(kind="kernel.test.effect", actor=SYSTEM, facts={"what": run.step})
        if (run.step, when) == (victim, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return Done()

    engine.LEASE_S = 0.2
    workflow.register(Definition("doomed", tuple(Step(name, step) for name in STEPS), 3600))
    workflow.drive(UUID(run_id))
