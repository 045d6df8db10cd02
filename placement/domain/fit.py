"""Where does it fit, and which slots are the best?  Pure, over frozen node snapshots.

Documented order, the better first. On one host, of the slots that are open to the request:

1.  how far NVLink reaches: any two have a direct link, it leads over GPUs of the set, or not at all
2.  the links of the narrowest way between two of them (placement.domain.links), more first
3.  NUMA nodes spanned
4.  direct links among them in all, more first
5.  PCIe switches spanned
6.  NVLink domains spanned
7.  direct links between them and free slots that are left behind (break no pair that is whole)
8.  free slots left in the NUMA nodes that are touched (use what is already broken)
9.  the slots' own indices

Between hosts: the first six, the room that it costs usual requests (placement.domain.lookahead),
free slots left in the NUMA nodes that are touched, free slots left on the host, the slots'
indices, the host's number. Where GPUs see each other alike, or links were not read, 1, 2, 4 and 7
tell no set of a host from another. Where a size has more than 20 000 sets (from 17 GPUs on), the
best is searched for in bounded steps (placement.domain.searched).

A part of a cut slot (placement.domain.parts) has an order of its own; which slots are open to it
follows the same promises.

Open are the free slots with a NIC of their own where that is asked for, less those that share
wiring (or the host) with another tenant, where either side was promised that it would not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from operator import itemgetter
from uuid import UUID

from placement.domain.links import REACHES
from placement.domain.lookahead import Lookahead
from placement.domain.parts import CutState, Part, PartAsk, choice_of, cut_after
from placement.domain.searched import searched
from placement.domain.spans import Spans, indices, left_in_numa, listed, remainder, sets
from placement.domain.terms import FREE, Alone, Own, Terms
from placement.domain.wiring import beside

USUAL = Lookahead()
_SPANS = len(Spans._fields)
NO_WISH = -1
"""Which of a request's wishes about its place is met here, where it has none."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one tenant holds on a host, or (``afar``) anywhere in the domain that spans hosts."""

    tenant: UUID | None
    mask: int
    alone: int
    afar: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A node's free capacity at one generation.

    ``cuts`` are its cut slots, None where nobody asked for parts.

    ``layout`` is numa.switch.domain.nic per slot. ``held`` is None where nobody asked who holds
    what: such a place is closed to a request to which that matters.
    """

    num: int
    generation: int
    free_mask: int
    slot_count: int
    layout: str
    exclusive_mask: int = 0
    held: tuple[Held, ...] | None = None
    wish: int = NO_WISH
    cuts: tuple[CutState, ...] | None = None


@dataclass(frozen=True, slots=True)
class Want:
    """A size: ``slots`` 0 is the whole node; and for whom, where that matters.

    ``part`` asks for a part of one cut slot instead; for a share the tenant always matters.
    ``lasts_s`` is after how many seconds it ends by itself, None where nobody knows.
    """

    slots: int
    exclusive_nic: bool = False
    terms: Terms = FREE
    tenant: UUID | None = None
    part: PartAsk | None = None
    lasts_s: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the whole node is asked for."""
        return self.slots == 0


@dataclass(frozen=True, slots=True)
class Option:
    """A node and a slot set, or a part of one cut slot, with the score that orders it."""

    num: int
    generation: int
    mask: int
    score: tuple[int, ...]
    wish: int = NO_WISH
    part: Part | None = None

    def explained(self) -> dict[str, object]:
        """The score in words, for the decision trace."""
        if self.part is not None:
            return {
                "node_num": self.num,
                "slots": [self.part.slot],
                "gpu_part": str(self.part),
                "left_milli": self.score[0],
            }
        spans = Spans(*self.score[:_SPANS])
        names = ("room_lost_milli", "left_in_numa", "left_on_node")
        told = {
            "node_num": self.num,
            "slots": indices(self.mask),
            "numa_nodes": spans.numa,
            "switches": spans.switches,
            "nvlink_domains": spans.domains,
            **dict(zip(names, self.score[_SPANS:], strict=False)),
        }
        if spans.reach or spans.narrow:
            # Otherwise it is one slot, the whole node, or nobody read the links.
            told["nvlink_reach"] = REACHES[spans.reach]
            told["nvlink_bottleneck"] = -spans.narrow
            told["nvlink_links"] = -spans.apart
        return told

    @property
    def left_on_node(self) -> int:
        """Free slots that a slot set leaves on its node."""
        return self.score[_SPANS + 2]


