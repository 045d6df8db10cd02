"""What is known of an allocation that would have to leave its node?  Frozen, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from placement.domain.maintenance import Fate


@dataclass(frozen=True, slots=True)
class Leaving:
    """One allocation: what becomes of it, where it would go, or why nowhere."""

    allocation_id: UUID
    name: str
    tenant: str
    sku: str
    slots: int
    fate: Fate
    ends_at: datetime | None
    to: str = ""
    """The node on which it would be placed now; empty where there is none."""
    code: str = ""
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What a drain of a node touches, as of now; nothing was written."""

    node: str
    at: datetime | None
    """By when it has to be empty; None: no moment is set."""
    leaving: tuple[Leaving, ...]

    def counts(self) -> dict[str, int]:
        """How many end by themselves, may be moved, and have to be told; how many fit nowhere."""
        found = Counter(str(one.fate) for one in self.leaving)
        stuck = sum(one.fate != Fate.ENDS and bool(one.code) for one in self.leaving)
        return {**{str(fate): found[str(fate)] for fate in Fate}, "no_room": stuck}


def in_words(plan: DrainPlan) -> str:
    """The plan in one sentence."""
    if not plan.leaving:
        return "Nothing runs there."
    counts = plan.counts()
    parts: Sequence[tuple[int, str]] = (
        (counts[Fate.ENDS], "going by itself"),
        (counts[Fate.MOVES], "that may be moved"),
        (counts[Fate.STAYS], "staying until released by its tenant"),
    )
    said = ", ".join(f"{count} {what}" for count, what in parts if count)
    room = f" For {counts['no_room']} there is no room elsewhere now." if counts["no_room"] else ""
    many = len(plan.leaving)
    return f"{many} allocation{'s' if many > 1 else ''} there: {said}.{room}"
