"""Which set of slots is the best where there are too many to list them all?

A set is grown first. Then all others are gone through in the order of their indices, but for those
that cannot be better: of slots that are wired alike only the lowest are taken, and a beginning is
given up once the least that it can span is more than the best set spans. That ends after a bounded
number of beginnings; until then the answer is the best there is by the documented order
(placement.domain.fit), and afterwards it is the best that was met, never less than the grown one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from placement.domain.links import DIRECT, HOP, MOST, PCIE, Links, alike, linked
from placement.domain.spans import Spans, indices, remainder, spans_of
from placement.domain.wiring import groups, numa_masks

WORK: Final = 60_000
"""Beginnings that are looked at, times the slots that each could go on with."""
_Key = tuple[tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=65536)
def searched(layout: str, free: int, usable: int, size: int) -> tuple[Spans, int] | None:
    """The best set of the usable slots of a host with these free ones; None where it has fewer."""
    if usable.bit_count() < size:
        return None
    search = Search(layout, free, usable, size)
    mask = search.best()
    return spans_of(layout, indices(mask)), mask


def grown(layout: str, free: int, size: int) -> int:
    """A set to begin with: the NUMA node that it fills best, then the fullest ones."""
    mask, need = 0, size
    parts = [numa & free for numa in numa_masks(layout)]
    while need:
        parts = [part & ~mask for part in parts if part & ~mask]
        fitting = [part for part in parts if part.bit_count() >= need]
        part = (
            min(fitting, key=lambda p: (p.bit_count(), p & -p))
            if fitting
            else max(parts, key=lambda p: (p.bit_count(), -(p & -p)))
        )
        mask |= _most_linked(linked(layout), mask, part, need)
        need = size - mask.bit_count()
    return mask


def _most_linked(links: Links | None, mask: int, part: int, need: int) -> int:
    """Of a part so many slots, each the one with the most links to those that are taken.

    Where several have as many: one that leads on to others, and at last one that leaves no
    other without its own.
    """
    if links is None:
        return sum(1 << index for index in indices(part)[:need])
    taken, left, grown = indices(mask), indices(part), 0

    def after(index: int) -> tuple[int, int, int]:
        onwards = sum(links[index][other] for other in left)
        to_taken = sum(links[index][other] for other in taken)
        return -to_taken, -onwards if need - grown.bit_count() > 1 else onwards, index

    while left and grown.bit_count() < need:
        best = min(left, key=after)
        left.remove(best)
        taken.append(best)
        grown |= 1 << best
    return grown


class Search:
    """One search; ``steps`` is how many beginnings it looked at."""

    def __init__(self, layout: str, free: int, usable: int, size: int) -> None:
        self.layout, self.free, self.size = layout, free, size
        self.slots = indices(usable)
        self.steps = 0
        self._most_steps = WORK // max(len(self.slots), 1)
        self._parts = groups(layout)
        self._links = None if alike(layout) is not None else linked(layout)
        self._twins = _twins(self._parts, self._links, self.slots)
        masks = numa_masks(layout)
        self._numa_free = {
            self._parts[slot][0]: (mask & free).bit_count()
            for slot in self.slots
            for mask in masks
            if mask >> slot & 1
        }
        if self._links is not None:
            self._most = {
                slot: _sums(self._links[slot][other] for other in self.slots if other != slot)
                for slot in self.slots
            }
            self._reaching = _reaching(self._links, self.slots, size)
        self._mask = grown(layout, usable, size)
        self._key = self._key_of(self._mask)

    @property
    def proven(self) -> bool:
        """Whether everything was looked at, or shown to be no better."""
        return self.steps < self._most_steps

    def best(self) -> int:
        """The best set, as a mask."""
        self._extend(0, [], frozenset())
        return self._mask

    def _key_of(self, mask: int) -> _Key:
        spans = spans_of(self.layout, indices(mask))
        broken, left, *chosen = remainder(self.layout, self.free, mask)
        return (*spans, broken, left), tuple(chosen)

    def _extend(self, start: int, chosen: list[int], closed: frozenset[int]) -> None:
        """Go through all sets that begin so; ``closed`` twins have a lower one that was left."""
        if len(chosen) == self.size:
            mask = sum(1 << slot for slot in chosen)
            key = self._key_of(mask)
            if key < self._key:
                self._key, self._mask = key, mask
            return
        need = self.size - len(chosen) - 1
        for at in range(start, len(self.slots)):
            slot = self.slots[at]
            if self._twins[slot] in closed:
                continue
            if self.steps >= self._most_steps:
                return
            self.steps += 1
            more = [one for one in self.slots[at + 1 :] if self._twins[one] not in closed]
            if len(more) < need:
                return
            taken = [*chosen, slot]
            if self._hopeful(taken, more, need):
                self._extend(at + 1, taken, closed)
            closed |= {self._twins[slot]}

    def _hopeful(self, taken: Sequence[int], more: Sequence[int], need: int) -> bool:
        """Whether a set that begins so may still be better than the best."""
        best, chosen = self._key
        least = self._least(taken, more, need)
        if least == best:
            return tuple(taken) <= chosen[: len(taken)]
        return least < best

    def _least(self, taken: Sequence[int], more: Sequence[int], need: int) -> tuple[int, ...]:
        """A bound from below on all but the indices."""
        best = self._key[0]
        reach, narrow, most, apart, *_ = best
        if self._links is not None:
            reach, narrow = self._reach(self._links, taken)
            apart = -self._joined(self._links, taken, more, need)
        touched = {self._parts[slot][0] for slot in taken}
        numa = self._spanned(0, taken, more, need)
        if (reach, narrow, numa) == best[:3] and len(touched) == most:
            # Whatever touches another NUMA node is worse already.
            more = [slot for slot in more if self._parts[slot][0] in touched]
        switches, domains = (self._spanned(part, taken, more, need) for part in (1, 2))
        others = {self._parts[slot][0] for slot in more} - touched
        left = sum(self._numa_free[name] for name in touched)
        left += sum(sorted(self._numa_free[name] for name in others)[: numa - len(touched)])
        return (reach, narrow, numa, apart, switches, domains, 0, max(left - self.size, 0))

    def _spanned(self, part: int, taken: Sequence[int], more: Sequence[int], need: int) -> int:
        """The fewest of these parts that a set can span."""
        touched = {self._parts[slot][part] for slot in taken}
        room = Counter(self._parts[slot][part] for slot in more)
        need -= sum(count for name, count in room.items() if name in touched)
        spanned = len(touched)
        for count in sorted((room[name] for name in room if name not in touched), reverse=True):
            if need <= 0:
                break
            need -= count
            spanned += 1
        return spanned

    def _reach(self, links: Links, taken: Sequence[int]) -> tuple[int, int]:
        """How far NVLink may reach at best, and 0 less the links of the narrowest way."""
        narrow = min(
            (links[one][other] for at, one in enumerate(taken) for other in taken[:at]),
            default=MOST,
        )
        if narrow:
            return DIRECT, -narrow
        for width, names in self._reaching:
            where = {names.get(slot) for slot in taken}
            if len(where) == 1 and None not in where:
                return HOP, -width
        return PCIE, 0

    def _joined(self, links: Links, taken: Sequence[int], more: Sequence[int], need: int) -> int:
        """The most direct links that a set can have: half of those between slots yet to come."""
        total = sum(links[one][other] for at, one in enumerate(taken) for other in taken[:at])
        if not need:
            return total
        gains = sorted(
            (
                2 * sum(links[slot][one] for one in taken) + self._most[slot][need - 1]
                for slot in more
            ),
            reverse=True,
        )
        return total + sum(gains[:need]) // 2


def _sums(counts: Iterable[int]) -> tuple[int, ...]:
    """The sum of the largest 0, 1, 2 … of them."""
    sums = [0]
    for count in sorted(counts, reverse=True):
        sums.append(sums[-1] + count)
    return tuple(sums)


def _twins(
    parts: Sequence[tuple[str, str, str]], links: Links | None, slots: Sequence[int]
) -> dict[int, int]:
    """Of each slot the first that is wired like it: in the same parts, with the same links."""
    twins: dict[int, int] = {}
    firsts: list[int] = []
    for slot in slots:
        for first in firsts:
            if parts[slot] == parts[first] and (
                links is None
                or all(
                    links[slot][k] == links[first][k]
                    for k in range(len(links))
                    if k not in (slot, first)
                )
            ):
                twins[slot] = first
                break
        else:
            firsts.append(slot)
            twins[slot] = slot
    return twins


def _reaching(links: Links, slots: Sequence[int], size: int) -> list[tuple[int, dict[int, int]]]:
    """For each width, widest first: the slots that ways so wide join with enough others."""
    out = []
    widths = {links[one][other] for one in slots for other in slots if one != other} - {0}
    for width in sorted(widths, reverse=True):
        names: dict[int, int] = {}
        for first in slots:
            pending = [] if first in names else [first]
            while pending:
                slot = pending.pop()
                names[slot] = first
                pending += [k for k in slots if k not in names and links[slot][k] >= width]
        sizes = Counter(names.values())
        out.append((width, {slot: name for slot, name in names.items() if sizes[name] >= size}))
    return out
