"""How much useful room does a placement cost the requests that usually come?

Two amounts of slot-milli (1000 is one slot), each times its weight:

    growth   of expected fragmentation and stranded capacity, by the very score that packs the
             published traces (placement.domain.packing): a slot is one whole GPU that brings its
             share of CPU and memory, a request of n slots is n whole GPUs
    broken   growth of free slots that a usual size can only use across more NUMA nodes or
             switches than an empty host would need

The first depends on how many slots are free, so it is worked out once per mix for every count;
the second on which, so it is remembered by free mask. Nothing is computed per host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from placement.domain.demand import WHOLE, Bundle, Mix
from placement.domain.packing import Fleet, Host, Weights
from placement.domain.spans import least_spans

CPU_MILLI, MEMORY_MIB = 1000, 1024
"""What a slot brings of each: any amounts do, as long as requests take them in proportion."""
USUAL = (1, 2, 4, 8)
"""The sizes that are expected, equally often, where nobody has asked for anything yet."""


@dataclass(frozen=True, slots=True)
class Lookahead:
    """A demand mix of sizes with the weights of a version; equal ones share what is remembered.

    ``shares`` is (slots, parts of a hundred). Weights are in thousandths.
    """

    shares: tuple[tuple[int, int], ...] = tuple((size, 25) for size in USUAL)
    gap: int = 10_000
    fragment: int = 1_000
    stranded: int = 200
    broken: int = 300
    version: int = 0

    def growth(self, layout: str, count: int, free: int, mask: int) -> int:
        """Slot-milli of useful room that taking ``mask`` from ``free`` costs, weighted."""
        table = _tables(self, count)
        size = mask.bit_count()
        after = _broken(self, layout, count, free & ~mask) - _broken(self, layout, count, free)
        return table[size][free.bit_count()] + after * self.broken // WHOLE

    def levels(self, count: int, size: int) -> tuple[int, ...]:
        """The free counts that hold a size, the one that costs least room first."""
        row = _tables(self, count)[size]
        return tuple(sorted(range(size, count + 1), key=lambda free: (row[free], free)))

    def as_json(self) -> dict[str, Any]:
        """What was expected, for the record."""
        return {"weights": self.version, "mix": {str(size): part for size, part in self.shares}}


def expecting(counts: Mapping[int, int], *, most: int) -> tuple[tuple[int, int], ...]:
    """Requests by size as parts of a hundred, so that small changes change nothing.

    ``most`` is the size that stands for a whole host (0 in the requests) and for all beyond.
    """
    sizes: dict[int, int] = {}
    for asked, often in counts.items():
        size = min(asked, most) or most
        sizes[size] = sizes.get(size, 0) + often
    total = sum(sizes.values())
    if not total:
        kept = [size for size in USUAL if size <= most] or [most]
        return tuple((size, 100 // len(kept)) for size in kept)
    parts = {size: round(100 * often / total) for size, often in sorted(sizes.items())}
    return tuple((size, part) for size, part in parts.items() if part)


@lru_cache(maxsize=256)
def _tables(ahead: Lookahead, count: int) -> tuple[tuple[int, ...], ...]:
    """By size and free count: the weighted score of the packing engine, in slot-milli."""
    mix = Mix.counted({_bundle(size): part for size, part in ahead.shares if size <= count})
    weights = Weights(ahead.gap / WHOLE, ahead.fragment / WHOLE, ahead.stranded / WHOLE)
    hosts = [
        Host(str(free), "", CPU_MILLI * free, MEMORY_MIB * free, (WHOLE,) * free)
        for free in range(count + 1)
    ]
    fleet = Fleet(hosts, mix, weights)
    out = []
    for size in range(count + 1):
        row = [0] * (count + 1)
        for choice in fleet.ranked(_bundle(size), limit=count + 1) if size else ():
            row[choice.position] = round(choice.score)
        out.append(tuple(row))
    return tuple(out)


def _bundle(size: int) -> Bundle:
    return Bundle(CPU_MILLI * size, MEMORY_MIB * size, size, WHOLE)


@lru_cache(maxsize=65536)
def _broken(ahead: Lookahead, layout: str, count: int, free: int) -> int:
    """Expected slot-milli that are free and only to be had across more parts than need be."""
    have, full, out = free.bit_count(), (1 << count) - 1, 0
    for size, part in ahead.shares:
        if size <= have:
            now, best = least_spans(layout, free, size), least_spans(layout, full, size)
            if now is not None and best is not None and now > best:
                out += part * have
    return out * WHOLE // 100
