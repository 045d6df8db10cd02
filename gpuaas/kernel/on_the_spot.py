"""How often and how long, of what no row tells?  Measured where it happens, over all processes.

For what is written nowhere: how long a decision took, which looks for a place were in vain. What
has an event is taken from it instead (``measuring``). Nothing is written to the database and
nothing is waited for: see ``shared_counts`` for what may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings

from gpuaas.kernel import clock
from gpuaas.kernel.families import Family, Key, Series, class_of, micros
from gpuaas.kernel.shared_counts import SharedCounts

KEY: Final = "gpuaas:measures"
COUNT, SUM = "n", "us"
_BETWEEN = "\x1f"

_families: dict[str, Family] = {}
counts = SharedCounts(settings.CONFIG.redis_url, KEY)


def family(made: Family) -> Family:
    """Make a family known that is measured here, at import."""
    _families[made.name] = made
    return made


def registered() -> list[Family]:
    """Every family that is measured where it happens, by name."""
    return [_families[name] for name in sorted(_families)]


def count(of: Family, *labels: str, times: int = 1) -> None:
    """Count something; waits for nothing, never raises."""
    counts.add({_BETWEEN.join((of.name, *labels, COUNT)): times})


def observe(of: Family, seconds: float, *labels: str) -> None:
    """Keep how long something took, or how many it was; waits for nothing, never raises."""
    start = _BETWEEN.join((of.name, *labels, ""))
    counts.add(
        {
            f"{start}{COUNT}": 1,
            f"{start}{SUM}": micros(seconds),
            f"{start}{class_of(of.bounds, seconds)}": 1,
        }
    )


class Took:
    """What something that is being timed turns out to be; without labels it is not told."""

    labels: tuple[str, ...] | None = None


@contextmanager
def timed(of: Family) -> Iterator[Took]:
    """Time the block; it sets the labels, and may raise after that."""
    began, took = clock.monotonic(), Took()
    try:
        yield took
    finally:
        if took.labels is not None:
            observe(of, clock.monotonic() - began, *took.labels)


def read() -> dict[Key, Series]:
    """What was measured of each series of a family that is known."""
    found: dict[Key, Series] = {}
    for field, number in counts.read().items():
        name, *labels, what = field.split(_BETWEEN)
        known = _families.get(name)
        if known is None or len(labels) != len(known.labels):
            continue
        series = found.setdefault(
            (name, tuple(labels)),
            Series(classes=[0] * (len(known.bounds) + 1) if known.bounds else []),
        )
        if what == COUNT:
            series.count = number
        elif what == SUM:
            series.sum_us = number
        elif what.isdecimal() and int(what) < len(series.classes):
            series.classes[int(what)] = number
    return found
