"""Which of the five ends of a decision is this?  Denied is not unavailable."""

from __future__ import annotations

from typing import Final

ADMITTED: Final = "admitted"
DENIED: Final = "denied"
WAITING_FOR_AUTHORITY: Final = "waiting_for_authority"
FORBIDDEN: Final = "forbidden_by_locality_or_topology"
NO_CAPACITY: Final = "no_capacity"
OUTCOMES: Final = (ADMITTED, DENIED, WAITING_FOR_AUTHORITY, FORBIDDEN, NO_CAPACITY)

CAPACITY_CODES: Final = frozenset(
    {"sku_unavailable", "never_fits", "waiting_for_capacity", "concurrent_update"}
)
PLACE_CODES: Final = frozenset(
    {"forbidden_by_locality", "forbidden_by_topology", "locality_conflict"}
)


def outcome_of(verdict: str, code: str) -> str:
    """The class of a verdict (admit, wait or deny) with its reason code.

    Authorised without room is no_capacity, with room elsewhere it is forbidden; whatever else
    waits does so for authority, and whatever else was refused was denied.
    """
    if verdict == "admit":
        return ADMITTED
    if code in PLACE_CODES:
        return FORBIDDEN
    if code in CAPACITY_CODES:
        return NO_CAPACITY
    return WAITING_FOR_AUTHORITY if verdict == "wait" else DENIED
