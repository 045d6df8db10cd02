"""Which things have stayed in a state for longer than expected?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MINUTE, HOUR, DAY = 60, 3600, 86_400

EXPECTED_S: dict[tuple[str, str], int] = {
    ("tenants.tenant", "pending"): 3 * DAY,
    ("placement.allocation", "placed"): 15 * MINUTE,
    ("placement.allocation", "provisioning"): 15 * MINUTE,
    ("placement.allocation", "preempting"): 15 * MINUTE,
    ("placement.allocation", "releasing"): 30 * MINUTE,
    ("placement.allocation", "cleanup_blocked"): 4 * HOUR,
    ("placement.node", "enrolling"): DAY,
    ("placement.node", "inspecting"): 15 * MINUTE,
    ("placement.node", "verifying"): 3 * DAY,
    ("placement.node", "maintenance"): 7 * DAY,
    ("placement.node", "quarantined"): 7 * DAY,
    ("placement.maintenancewindow", "planned"): 366 * DAY,
    ("placement.maintenancewindow", "announced"): 366 * DAY,
    ("placement.maintenancewindow", "active"): 31 * DAY,
    ("placement.cardreplacement", "declared"): 7 * DAY,
    ("placement.nodetask", "pending"): HOUR,
    ("placement.nodetask", "leased"): HOUR,
}
"""Seconds after which a state that should be left is worth a person's look."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """One thing that is late: since when, and by how much (seconds)."""

    noun: str
    state: str
    since: datetime
    limit_s: int
    late_s: int


def overdue(noun: str, state: str, since: datetime, now: datetime) -> Overdue | None:
    """Whether a thing that entered ``state`` at ``since`` is late at ``now``."""
    limit = EXPECTED_S.get((noun, state))
    if limit is None or now - since <= timedelta(seconds=limit):
        return None
    late = int((now - since).total_seconds()) - limit
    return Overdue(noun, state, since, limit, late)
