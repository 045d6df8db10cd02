"""Why does no cut slot give a part, and which came nearest?  Pure, one code a constraint.

Asked in one order: first what rules out the host (placement.domain.reasons), then the slot
(placement.domain.parts). The first that fails removes the slot, so the numbers add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from placement.domain.parts import PART_CODES, CutState, PartAsk, refusal_of
from placement.domain.reasons import (
    CONSTRAINTS,
    LAST,
    LASTING,
    NEVER,
    OTHERS,
    Asked,
    Group,
    failing,
)

LASTING_PARTS = ("cut_otherwise", "no_such_profile", "memory_of_gpu")
"""What no release of anybody's parts will ever change."""


@dataclass(frozen=True, slots=True)
class PartsRefused:
    """How many cut slots each constraint removed, and the nearest miss."""

    slots: int
    removed: dict[str, int]
    nearest: str
    nearest_free: int
    largest_free: int
    ever: bool
    """Whether one could ever give it, were nothing on it."""

    def as_json(self) -> dict[str, Any]:
        """As it is kept in the decision: counts, never hosts."""
        return {
            "cut_slots": self.slots,
            "removed": self.removed,
            "nearest": {"constraint": self.nearest, "free_milli": self.nearest_free},
            "largest_free_milli": self.largest_free,
        }


def parts_refused(
    groups: Iterable[tuple[Group, CutState]],
    ask: PartAsk,
    asked: Asked,
    tenant: UUID | None,
    *,
    rest: str = "",
) -> PartsRefused:
    """The account of a refusal, over slots that are alike. What nothing removed, ``rest`` did;
    left empty it was isolation."""
    # Who is there is asked last, as for slots: it leaves room enough.
    order = [*(code for code, _ in CONSTRAINTS if code != NEVER), *PART_CODES, NEVER]
    isolation = rest or LAST.get(asked.terms.alone, OTHERS)
    counts: dict[str, int] = {}
    slots = largest = 0
    ever, nearest = False, (-1, -1, "")
    for group, cut in groups:
        code = failing(group, asked)
        if code in ("", NEVER):
            code = refusal_of(cut, ask, tenant) or code or isolation
        slots += group.hosts
        counts[code] = counts.get(code, 0) + group.hosts
        at = order.index(code) if code in order else len(order)
        nearest = max(nearest, (at, cut.free_milli, code))
        if group.schedulable and group.near and cut.open and cut.cut == ask.kind:
            largest = max(largest, cut.free_milli)
        empty = replace(cut, state=0, taken=(), memory_used_mib=0, holder=None, open=True)
        lasting = all(holds(group, asked) for name, holds in CONSTRAINTS if name in LASTING)
        standing = group.schedulable or group.state == "ready"
        ever = ever or (
            standing and lasting and group.near and refusal_of(empty, ask, tenant) == ""
        )
    removed = {code: counts[code] for code in (*order, isolation) if code in counts}
    return PartsRefused(slots, removed, nearest[2], max(nearest[1], 0), largest, ever)
