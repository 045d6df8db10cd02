"""Which window of maintenance may be planned, and what becomes of what runs there?  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

LONGEST = timedelta(days=30)
FURTHEST = timedelta(days=365)
GRACE = timedelta(minutes=5)
"""How far in the past a window may begin that is planned for now."""


def wrong_times(starts_at: datetime, ends_at: datetime, now: datetime) -> tuple[str, str] | None:
    """The field that makes no sense, and why; None where both do."""
    if starts_at < now - GRACE:
        return "starts_at", "it is in the past"
    if starts_at > now + FURTHEST:
        return "starts_at", f"at most {FURTHEST.days} days ahead"
    if ends_at <= starts_at:
        return "ends_at", "later than starts_at"
    if ends_at - starts_at > LONGEST:
        return "ends_at", f"at most {LONGEST.days} days after starts_at"
    return None


class Fate(StrEnum):
    """What becomes of an allocation whose node is taken out of service at a moment."""

    ENDS = "ends"
    """Its end is known and comes before."""
    MOVES = "moves"
    """Its tenant allows it to be moved."""
    STAYS = "stays"
    """Nothing ends it: its tenant has to be told."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """An allocation on a node: until when it lasts, if that is known, and whether it may move."""

    allocation_id: UUID
    ends_at: datetime | None
    movable: bool


def fate(occupant: Occupant, at: datetime) -> Fate:
    """What becomes of it when the node stops at ``at``."""
    if occupant.ends_at is not None and occupant.ends_at <= at:
        return Fate.ENDS
    return Fate.MOVES if occupant.movable else Fate.STAYS
