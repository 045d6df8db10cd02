"""Which slot sets of a size does a host's wiring offer, the most compact first?"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb

from placement.domain.wiring import groups

MAX_ENUMERATED = 20_000
"""Above this many slot sets they are not listed."""

Spans = tuple[int, int, int]
"""NUMA nodes, PCIe switches and NVLink domains that a slot set touches."""


def indices(mask: int) -> list[int]:
    """The slot indices of a mask, ascending."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


def listed(count: int, size: int) -> bool:
    """Whether the sets of this size are few enough to be listed."""
    return comb(count, size) <= MAX_ENUMERATED


@lru_cache(maxsize=4096)
def sets(layout: str, size: int) -> tuple[tuple[Spans, int], ...]:
    """Every slot set of a size with what it spans, best first."""
    where = groups(layout)
    out = []
    for chosen in combinations(range(len(where)), size):
        spans = tuple(len({where[k][part] for k in chosen}) for part in range(3))
        out.append(((spans[0], spans[1], spans[2]), sum(1 << k for k in chosen)))
    out.sort(key=lambda entry: (entry[0], indices(entry[1])))
    return tuple(out)


@lru_cache(maxsize=65536)
def least_spans(layout: str, free: int, size: int) -> Spans | None:
    """What the most compact free set of a size spans; None if there is none or too many."""
    if not listed(len(groups(layout)), size):
        return None
    return next((spans for spans, mask in sets(layout, size) if not mask & ~free), None)
