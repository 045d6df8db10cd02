"""How much idle capacity can a product not use, and why?  Pure, over hosts grouped by pattern.

Slots that nobody holds are *idle*. Of these a product may use some: *open*. Every other idle slot
has exactly one cause, the first that applies, so that open and the causes add up to what is idle.
Open slots may still be scattered: a request of n slots needs n on one host. For each size it is
told how many such requests fit now, and how many would if the open slots were gathered on the
hosts that take work; ``scattered`` are the slots of the difference, at the largest size sold.

Amounts are slots. A whole-host product has one size, the host: free slots of a host that is partly
held are open to it, and scattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from placement.domain.terms import FREE, Alone, Terms, Version
from placement.domain.wiring import beside

MAINTENANCE, WINDOW = "maintenance", "maintenance_window"
DRAINING, CLEANUP = "draining", "cleanup_blocked"
UNHEALTHY, INTENDED, VERSIONS = "unhealthy", "intended_use", "versions"
KEPT, ISOLATION, NIC = "kept_for_waiting", "wiring_isolation", "nic_shared"
SCATTERED: Final = "scattered"
CAUSES: Final = (
    MAINTENANCE,
    WINDOW,
    DRAINING,
    CLEANUP,
    UNHEALTHY,
    INTENDED,
    VERSIONS,
    KEPT,
    ISOLATION,
    NIC,
    SCATTERED,
)
"""Why an idle slot is of no use to a product, in the order in which they are asked."""
HELPS: Final = {
    MAINTENANCE: "End the maintenance or the quarantine of these hosts.",
    WINDOW: "Leases that end in time (max_duration_s) still fit; it ends with the window.",
    DRAINING: "End the drain of these hosts or slots, or finish the work it is for.",
    CLEANUP: "Try the blocked cleanups again, or have them overridden by two people.",
    UNHEALTHY: "Mend the hosts that report trouble or are silent.",
    INTENDED: "Change what these hosts are meant for, if they are needed here.",
    VERSIONS: "Bring the drivers of these hosts to what the terms demand, or change the terms.",
    KEPT: "It ends by itself when what has waited longest is placed.",
    ISOLATION: "It ends with the leases that were promised wiring or a host of their own.",
    NIC: "Give these slots a NIC of their own, or sell the product without one.",
    SCATTERED: "Move what may be moved: look at the defragmentation plan.",
}


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts that are alike in all that is asked about, and how many.

    ``state`` of a host that takes no work is the cause (maintenance, a window of it that begins
    before a lease without an end would end, draining, unhealthy), and empty of one that does.
    ``idle``: approved slots that nobody holds. Masks are of slots: ``free`` to be had, ``held``
    by anybody, ``promised`` wiring of their holders' own. ``closed``: some claim there was
    promised the host, or wiring in the NVLink domain that it shares. ``domain_held``: somebody
    holds something elsewhere in that domain. ``drained``: idle slots that are drained by
    themselves; what is idle and neither free nor drained is blocked until it is cleaned.
    ``kept``: for who waits.
    """

    hosts: int
    slots: int
    free: int
    idle: int
    layout: str = ""
    exclusive: int = 0
    held: int = 0
    promised: int = 0
    closed: bool = False
    domain_held: bool = False
    state: str = ""
    drained: int = 0
    intended: str = "any"
    driver: Version = ()
    runtime: Version = ()
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Sold:
    """What a product needs of a host. ``most`` 0: the whole host."""

    sku: str
    least: int
    most: int
    exclusive_nic: bool = False
    terms: Terms = FREE

    @property
    def whole(self) -> bool:
        """Whether it is sold by the host."""
        return self.most == 0


@dataclass(frozen=True, slots=True)
class Fit:
    """How many requests of a size fit now, and would if what is open stood together."""

    size: int
    now: int
    ideal: int

    @property
    def lost(self) -> int:
        """Slots that would serve requests of this size and cannot."""
        return (self.ideal - self.now) * self.size


@dataclass(frozen=True, slots=True)
class Stranding:
    """One product's account: ``open`` and the causes but *scattered* add up to ``idle``."""

    sku: str
    hosts: int
    slots: int
    idle: int
    open: int
    largest: int
    fits: tuple[Fit, ...]
    causes: dict[str, int]
    histogram: dict[int, int] = field(default_factory=dict)
    """Hosts that take work, by how many open slots they have."""

    @property
    def stranded(self) -> int:
        """Idle slots of no use to the product's largest size."""
        return sum(self.causes.values())

    @property
    def scattered_permille(self) -> int:
        """Of the requests of the largest size that could fit, how many do not: 0 to 1000."""
        last = self.fits[-1] if self.fits else None
        return 1000 * (last.ideal - last.now) // last.ideal if last and last.ideal else 0


