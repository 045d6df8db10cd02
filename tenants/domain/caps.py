"""Do the tenant's caps allow this, beside its envelopes?  Counts, sizes, places and money."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WARN = "spend_soft_passed"


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits; None or an empty tuple sets none. Money in millionths a month."""

    allocations: int | None = None
    slots_per_request: int | None = None
    waiting: int | None = None
    best_band: int | None = None
    shapes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    spend_soft_micro: int | None = None
    spend_hard_micro: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked, beside what there is.

    ``allocations`` counts those it would make, ``slots`` is of one of them; ``band`` 0 goes
    first; ``zones`` are those it insists on. ``committed_micro`` is this month's spend with
    the request in it; ``live`` and ``waiting`` are what there is without it.
    """

    shape: str
    slots: int
    band: int
    allocations: int = 1
    live: int = 0
    waiting: int = 0
    would_wait: bool = False
    zones: tuple[str, ...] = ()
    committed_micro: int = 0


@dataclass(frozen=True, slots=True)
class Breach:
    """The cap that refuses: its code, and whether waiting could ever help."""

    code: str
    detail: str
    never: bool
    facts: dict[str, Any] = field(default_factory=dict)


def first_breach(caps: Caps, ask: Ask) -> Breach | None:
    """The first cap that refuses, those that no waiting cures before the others."""
    if caps.shapes and ask.shape not in caps.shapes:
        return Breach(
            "shape_not_allowed",
            f"{ask.shape} is not among {', '.join(caps.shapes)}.",
            True,
            {"shape": ask.shape, "allowed": list(caps.shapes)},
        )
    outside = [zone for zone in ask.zones if caps.zones and zone not in caps.zones]
    if outside:
        return Breach(
            "zone_not_allowed",
            f"{', '.join(outside)} is not among {', '.join(caps.zones)}.",
            True,
            {"zones": outside, "allowed": list(caps.zones)},
        )
    if caps.best_band is not None and ask.band < caps.best_band:
        return Breach(
            "band_not_allowed",
            f"Band {ask.band} asked; {caps.best_band} is the most urgent allowed.",
            True,
            {"band": ask.band, "best_band": caps.best_band},
        )
    if caps.slots_per_request is not None and ask.slots > caps.slots_per_request:
        return Breach(
            "request_too_large",
            f"{ask.slots} slots asked; {caps.slots_per_request} may be asked for at once.",
            True,
            {"asked": ask.slots, "cap": caps.slots_per_request},
        )
    if caps.allocations is not None and ask.live + ask.allocations > caps.allocations:
        return Breach(
            "too_many_allocations",
            f"{ask.live} live, {ask.allocations} asked, {caps.allocations} allowed.",
            ask.allocations > caps.allocations,
            {"live": ask.live, "asked": ask.allocations, "cap": caps.allocations},
        )
    if ask.would_wait and caps.waiting is not None and ask.waiting >= caps.waiting:
        return Breach(
            "too_many_waiting",
            f"{ask.waiting} wait already, {caps.waiting} may.",
            caps.waiting == 0,
            {"waiting": ask.waiting, "cap": caps.waiting},
        )
    if caps.spend_hard_micro is not None and ask.committed_micro > caps.spend_hard_micro:
        return Breach(
            "spend_cap_exceeded",
            f"{ask.committed_micro} committed this month with this, {caps.spend_hard_micro} may.",
            False,
            {"committed_micro": ask.committed_micro, "cap_micro": caps.spend_hard_micro},
        )
    return None


def soft_passed(caps: Caps, committed_micro: int) -> bool:
    """Whether the month's soft cap has been passed: to be told, not refused."""
    return caps.spend_soft_micro is not None and committed_micro > caps.spend_soft_micro


def committed_micro(*, accrued_micro: int, hour_micro: int, seconds_left: int) -> int:
    """What a month will cost if everything runs on: accrued so far, and the rate to its end.

    ``hour_micro`` is the running rate in millionths an hour. Rounded up: a cap is kept.
    """
    return accrued_micro + -(-hour_micro * seconds_left // 3600)
