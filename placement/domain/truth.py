"""How do the four states of a thing stand beside each other?  Kept apart, each with its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Truth:
    """One of the four: what it says, since or as of when, and who says so."""

    value: str
    as_of: datetime | None
    source: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FourStates:
    """Desired, observed, executing and projected of one thing."""

    desired: Truth
    observed: Truth
    executing: Truth
    projected: Truth

    def as_json(self, now: datetime, *, drift: Mapping[str, bool]) -> dict[str, Any]:
        """Each with its age in seconds and whether it differs from what is desired."""
        out: dict[str, Any] = {}
        for name in ("desired", "observed", "executing", "projected"):
            truth: Truth = getattr(self, name)
            age = None if truth.as_of is None else max(0.0, (now - truth.as_of).total_seconds())
            out[name] = {
                "value": truth.value,
                "as_of": truth.as_of.isoformat() if truth.as_of else None,
                "age_s": None if age is None else round(age, 1),
                "source": truth.source,
                "detail": truth.detail,
                "drift": drift.get(name, False),
            }
        return out


def phase(state: str, *, observed: str, observed_late: bool) -> str:
    """The phase that is shown for an allocation, computed from its parts.

    An active allocation that its host no longer sees is shown as lost, one whose host is
    silent as unknown; the stored intent does not change by it.
    """
    if state == "active":
        if observed == "absent":
            return "lost"
        if observed == "unknown" and observed_late:
            return "unknown"
    return state


def expected_presence(state: str) -> str:
    """What a host should see of an allocation in this state; empty where either is right."""
    if state in ("active", "preempting"):
        return "present"
    return "absent" if state == "released" else ""
