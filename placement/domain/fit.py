"""Where does it fit, and which slots are the best?  Pure, over frozen node snapshots.

Documented order, smaller first: NUMA nodes spanned, PCIe switches spanned, NVLink domains
spanned, free slots left in the NUMA nodes that are touched (use what is already broken),
free slots left on the node, the slots' own indices, the node's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import combinations
from math import comb
from operator import itemgetter

MAX_ENUMERATED = 20_000
"""Above this many slot sets a greedy choice by NUMA node is made instead."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node's free capacity at one generation. ``layout`` is numa.switch.domain per slot."""

    num: int
    generation: int
    free_mask: int
    slot_count: int
    layout: str
    exclusive_mask: int = 0


@dataclass(frozen=True, slots=True)
class Want:
    """A size: ``slots`` 0 is the whole node."""

    slots: int
    exclusive_nic: bool = False

    @property
    def whole(self) -> bool:
        """Whether the whole node is asked for."""
        return self.slots == 0


@dataclass(frozen=True, slots=True)
class Option:
    """A node and a slot set, with the score that orders it."""

    num: int
    generation: int
    mask: int
    score: tuple[int, ...]

    def explained(self) -> dict[str, object]:
        """The score in words, for the decision trace."""
        names = ("numa_nodes", "switches", "nvlink_domains", "left_in_numa", "left_on_node")
        return {
            "node_num": self.num,
            "slots": indices(self.mask),
            **dict(zip(names, self.score, strict=False)),
        }


