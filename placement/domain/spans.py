"""Which slot sets of a size does a host's wiring offer, the most compact first?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

from placement.domain.links import cut, joined
from placement.domain.wiring import groups, numa_masks

MAX_ENUMERATED = 20_000
"""Above this many slot sets they are not listed."""


class Spans(NamedTuple):
    """What a slot set spans, in the order in which it counts; smaller is more compact.

    ``reach`` is one of placement.domain.links.REACHES. ``narrow`` and ``apart`` are 0 less the
    links of its narrowest way and less all of its direct links, so that more come first.
    """

    reach: int
    narrow: int
    numa: int
    apart: int
    switches: int
    domains: int


def spans_of(layout: str, chosen: Sequence[int]) -> Spans:
    """What these slots span."""
    where = groups(layout)
    numa, switches, domains = (len({where[k][part] for k in chosen}) for part in range(3))
    reach, narrowest, links = joined(layout, chosen)
    return Spans(reach, -narrowest, numa, -links, switches, domains)


def left_in_numa(layout: str, free: int, mask: int) -> int:
    """Free slots that a set leaves in the NUMA nodes that it touches."""
    return sum((numa & free & ~mask).bit_count() for numa in numa_masks(layout) if numa & mask)


def remainder(layout: str, free: int, mask: int) -> tuple[int, ...]:
    """What orders two sets of one host that span as much: what they leave, then which they are."""
    broken = cut(layout, mask, free & ~mask)
    return (broken, left_in_numa(layout, free, mask), *indices(mask))


def indices(mask: int) -> list[int]:
    """The slot indices of a mask, ascending."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


def listed(count: int, size: int) -> bool:
    """Whether the sets of this size are few enough to be listed."""
    return comb(count, size) <= MAX_ENUMERATED


@lru_cache(maxsize=4096)
def sets(layout: str, size: int) -> tuple[tuple[Spans, int], ...]:
    """Every slot set of a size with what it spans, best first."""
    out = [
        (spans_of(layout, chosen), sum(1 << k for k in chosen))
        for chosen in combinations(range(len(groups(layout))), size)
    ]
    out.sort(key=lambda entry: (entry[0], indices(entry[1])))
    return tuple(out)


@lru_cache(maxsize=65536)
def least_spans(layout: str, free: int, size: int) -> Spans | None:
    """What the most compact free set of a size spans; None if there is none or too many."""
    if not listed(len(groups(layout)), size):
        return None
    return next((spans for spans, mask in sets(layout, size) if not mask & ~free), None)
