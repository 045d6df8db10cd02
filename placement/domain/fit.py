"""Where does it fit, and which slots are the best?  Pure, over frozen node snapshots.

Documented order, smaller first: NUMA nodes spanned, PCIe switches spanned, NVLink domains
spanned, free slots left in the NUMA nodes that are touched (use what is already broken),
free slots left on the node, the slots' own indices, the node's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

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


def _greedy(place: Place, free: int, size: int) -> int:
    """Fill the fullest-fitting NUMA node first; for nodes too large to enumerate."""
    mask, need = 0, size
    parts = [numa & free for numa in _numa_masks(place.layout)]
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
def _best_mask(layout: str, free: int, size: int) -> tuple[tuple[int, int, int], int] | None:
    """The best slot set of one node with this layout and these free slots."""
    best: tuple[tuple[int, ...], tuple[int, int, int], int] | None = None
    for spread, mask in _sets(layout, size):
        if mask & ~free:
            continue
        if best is not None and spread > best[1]:
            break
        key = (_left_in_numa(layout, free, mask), *indices(mask))
        if best is None or key < best[0]:
            best = (key, spread, mask)
    return None if best is None else (best[1], best[2])


def best_option(place: Place, want: Want) -> Option | None:
    """The best slot set on one node, or None when the size does not fit there."""
    full = (1 << place.slot_count) - 1
    if want.whole:
        if not place.slot_count or place.free_mask != full:
            return None
        return Option(place.num, place.generation, full, (0, 0, 0, 0, 0, place.num))
    free = place.free_mask & (place.exclusive_mask if want.exclusive_nic else full)
    left = place.free_mask.bit_count() - want.slots
    if free.bit_count() < want.slots:
        return None
    if comb(place.slot_count, want.slots) > MAX_ENUMERATED:
        mask = _greedy(place, free, want.slots)
        where = [groups(place.layout)[k] for k in indices(mask)]
        spread = (
            len({w[0] for w in where}),
            len({w[1] for w in where}),
            len({w[2] for w in where}),
        )
    else:
        found = _best_mask(place.layout, free, want.slots)
        if found is None:
            return None
        spread, mask = found
    left_in_numa = _left_in_numa(place.layout, place.free_mask, mask)
    return Option(
        place.num, place.generation, mask, (*spread, left_in_numa, left, *indices(mask), place.num)
    )


def rank(places: Iterable[Place], want: Want, *, limit: int) -> list[Option]:
    """The options in order of preference, at most ``limit``."""
    options = [option for place in places if (option := best_option(place, want))]
    options.sort(key=lambda option: option.score)
    return options[:limit]


def take(places: Sequence[Place], option: Option) -> list[Place]:
    """The places after an option has been taken: a new value, nothing is undone."""
    return [
        Place(
            p.num,
            p.generation + 1,
            p.free_mask & ~option.mask,
            p.slot_count,
            p.layout,
            p.exclusive_mask,
        )
        if p.num == option.num
        else p
        for p in places
    ]