def open_mask(place: Place, want: Want) -> int:
    """The slots of a place that this request may have."""
    free = place.free_mask
    if want.part is not None:
        free = sum(1 << cut.slot for cut in place.cuts or () if cut.open)
    if want.exclusive_nic:
        free &= place.exclusive_mask
    terms = want.terms
    if place.held is None:
        return 0 if terms.about_tenants else free
    if terms.own != Own.ANY:
        mine = any(held.tenant == want.tenant and not held.afar for held in place.held)
        if mine != (terms.own == Own.WITH):
            return 0
    for held in place.held:
        if held.tenant is not None and held.tenant == want.tenant:
            continue
        if held.tenant in terms.never and not held.afar:
            return 0
        alone = max(held.alone, terms.alone)
        if alone == Alone.SHARES:
            continue
        if alone == Alone.NODE or held.afar:
            return 0
        free &= ~beside(place.layout, place.slot_count, held.mask)
    return free


@lru_cache(maxsize=65536)
def _best_mask(layout: str, free: int, usable: int, size: int) -> tuple[Spans, int] | None:
    """The best slot set of one node with this layout and these free slots, of the usable ones."""
    best: tuple[tuple[int, ...], Spans, int] | None = None
    for spread, mask in sets(layout, size):
        if mask & ~usable:
            continue
        if best is not None and spread > best[1]:
            break
        key = remainder(layout, free, mask)
        if best is None or key < best[0]:
            best = (key, spread, mask)
    return None if best is None else (best[1], best[2])


@lru_cache(maxsize=65536)
def _best(
    layout: str, free: int, count: int, usable: int, size: int, ahead: Lookahead
) -> tuple[tuple[int, ...], int] | None:
    """Score (without the node's number) and slot set on any node that looks like this."""
    full = (1 << count) - 1
    if size == 0:
        return ((*(0,) * _SPANS, 0, 0, 0), full) if count and usable == full else None
    if not 0 < size <= usable.bit_count():
        return None
    look = _best_mask if listed(count, size) else searched
    found = look(layout, free, usable, size)
    if found is None:
        return None
    spread, mask = found
    lost = ahead.growth(layout, count, free, mask)
    left = free.bit_count() - size
    return (*spread, lost, left_in_numa(layout, free, mask), left, *indices(mask)), mask


Scored = tuple[tuple[int, ...], int, Part | None]


def _scored(place: Place, want: Want, ahead: Lookahead) -> Scored | None:
    """The score that orders the place, ending with its number, the slot set, and the part."""
    usable = open_mask(place, want)
    if want.part is not None:
        return _part_scored(place, want, want.part, usable)
    free, count = place.free_mask, place.slot_count
    best = _best(place.layout, free, count, usable, want.slots, ahead)
    return None if best is None else ((*best[0], place.num), best[1], None)


def _part_scored(place: Place, want: Want, ask: PartAsk, usable: int) -> Scored | None:
    """The best part of one node's cut slots, of the usable ones."""
    found = [
        choice
        for cut in place.cuts or ()
        if usable >> cut.slot & 1 and (choice := choice_of(cut, ask, want.tenant))
    ]
    if not found:
        return None
    score, part = min(found)
    return (*score, place.num), 0, part


def best_option(place: Place, want: Want, ahead: Lookahead = USUAL) -> Option | None:
    """The best slot set on one node, or None when the size does not fit there."""
    scored = _scored(place, want, ahead)
    if scored is None:
        return None
    score, mask, part = scored
    return Option(place.num, place.generation, mask, score, place.wish, part)


def rank(
    places: Iterable[Place], want: Want, *, limit: int, ahead: Lookahead = USUAL
) -> list[Option]:
    """The options in order of preference, at most ``limit``."""
    scored = [(*found, place) for place in places if (found := _scored(place, want, ahead))]
    first = sorted(scored, key=itemgetter(0))[:limit]
    return [
        Option(place.num, place.generation, mask, score, place.wish, part)
        for score, mask, part, place in first
    ]


_Entry = tuple[tuple[int, ...], int, int, Part | None]


Gone = dict[int, list[tuple[Option, Want]]]
"""What is taken of each node, by its number, in order."""


def asked_of_host(want: Want) -> Hashable:
    """What a probe asks of a host that its place does not tell: for what it is fit, its versions,
    how long it is open. A host that was offered for one is no answer to what asks otherwise."""
    terms = want.terms
    versions = (terms.driver_min, terms.driver_below, terms.runtime_min)
    return want.whole, versions, want.lasts_s