def sizes_of(sold: Sold, largest_host: int) -> tuple[int, ...]:
    """The sizes that are told: powers of two that are sold, the least and the most."""
    if sold.whole:
        return (largest_host,) if largest_host else ()
    most = min(sold.most, largest_host)
    powers = [1 << k for k in range(most.bit_length())]
    told = {size for size in (*powers, sold.least, most) if sold.least <= size <= most}
    return tuple(sorted(told))


def stranding(sold: Sold, fleet: Iterable[Hosts]) -> Stranding:
    """The account of one product over the hosts of its pool and family."""
    groups = list(fleet)
    causes: Counter[str] = Counter()
    counts: Counter[int] = Counter()
    for group in groups:
        usable, why = _usable(sold, group)
        for cause, slots in why.items():
            causes[cause] += slots * group.hosts
        if not group.state:
            counts[usable] += group.hosts
    largest_host = max((group.slots for group in groups), default=0)
    serving = [(usable, hosts) for usable, hosts in counts.items() if usable]
    fits = tuple(_fit(size, serving, groups) for size in sizes_of(sold, largest_host))
    if fits and fits[-1].lost:
        causes[SCATTERED] = fits[-1].lost
    most = max((usable for usable, _ in serving), default=0)
    cap = largest_host if sold.whole else sold.most
    fitting = [fit.size for fit in fits if fit.now]
    return Stranding(
        sku=sold.sku,
        hosts=sum(group.hosts for group in groups),
        slots=sum(group.slots * group.hosts for group in groups),
        idle=sum(group.idle * group.hosts for group in groups),
        open=sum(usable * hosts for usable, hosts in counts.items()),
        largest=(max(fitting, default=0) if sold.whole else min(most, cap)) if fitting else 0,
        fits=fits,
        causes={cause: causes[cause] for cause in CAUSES if causes[cause]},
        histogram=dict(sorted(counts.items())),
    )


def _fit(size: int, serving: list[tuple[int, int]], groups: list[Hosts]) -> Fit:
    """Gathered in any way, the open slots serve as many as they are, and as hosts are large."""
    now = sum(usable // size * hosts for usable, hosts in serving)
    left = sum(usable * hosts for usable, hosts in serving)
    most = sum(group.slots // size * group.hosts for group in groups if not group.state)
    return Fit(size, now, min(left // size, most))


def _usable(sold: Sold, g: Hosts) -> tuple[int, dict[str, int]]:
    """How many slots of such a host the product may use, and the cause of every other idle one."""
    closed = _closed(sold, g)
    if closed:
        return 0, {closed: g.idle}
    free = g.free.bit_count()
    why = {DRAINING: g.drained, CLEANUP: max(g.idle - free - g.drained, 0)}
    if g.kept:
        return 0, {**why, KEPT: free}
    opened = _apart(sold.terms.alone, g)
    why[ISOLATION] = free - opened.bit_count()
    if sold.exclusive_nic:
        shared = opened & ~g.exclusive
        why[NIC] = shared.bit_count()
        opened &= g.exclusive
    return opened.bit_count(), why


def _closed(sold: Sold, g: Hosts) -> str:
    """The cause that closes all of such a host to the product, or an empty text."""
    if g.state:
        return g.state
    if g.intended not in ("any", "baremetal" if sold.whole else "slices"):
        return INTENDED
    return "" if _versions(sold.terms, g) else VERSIONS


def host_cause(sold: Sold, g: Hosts) -> str:
    """Why a product gets none of the free slots of such a host, or an empty text."""
    if g.kept and not _closed(sold, g):
        return KEPT
    return _closed(sold, g) or ("" if _apart(sold.terms.alone, g) else ISOLATION)


def serves(sold: Sold, g: Hosts) -> bool:
    """Whether such a host in service could ever hold the product, were it empty."""
    use = "baremetal" if sold.whole else "slices"
    size = g.slots if sold.whole else sold.least
    nic = g.exclusive.bit_count() if sold.exclusive_nic else g.slots
    return (
        g.state in ("", KEPT, WINDOW, DRAINING, UNHEALTHY)
        and g.intended in ("any", use)
        and _versions(sold.terms, g)
        and min(g.slots, nic) >= size
    )


def _versions(terms: Terms, g: Hosts) -> bool:
    below = terms.driver_below
    known = not below or (bool(g.driver) and g.driver < below)
    return g.driver >= terms.driver_min and known and g.runtime >= terms.runtime_min


def _apart(alone: Alone, g: Hosts) -> int:
    """The free slots that share nothing with anybody where either side was promised so."""
    if g.closed:
        return 0
    free = g.free & ~beside(g.layout, g.slots, g.promised) if g.promised else g.free
    if alone == Alone.SHARES:
        return free
    if alone == Alone.NODE and (g.held or g.domain_held):
        return 0
    if g.domain_held:
        return 0
    return free & ~beside(g.layout, g.slots, g.held) if g.held else free
