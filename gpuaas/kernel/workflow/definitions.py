"""Which kinds of run exist, and of which steps are they made?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpuaas.kernel import errors
from gpuaas.kernel.models.work import WorkflowRun

STEP_FAILED = errors.reason(
    "step_failed",
    "A step failed on every attempt",
    "Read the operation's steps for the last error; start the action again once it is mended.",
    status=500,
    retryable=True,
)
STEP_OVERDUE = errors.reason(
    "step_overdue",
    "A step did not end in its time",
    "Look at what the step waited for; start the action again once that answers.",
    status=504,
    retryable=True,
)
RUN_OVERDUE = errors.reason(
    "run_overdue",
    "The operation did not end in its time",
    "Look at the step it stood at; start the action again once that works.",
    status=504,
    retryable=True,
)
RUN_CANCELLED = errors.reason(
    "run_cancelled",
    "The operation was cancelled",
    "Nothing needs to be done; start the action again if it is still wanted.",
)


@dataclass(frozen=True, slots=True)
class Done:
    """The step is done; ``output`` is merged into the run's result."""

    output: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """The step waits for something; it is called again when signalled or after ``due_in_s``.

    Waiting is not an attempt. ``percent`` is how far this step is, 0 to 100, where known.
    """

    due_in_s: float
    detail: str = ""
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """This attempt failed; what it wrote is kept. The last attempt fails the run with ``code``."""

    detail: str
    code: str = STEP_FAILED.code
    after_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fail:
    """The step can not succeed; the run is compensated and ends failed with ``code``."""

    code: str
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


Outcome = Done | Wait | Retry | Fail
Function = Callable[[WorkflowRun], Outcome]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often a step is attempted, and how long is waited in between (seconds)."""

    attempts: int = 5
    first_s: float = 1.0
    factor: float = 2.0
    most_s: float = 60.0

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after ``attempt`` (counted from 1) failed."""
        return min(self.most_s, self.first_s * self.factor ** min(attempt - 1, 32))


@dataclass(frozen=True, slots=True)
class Step:
    """One named step.

    ``run`` is None for a step that is already done when the run starts. ``compensate`` undoes
    a step that is done or has waited; it must stand being called again. ``timeout_s`` counts
    from the step's first turn.
    """

    name: str
    run: Function | None = None
    compensate: Function | None = None
    timeout_s: float | None = None
    retry: Backoff = Backoff()


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of run.

    ``deadline_s`` counts from the start and stops forward progress only: compensation is
    always carried through. ``on_failed`` is called in the transaction in which the run ends
    as failed or cancelled.
    """

    kind: str
    steps: tuple[Step, ...]
    deadline_s: float
    on_failed: Callable[[WorkflowRun], None] | None = None

    def step(self, name: str) -> Step:
        """The step of this name; KeyError when the definition has none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(f"{self.kind} has no step {name!r}")


_definitions: dict[str, Definition] = {}


def register(definition: Definition) -> Definition:
    """Make a kind of run known; registering the same kind twice with other steps is refused."""
    names = [step.name for step in definition.steps]
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"{definition.kind}: step names are missing or repeated")
    known = _definitions.get(definition.kind)
    if known is not None and known != definition:
        raise ValueError(f"run kind {definition.kind!r} is declared twice")
    _definitions[definition.kind] = definition
    return definition


def definition_of(kind: str) -> Definition:
    """The registered definition; KeyError for a kind nobody declared."""
    return _definitions[kind]


def registered() -> dict[str, Definition]:
    """Every declared kind of run."""
    return dict(sorted(_definitions.items()))


def initial_steps(
    kind: str,
    done: tuple[str, ...] = (),
    running: str = "",
    *,
    at: datetime | None = None,
) -> list[dict[str, Any]]:
    """The ``steps`` of a fresh run row: ``done`` steps done, ``running`` begun, the rest pending.

    A name in ``done`` that is no step of the definition is put in front as a done step: what
    happened before the run began and is shown with it. ``at`` stamps what is done or begun.
    """
    definition = definition_of(kind)
    own = [step.name for step in definition.steps]
    stamp = at.isoformat() if at else None
    names = [name for name in done if name not in own] + own
    unready = [s.name for s in definition.steps if s.run is None and s.name not in done]
    if unready or (running and running not in own):
        raise ValueError(f"{kind}: {unready or running!r} cannot be begun by the engine")
    return [_entry(name, name in done, name == running, stamp) for name in names]


def _entry(name: str, done: bool, running: bool, stamp: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "state": "done" if done else "running" if running else "pending",
        "attempt": 1 if done else 0,
        "started_at": stamp if done or running else None,
        "ended_at": stamp if done else None,
        "detail": "",
        "error": None,
    }
