"""How is work that takes longer than one transaction carried through, whatever dies?

A run is a row (``WorkflowRun``): named steps, attempts, due time. Each turn takes the row's
lock, calls the current step's function and writes down what came of it, all in one
transaction, so a process killed at any point leaves either the whole turn or nothing of it.
The **row lock** is what makes two drivers one; the lease on the row only notices a driver
that died in the middle, so that a step which kills its process is counted and given up.

A step's function changes the database only; the outside world is reached through rows that
others act upon (node tasks, dispatches). It may be called again after ``Wait`` or ``Retry``
and must find its own earlier rows. Run rows are never waited for while a step runs: a caller
that wants to ``cancel`` does so before it locks what the run's steps lock.
"""

from gpuaas.kernel.workflow.definitions import (
    Backoff,
    Definition,
    Done,
    Fail,
    Outcome,
    Retry,
    Step,
    Wait,
    definition_of,
    initial_steps,
    register,
    registered,
)
from gpuaas.kernel.workflow.engine import drive, drive_each, sweep
from gpuaas.kernel.workflow.runs import (
    TOPIC,
    Progress,
    actor_of,
    cancel,
    cancellation,
    nudge,
    progress,
    signal,
    standing,
    start,
    topic_of,
)

__all__ = [
    "TOPIC",
    "Backoff",
    "Definition",
    "Done",
    "Fail",
    "Outcome",
    "Progress",
    "Retry",
    "Step",
    "Wait",
    "actor_of",
    "cancel",
    "cancellation",
    "definition_of",
    "drive",
    "drive_each",
    "initial_steps",
    "nudge",
    "progress",
    "register",
    "registered",
    "signal",
    "standing",
    "start",
    "sweep",
    "topic_of",
]
