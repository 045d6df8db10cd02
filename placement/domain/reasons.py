"""Why does a host not take a request, and which host came nearest?  Pure, one code a constraint.

Every constraint is asked in the same order and the first that fails removes the host, so the
numbers add up to the fleet. The nearest miss is among the hosts that came furthest the one with
the most free slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from placement.domain.capacity import BURN_IN_RUNS
from placement.domain.terms import Alone, Own, Terms, Version


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts of a pool and family that are alike in all that is asked about, and how many.

    ``near``: whether they are where the request has to run. ``nic_free``: free slots with a NIC
    of their own. ``own``: whether the tenant holds something there (None where nobody asked).
    ``never``: whether a tenant holds something there that is never placed beside this one.
    ``closing``: whether a window of maintenance comes too early; ``fits_s``: how many seconds what
    is placed there now may last (None without a window).
    """

    hosts: int
    state: str
    draining: bool
    health: str
    schedulable: bool
    intended: str
    near: bool
    driver: Version
    runtime: Version
    slot_count: int
    free_count: int
    nic_free: int
    own: bool | None = None
    never: bool = False
    closing: bool = False
    fits_s: int | None = None
    takes: str = "any"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the constraints are asked about. ``slots`` is the size of a host for a whole one."""

    slots: int
    whole: bool
    exclusive_nic: bool
    terms: Terms


def _unheld(g: Group, a: Asked) -> bool:
    return g.schedulable or g.state != HELD


def _unburnt(g: Group, a: Asked) -> bool:
    return g.schedulable or g.state != BURNING


def _ready(g: Group, a: Asked) -> bool:
    return g.schedulable or g.state == "ready"


def _serviced(g: Group, a: Asked) -> bool:
    return g.schedulable or g.state not in ("maintenance", "quarantined")


def _drained(g: Group, a: Asked) -> bool:
    return g.schedulable or not g.draining


def _heard(g: Group, a: Asked) -> bool:
    return g.schedulable or g.health != "unknown"


def _intended(g: Group, a: Asked) -> bool:
    return g.intended in ("any", "baremetal" if a.whole else "slices")


def _promoted(g: Group, a: Asked) -> bool:
    return not _intended(g, a) or g.takes in ("any", "baremetal" if a.whole else "slices")


def _driver(g: Group, a: Asked) -> bool:
    least, below = a.terms.driver_min, a.terms.driver_below
    return g.driver >= least and (not below or (bool(g.driver) and g.driver < below))


def _own(g: Group, a: Asked) -> bool:
    return a.terms.own == Own.ANY or g.own == (a.terms.own == Own.WITH)


NEVER = "never_together"
"""A tenant is there that is never placed on one host with the one that asks."""
CONSTRAINTS: tuple[tuple[str, Callable[[Group, Asked], bool]], ...] = (
    ("node_held", _unheld),
    (BURN_IN_RUNS, _unburnt),
    ("node_in_service", _serviced),
    ("node_not_ready", _ready),
    ("node_draining", _drained),
    ("node_silent", _heard),
    ("capability_evidence", _promoted),
    ("device_health", lambda g, a: g.schedulable),
    ("intended_use", _intended),
    ("size_of_node", lambda g, a: g.slot_count >= a.slots),
    ("locality", lambda g, a: g.near),
    ("maintenance_window", lambda g, a: not g.closing),
    ("driver_version", _driver),
    ("runtime_version", lambda g, a: g.runtime >= a.terms.runtime_min),
    ("tenant_affinity", _own),
    ("whole_node_free", lambda g, a: not a.whole or g.free_count == g.slot_count),
    ("free_slots", lambda g, a: g.free_count >= a.slots),
    ("exclusive_nic", lambda g, a: not a.exclusive_nic or g.nic_free >= a.slots),
    (NEVER, lambda g, a: not g.never),
)
"""The codes in the order in which they are asked."""
WHOLE = "whole_node_free"
WINDOW = "maintenance_window"
LAST = {Alone.WIRING: "wiring_isolation", Alone.NODE: "node_isolation"}
OTHERS = "other_tenants_isolation"
"""What is left when everything else holds: somebody's promise of wiring or a host of their own."""
TOPOLOGY = frozenset({"exclusive_nic", NEVER, *LAST.values(), OTHERS})
"""Constraints that leave hosts with room enough: how they are wired, or who is there, forbids."""
SPREAD, TOGETHER, SIBLINGS = "spread", "together_level", "other_replicas"
"""What is left of a request for several: each alone would fit, but not all as they have to be."""
CHANGED = "room_changed"
"""What is left where nobody was promised isolation: others take and give back meanwhile."""
KEPT = "kept_for_waiting"
"""What is left where those who wait come first."""
OTHER_FAMILY, OTHER_POOL, DEDICATED = "other_family", "other_pool", "pool_dedicated"
"""Hosts that are not among those asked: of another family, of another pool, or for others."""
HELD = "held"
"""The state of a host on which room is being made for somebody."""
BURNING = "burning"
"""The state of a host whose GPUs are under load for a burn-in."""
LASTING = ("intended_use", "size_of_node", "driver_version", "runtime_version")
"""Constraints that no release of anybody's claims will ever meet."""


def failing(group: Group, asked: Asked) -> str:
    """The code of the first constraint that removes these hosts, or an empty text."""
    return next((code for code, holds in CONSTRAINTS if not holds(group, asked)), "")


@dataclass(frozen=True, slots=True)
class Refused:
    """How many hosts each constraint removed, and the nearest miss."""

    hosts: int
    removed: dict[str, int]
    nearest: str
    nearest_free: int
    largest_free: int
    ever: bool
    """Whether an approved host could ever hold it, were it empty."""
    fits_s: int | None = None
    """How many seconds it could last where a window of maintenance alone is in the way."""

    def as_json(self) -> dict[str, Any]:
        """As it is kept in the decision: counts, never hosts."""
        return {
            "nodes": self.hosts,
            "removed": self.removed,
            "nearest": {"constraint": self.nearest, "free": self.nearest_free},
            **({"shorter_fits_s": self.fits_s} if self.fits_s else {}),
        }


def refused(groups: Iterable[Group], asked: Asked, *, rest: str = "") -> Refused:
    """The account of a refusal. ``rest`` is what kept it from hosts that no constraint removed;
    left empty it was isolation."""
    order = [code for code, _ in CONSTRAINTS]
    isolation = rest or LAST.get(asked.terms.alone, OTHERS)
    counts: dict[str, int] = {}
    hosts = largest = 0
    ever, nearest = False, (-1, -1, "")
    fits: int | None = None
    for group in groups:
        code = failing(group, asked) or isolation
        hosts += group.hosts
        counts[code] = counts.get(code, 0) + group.hosts
        at = order.index(code) if code in order else len(order)
        nearest = max(nearest, (at, group.free_count, code))
        if code == WINDOW and group.fits_s and not failing(replace(group, closing=False), asked):
            fits = max(fits or 0, group.fits_s)
        if group.schedulable and group.near:
            largest = max(largest, group.free_count)
        standing = group.schedulable or group.state in ("ready", HELD, BURNING)
        lasting = all(holds(group, asked) for c, holds in CONSTRAINTS if c in LASTING)
        ever = ever or (standing and lasting and group.near)
    removed = {code: counts[code] for code in (*order, isolation) if code in counts}
    return Refused(hosts, removed, nearest[2], max(nearest[1], 0), largest, ever, fits)