def indices(mask: int) -> list[int]:
    """The slot indices of a mask, ascending."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


@lru_cache(maxsize=4096)
def groups(layout: str) -> tuple[tuple[str, str, str], ...]:
    """(numa, switch, domain) of each slot; an unknown part is a group of its own slot."""
    out: list[tuple[str, str, str]] = []
    for index, part in enumerate(layout.split("|") if layout else []):
        fields = [*part.split("."), "", "", ""][:3]
        numa, switch, domain = (field or f"?{index}" for field in fields)
        out.append((numa, f"{numa}/{switch}", domain))
    return tuple(out)


@lru_cache(maxsize=4096)
def _sets(layout: str, size: int) -> tuple[tuple[tuple[int, int, int], int], ...]:
    """Every slot set of a size with (NUMA nodes, switches, domains) spanned, best first."""
    where = groups(layout)
    out = []
    for chosen in combinations(range(len(where)), size):
        spread = tuple(len({where[k][part] for k in chosen}) for part in range(3))
        out.append(((spread[0], spread[1], spread[2]), sum(1 << k for k in chosen)))
    out.sort(key=lambda entry: (entry[0], indices(entry[1])))
    return tuple(out)


@lru_cache(maxsize=4096)
def _numa_masks(layout: str) -> tuple[int, ...]:
    masks: dict[str, int] = {}
    for index, (numa, _, _) in enumerate(groups(layout)):
        masks[numa] = masks.get(numa, 0) | 1 << index
    return tuple(masks.values())


def _left_in_numa(layout: str, free: int, mask: int) -> int:
    return sum((numa & free & ~mask).bit_count() for numa in _numa_masks(layout) if numa & mask)


def _greedy(layout: str, free: int, size: int) -> int:
    """Fill the fullest-fitting NUMA node first; for nodes too large to enumerate."""
    mask, need = 0, size
    parts = [numa & free for numa in _numa_masks(layout)]
    while need:
        parts = [part & ~mask for part in parts if part & ~mask]
        fitting = [part for part in parts if part.bit_count() >= need]
        part = (
            min(fitting, key=lambda p: (p.bit_count(), p & -p))
            if fitting
            else max(parts, key=lambda p: (p.bit_count(), -(p & -p)))
        )
        for index in indices(part)[:need]:
            mask |= 1 << index
        need = size - mask.bit_count()
    return mask


@lru_cache(maxsize=65536)
def _best_mask(
    layout: str, free: int, usable: int, size: int
) -> tuple[tuple[int, int, int], int] | None:
    """The best slot set of one node with this layout and these free slots, of the usable ones."""
    best: tuple[tuple[int, ...], tuple[int, int, int], int] | None = None
    for spread, mask in _sets(layout, size):
        if mask & ~usable:
            continue
        if best is not None and spread > best[1]:
            break
        key = (_left_in_numa(layout, free, mask), *indices(mask))
        if best is None or key < best[0]:
            best = (key, spread, mask)
    return None if best is None else (best[1], best[2])


@lru_cache(maxsize=65536)
def _best(
    layout: str, free: int, count: int, exclusive: int, size: int, nic: bool
) -> tuple[tuple[int, ...], int] | None:
    """Score (without the node's number) and slot set on any node that looks like this."""
    full = (1 << count) - 1
    if size == 0:
        return ((0, 0, 0, 0, 0), full) if count and free == full else None
    usable = free & (exclusive if nic else full)
    if not 0 < size <= usable.bit_count():
        return None
    if comb(count, size) > MAX_ENUMERATED:
        mask = _greedy(layout, usable, size)
        where = [groups(layout)[k] for k in indices(mask)]
        spread = (
            len({w[0] for w in where}),
            len({w[1] for w in where}),
            len({w[2] for w in where}),
        )
    else:
        found = _best_mask(layout, free, usable, size)
        if found is None:
            return None
        spread, mask = found
    left = free.bit_count() - size
    return (*spread, _left_in_numa(layout, free, mask), left, *indices(mask)), mask


def _scored(place: Place, want: Want) -> tuple[tuple[int, ...], int] | None:
    """The score that orders the place, ending with its number, and the slot set."""
    best = _best(
        place.layout,
        place.free_mask,
        place.slot_count,
        place.exclusive_mask,
        want.slots,
        want.exclusive_nic,
    )
    return None if best is None else ((*best[0], place.num), best[1])


def best_option(place: Place, want: Want) -> Option | None:
    """The best slot set on one node, or None when the size does not fit there."""
    scored = _scored(place, want)
    if scored is None:
        return None
    return Option(place.num, place.generation, scored[1], scored[0])


def rank(places: Iterable[Place], want: Want, *, limit: int) -> list[Option]:
    """The options in order of preference, at most ``limit``."""
    scored = [(*found, place) for place in places if (found := _scored(place, want))]
    first = sorted(scored, key=itemgetter(0))[:limit]
    return [Option(place.num, place.generation, mask, score) for score, mask, place in first]


class Board:
    """The places of a batch while it is planned: each choice sees what those before it took."""

    def __init__(self) -> None:
        self._places: dict[int, Place] = {}
        self._heaps: dict[Want, list[tuple[tuple[int, ...], int, int]]] = {}
        self._closed: set[int] = set()

    def close(self, num: int) -> None:
        """Offer this node to nobody any more."""
        self._closed.add(num)

    def knows(self, want: Want) -> bool:
        """Whether the candidates for this size were given already."""
        return want in self._heaps

    def offer(self, want: Want, places: Iterable[Place]) -> None:
        """Give the candidates for a size; a place that is known keeps what was taken from it."""
        heap: list[tuple[tuple[int, ...], int, int]] = []
        self._heaps[want] = heap
        for place in places:
            kept = self._places.setdefault(place.num, place)
            self._push(heap, kept, want)
        # What was taken from may fit this size best now, though its snapshot did not offer it.
        offered = {entry[0][-1] for entry in heap}
        for num, kept in self._places.items():
            if num not in offered:
                self._push(heap, kept, want)

    @staticmethod
    def _push(heap: list[tuple[tuple[int, ...], int, int]], place: Place, want: Want) -> None:
        scored = _scored(place, want)
        if scored is not None:
            heappush(heap, (*scored, place.generation))

    def best(self, want: Want) -> Option | None:
        """The best option for this size now."""
        heap = self._heaps[want]
        while heap:
            score, mask, generation = heap[0]
            open_ = score[-1] not in self._closed
            if open_ and self._places[score[-1]].generation == generation:
                return Option(score[-1], generation, mask, score)
            heappop(heap)
        return None

    def take(self, option: Option) -> None:
        """Take an option's slots: its node is offered anew to every size."""
        self._places[option.num] = place = taken(self._places[option.num], option)
        for want, heap in self._heaps.items():
            self._push(heap, place, want)


def taken(place: Place, option: Option) -> Place:
    """The place after an option was taken from it: one generation later."""
    return replace(place, generation=place.generation + 1, free_mask=place.free_mask & ~option.mask)
