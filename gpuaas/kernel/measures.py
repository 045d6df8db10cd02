"""What do the kernel's own events tell in numbers?  Runs and their steps, states and moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from gpuaas.kernel import lifecycle, measuring
from gpuaas.kernel.families import STAY, WORK, Family, Observation
from gpuaas.kernel.measuring import Told
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.models.work import ENDED, RUN

RUNS: Final = Family(
    "gpuaas_workflow_runs", "Runs that have ended, by outcome", ("workflow", "outcome")
)
STEPS: Final = Family(
    "gpuaas_workflow_step_duration_seconds",
    "From a step's first turn to its end, of runs that have ended",
    ("workflow", "step"),
    WORK,
)
STAYS: Final = Family(
    "gpuaas_state_time_in_state_seconds",
    "How long things stood in a state that they left",
    ("kind", "state"),
    STAY,
)
ENTERED: Final = Family(
    "gpuaas_state_entered",
    "How often a state was entered; the state a thing is made in counts when it is left",
    ("kind", "state"),
)
EXITED: Final = Family("gpuaas_state_exited", "How often a state was left", ("kind", "state"))


def runs(told: Sequence[Told]) -> Iterator[Observation]:
    """How runs ended, and how long their steps took."""
    ended = [one for one in told if one.subject_kind == RUN.noun and one.after in ENDED]
    for one in ended:
        yield Observation(RUNS, (one.of, one.after))
    rows = WorkflowRun.objects.filter(pk__in=[one.subject_id for one in ended])
    for kind, steps in rows.values_list("kind", "steps"):
        for step in steps:
            seconds = _took_s(step)
            if seconds is not None:
                yield Observation(STEPS, (kind, step["name"]), seconds)


def _took_s(step: dict[str, Any]) -> float | None:
    began, ended = step.get("started_at"), step.get("ended_at")
    if not began or not ended:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def states(told: Sequence[Told]) -> Iterator[Observation]:
    """Which states were left after how long, and which were entered."""
    tables = lifecycle.registered()
    for one in told:
        table = tables.get(one.subject_kind)
        if table is None or one.subject_kind == RUN.noun:
            # The engine tells of a run's end alone.
            continue
        known = table.states.values
        if one.before in known:
            left = (one.subject_kind, one.before)
            yield Observation(EXITED, left)
            if one.first:
                yield Observation(ENTERED, left)
            if one.since is not None:
                yield Observation(STAYS, left, one.stayed_s)
        if one.after in known:
            yield Observation(ENTERED, (one.subject_kind, one.after))


measuring.register("kernel.runs", (RUNS, STEPS), runs)
measuring.register("kernel.states", (STAYS, ENTERED, EXITED), states)
