"""How are the four states of a thing laid beside each other, with what is old marked?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TITLES = {
    "desired": "Desired",
    "observed": "Observed",
    "executing": "Executing",
    "projected": "Shown",
}
STALE_S = {"observed": 60, "projected": 120}
OVERDUE_S = {"observed": 300, "projected": 600}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the four. ``stale`` is grey, ``overdue`` says so."""

    title: str
    text: str
    detail: str
    as_of: str
    source: str
    drift: bool
    stale: bool
    overdue: bool


def sides_of(states: Mapping[str, Any], *, ages: bool = True) -> list[Side]:
    """The four in their order. ``ages`` off marks nothing as old (a thing that has ended)."""
    sides = []
    for name, title in TITLES.items():
        one = states[name]
        age = one["age_s"]
        old = ages and name in STALE_S
        sides.append(
            Side(
                title=title,
                text=str(one["value"]).replace("_", " "),
                detail=str(one.get("detail") or ""),
                as_of=one["as_of"] or "",
                source=str(one["source"]),
                drift=bool(one["drift"]),
                stale=old and age is not None and age > STALE_S[name],
                overdue=old and age is not None and age > OVERDUE_S[name],
            )
        )
    return sides