class Board:
    """The places of a batch while it is planned: each choice sees what those before it took.

    ``gone``: what is taken, shared by the boards of a batch whose places may be the same nodes.
    """

    def __init__(self, ahead: Lookahead = USUAL, gone: Gone | None = None) -> None:
        self._ahead = ahead
        self._places: dict[int, Place] = {}
        self._gone: Gone = {} if gone is None else gone
        self._heaps: dict[Want, list[_Entry]] = {}
        self._fit: dict[Hashable, set[int]] = {}
        self._exhausted: set[Want] = set()
        self._closed: set[int] = set()

    def close(self, num: int) -> None:
        """Offer this node to nobody any more."""
        self._closed.add(num)

    def knows(self, want: Want) -> bool:
        """Whether the candidates for this size were given already."""
        return want in self._heaps

    def offer(self, want: Want, places: Iterable[Place]) -> None:
        """Give the candidates for a size; a place that is known keeps what was taken from it."""
        heap: list[_Entry] = []
        self._heaps[want] = heap
        fit = self._fit.setdefault(asked_of_host(want), set())
        for place in places:
            fit.add(place.num)
            self._push(heap, self._kept(place), want)
        # What was taken from may fit this size best now, though its snapshot did not offer it.
        offered = {entry[0][-1] for entry in heap}
        for num in fit - offered:
            self._push(heap, self._places[num], want)

    def _kept(self, place: Place) -> Place:
        """The place as the batch knows it: who holds what, and its parts, are learnt when asked."""
        gone = self._gone.get(place.num, [])
        kept = self._places.get(place.num)
        if kept is None:
            for option, want in gone:
                place = taken(place, option, want)
            self._places[place.num] = place
            return place
        holders = kept.held is None and place.held is not None
        cuts = kept.cuts is None and place.cuts is not None
        if not holders and not cuts:
            return kept
        if kept.generation - len(gone) != place.generation:
            return kept
        for option, want in gone:
            place = taken(place, option, want)
        place = replace(
            place,
            held=kept.held if place.held is None else place.held,
            cuts=kept.cuts if place.cuts is None else place.cuts,
        )
        self._places[place.num] = place
        return place

    def _push(self, heap: list[_Entry], place: Place, want: Want) -> None:
        scored = _scored(place, want, self._ahead)
        if scored is not None:
            score, mask, part = scored
            heappush(heap, (score, mask, place.generation, part))

    def exhaust(self, want: Want) -> None:
        """There are no more candidates for this size: it is not to be looked for again."""
        self._exhausted.add(want)

    def exhausted(self, want: Want) -> bool:
        """Whether all candidates for this size were given."""
        return want in self._exhausted

    def best(self, want: Want) -> Option | None:
        """The best option for this size now."""
        heap = self._heaps[want]
        while heap:
            score, mask, generation, part = heap[0]
            open_ = score[-1] not in self._closed
            if open_ and self._places[score[-1]].generation == generation:
                wish = self._places[score[-1]].wish
                return Option(score[-1], generation, mask, score, wish, part)
            heappop(heap)
        return None

    def take(self, option: Option, want: Want) -> None:
        """Take an option's slots: its node is offered anew to every size for which it is fit."""
        self._gone.setdefault(option.num, []).append((option, want))
        self.follow(option, want)

    def follow(self, option: Option, want: Want) -> None:
        """See what was taken here, or on another board with which it shares what is gone."""
        place = self._places.get(option.num)
        if place is None:
            return
        self._places[option.num] = place = taken(place, option, want)
        for size, heap in self._heaps.items():
            if option.num in self._fit[asked_of_host(size)]:
                self._push(heap, place, size)


def taken(place: Place, option: Option, want: Want) -> Place:
    """The place after an option was taken from it: one generation later."""
    held, cuts, part = place.held, place.cuts, option.part
    mask = option.mask if part is None else 1 << part.slot
    if held is not None:
        held = (*held, Held(want.tenant, mask, want.terms.alone))
    if part is not None and cuts is not None:
        cuts = tuple(
            cut_after(cut, part, want.tenant) if cut.slot == part.slot else cut for cut in cuts
        )
    return replace(
        place,
        generation=place.generation + 1,
        free_mask=place.free_mask & ~option.mask,
        held=held,
        cuts=cuts,
    )
