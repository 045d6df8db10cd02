"""What is measured, under which name, and into which classes does a duration fall?

A family is a counter, or a histogram with fixed bounds, of seconds or of how many. What is kept of
a series is whole numbers: how many, millionths in all, and how many in each class. To change the
bounds of a family means another name: the counts that are kept would speak of the old ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
QUICK: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds for what somebody waits for with a request open."""
WORK: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, MINUTE, 120.0, 300.0, 600.0, 1800.0, HOUR)
"""Bounds in seconds for what the platform or a host does."""
STAY: Final = (
    *(1.0, 5.0, 15.0, MINUTE, 300.0, 900.0, HOUR),
    *(4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY),
)
"""Bounds in seconds for how long something stands as it is."""
PHASE: Final = (
    *(1.0, 2.5, 5.0, 10.0, 20.0, 30.0, MINUTE, 120.0, 300.0, 600.0, 1800.0),
    *(HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY),
)
"""Bounds in seconds for a lease's phases: fine where making one takes time, coarse where it is
held."""


@dataclass(frozen=True, slots=True)
class Family:
    """A name that is told, with its label names. Without ``bounds`` it is a counter.

    The name of a counter is without its ``_total``.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...] = ()


Labels = tuple[str, ...]
Key = tuple[str, Labels]
"""Which series: the family's name, and the value of each label."""


@dataclass(slots=True)
class Series:
    """What is kept of one series; ``classes`` has one more than the family's bounds."""

    count: int = 0
    sum_us: int = 0
    classes: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that happened, or how long one took."""

    family: Family
    labels: Labels
    seconds: float | None = None


def class_of(bounds: tuple[float, ...], seconds: float) -> int:
    """The first class whose bound is not below ``seconds``; behind the last bound is one more."""
    return bisect_left(bounds, seconds)


def micros(seconds: float) -> int:
    """Whole microseconds. Two clocks that differ by a little make no negative time."""
    return round(max(0.0, seconds) * 1_000_000)


def folded(observations: Iterable[Observation]) -> dict[Key, Series]:
    """Each series' part of these."""
    found: dict[Key, Series] = {}
    for one in observations:
        bounds = one.family.bounds
        series = found.get((one.family.name, one.labels))
        if series is None:
            series = Series(classes=[0] * (len(bounds) + 1) if bounds else [])
            found[one.family.name, one.labels] = series
        series.count += 1
        if bounds:
            seconds = max(0.0, one.seconds or 0.0)
            series.sum_us += micros(seconds)
            series.classes[class_of(bounds, seconds)] += 1
    return found


def added(series: Iterable[Series]) -> Series:
    """Several series of one family as one."""
    total = Series()
    for one in series:
        total.count += one.count
        total.sum_us += one.sum_us
        longer = max(len(total.classes), len(one.classes))
        both = (part + [0] * (longer - len(part)) for part in (total.classes, one.classes))
        total.classes = [a + b for a, b in zip(*both, strict=True)]
    return total


def quantile(bounds: tuple[float, ...], classes: list[int], share: float) -> float | None:
    """The seconds below which ``share`` (0 to 1) of what was measured lies.

    Between two bounds evenly spread, as Prometheus' histogram_quantile has it; what lies behind
    the last bound is told as that bound. None where nothing was measured.
    """
    total = sum(classes)
    if total == 0:
        return None
    rank, before, below = share * total, 0, 0.0
    for bound, here in zip(bounds, classes, strict=False):
        if here and before + here >= rank:
            return below + (bound - below) * (rank - before) / here
        before, below = before + here, bound
    return bounds[-1]


def by_family(series: Mapping[Key, Series]) -> dict[str, list[tuple[Labels, Series]]]:
    """The series of each family, in the order of their labels."""
    found: dict[str, list[tuple[Labels, Series]]] = {}
    for (name, labels), one in sorted(series.items(), key=lambda pair: pair[0]):
        found.setdefault(name, []).append((labels, one))
    return found
