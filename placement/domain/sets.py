"""Where does a set of members go together, all or none?  Pure, exact, over frozen hosts.

Members are of one SKU and may differ in size. A required level (an NVLink domain across hosts,
rack, block or zone) keeps them within one part of the fleet; a preferred one is kept to if that
is possible within the required one. Windows are tried in the order given; in each, a slot counts
that is free, or comes back before it begins, and that nothing holds while it lasts.

A plan is found if and only if there is one, for members of one size always, for mixed sizes
within ``STEPS`` steps of search; beyond that the answer says that it is not decided.
Among the parts of the fleet that have room, the one with the least room left is taken; inside
it each member, the largest first, gets the best host by the order of ``fit`` that still leaves
room for the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from placement.domain.fit import USUAL, Option, Place, Want, open_mask, rank, taken
from placement.domain.lookahead import Lookahead
from placement.domain.terms import Own

LEVELS = ("fabric", "rack", "block", "zone")
STEPS = 20_000
Path = tuple[str, str, str, str]
"""Where a host stands: zone, block, rack, NVLink domain across hosts; empty where unknown."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, in seconds of any clock; without an end it lasts."""

    start: float
    end: float | None = None

    def meets(self, other: Window) -> bool:
        """Whether they overlap; the end does not belong to a window."""
        before = self.end is not None and self.end <= other.start
        after = other.end is not None and other.end <= self.start
        return not before and not after


@dataclass(frozen=True, slots=True)
class Hold:
    """Slots that are not to be had for a while: maintenance, a reservation."""

    mask: int
    window: Window


@dataclass(frozen=True, slots=True)
class Site:
    """A host with where it stands; ``returns`` are (mask, from when) of slots that come free."""

    place: Place
    zone: str = ""
    block: str = ""
    rack: str = ""
    fabric: str = ""
    holds: tuple[Hold, ...] = ()
    returns: tuple[tuple[int, float], ...] = ()

    def part(self, level: str) -> tuple[str, ...] | None:
        """The part of the fleet that it belongs to; None where the level is not known of it."""
        if not getattr(self, level):
            return None
        if level == "fabric":
            return (self.fabric,)
        path = {"zone": 1, "block": 2, "rack": 3}[level]
        return (self.zone, self.block, self.rack)[:path]

    def during(self, window: Window | None) -> Place:
        """The place as it is throughout a window; None means now."""
        if window is None:
            return self.place
        free = self.place.free_mask
        for mask, at in self.returns:
            if at <= window.start:
                free |= mask
        for hold in self.holds:
            if hold.window.meets(window):
                free &= ~hold.mask
        return replace(self.place, free_mask=free)


@dataclass(frozen=True, slots=True)
class Closeness:
    """How a request for several allocations wants them; the default wants nothing.

    Of one that adds to what stands: ``within`` is the part of the required level in which that
    stands, ``toward`` of the preferred one (zone, block, rack, fabric; empty names bind nothing),
    and ``avoid`` are the hosts that a new member may not share with it.
    """

    required: str = ""
    preferred: str = ""
    apart: bool = False
    within: Path | None = None
    toward: Path | None = None
    avoid: frozenset[int] = frozenset()

    @property
    def matters(self) -> bool:
        """Whether anything is wanted."""
        return bool(self.required or self.preferred or self.apart)

    def as_json(self) -> dict[str, object]:
        """What is wanted, for the record."""
        parts = {"together": self.required, "close": self.preferred, "apart": self.apart}
        return {name: value for name, value in parts.items() if value}


ANYHOW = Closeness()


def beside(close: Closeness, standing: Sequence[tuple[int, Path]]) -> Closeness:
    """The same for members that join others: (host, its path) of each that stands."""
    return replace(
        close,
        within=_usual(close.required, standing),
        toward=_usual(close.preferred, standing),
        avoid=frozenset(num for num, _ in standing) if close.apart else frozenset(),
    )


def _usual(level: str, standing: Sequence[tuple[int, Path]]) -> Path | None:
    """The part of a level in which most stand, if it is known of any."""
    if not level:
        return None
    parts = Counter(cut for _, path in standing if (cut := cut_at(path, level)) is not None)
    return max(parts, key=lambda part: (parts[part], part)) if parts else None


def cut_at(path: Path, level: str) -> Path | None:
    """A host's path down to a level; None where the level is not known of it."""
    zone, block, rack, fabric = path
    if level == "fabric":
        return ("", "", "", fabric) if fabric else None
    if not {"zone": zone, "block": block, "rack": rack}[level]:
        return None
    depth = {"zone": 1, "block": 2, "rack": 3}[level]
    named = (zone, block, rack)[:depth]
    return (*named, *("",) * (4 - depth))  # type: ignore[return-value]  # four names again


def closest(paths: Iterable[Path]) -> tuple[str, Path | None]:
    """The closest level within which all these hosts are, and that part; an empty level: none."""
    known = tuple(paths)
    for level in LEVELS:
        cuts = {cut_at(path, level) for path in known}
        if len(cuts) == 1 and None not in cuts:
            return level, cuts.pop()
    return "", None


@dataclass(frozen=True, slots=True)
class SetAsk:
    """A set: the sizes of its members, what all of them want, and how close they must be.

    ``apart``: no two members on one host. ``windows`` empty: now.
    """

    sizes: tuple[int, ...]
    want: Want
    required: str = ""
    preferred: str = ""
    apart: bool = False
    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 0:
            raise ValueError("a set has members of one slot or more, or of a whole host (0)")
        for level in (self.required, self.preferred):
            if level and level not in LEVELS:
                raise ValueError(f"a level is one of {', '.join(LEVELS)}")
        if self.want.terms.about_tenants and self.want.tenant is None:
            raise ValueError("where it matters who holds what, a set says whose it is")


@dataclass(frozen=True, slots=True)
class SetPlan:
    """A place for each member, in the order of the sizes; where, when, and how close."""

    options: tuple[Option, ...]
    window: Window | None
    part: tuple[str, ...]
    kept_preference: bool


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Why there is none: the most members that fit in one part, of how many; whether decided.

    ``parts``: how many parts of the level have free slots for so many members. ``anywhere``: for
    how many members there are free slots when no level is asked for.
    """

    fitting: int
    members: int
    decided: bool = True
    parts: tuple[tuple[int, int], ...] = ()
    anywhere: int = 0


@dataclass(slots=True)
class _Search:
    """Counts steps; ``decided`` is false once they ran out."""

    left: int = STEPS
    decided: bool = True


class _Room:
    """How many slots each host of a part offers the set, and whether members still go in."""

    def __init__(self, places: Sequence[Place], ask: SetAsk, search: _Search) -> None:
        self._search = search
        self._single = ask.apart or ask.want.terms.own == Own.APART
        self.open = {place.num: open_mask(place, ask.want).bit_count() for place in places}
        self.whole = {
            place.num
            for place in places
            if place.slot_count and open_mask(place, ask.want) == (1 << place.slot_count) - 1
        }

    def without(self, num: int, size: int) -> _Room:
        """The room after a member took its place on a host."""
        out = object.__new__(_Room)
        out._search, out._single = self._search, self._single
        out.open, out.whole = dict(self.open), self.whole - {num}
        out.open[num] = 0 if self._single or not size else self.open[num] - size
        return out

    def most(self, sizes: Sequence[int]) -> int:
        """How many of equal members fit; of unequal ones, all or an estimate from below."""
        if len(set(sizes)) <= 1:
            return min(len(sizes), self.members(sizes[0])) if sizes else 0
        return len(sizes) if self.holds(sizes) else self._greedy(sizes)

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether all these members fit together."""
        if not sizes:
            return True
        if len(set(sizes)) == 1:
            return self.members(sizes[0]) >= len(sizes)
        if self._greedy(sizes) == len(sizes):
            return True
        rest = sorted((size for size in sizes if size), reverse=True)
        return self._search_all(rest, sizes.count(0))

    def members(self, size: int) -> int:
        """How many members of one size fit."""
        if not size:
            return len(self.whole)
        return sum(min(o // size, 1) if self._single else o // size for o in self.open.values())

    def _greedy(self, sizes: Sequence[int]) -> int:
        room, count = self, 0
        for size in sorted(sizes, key=lambda s: (s > 0, -s)):
            nums = room.whole if not size else {n for n, o in room.open.items() if o >= size}
            if nums:
                room = room.without(min(nums, key=lambda n: (room.open[n], n)), size)
                count += 1
        return count

    def _search_all(self, rest: Sequence[int], wholes: int) -> bool:
        """Every way to give up hosts to whole members, then exact bin packing of the others."""
        # Whole hosts of equal size are alike, so only how many of each kind are given matters.
        kinds = Counter(self.open[num] for num in self.whole)
        offers = Counter(self.open.values())
        return self._give(sorted(kinds.items()), wholes, offers, tuple(rest))

    def _give(
        self,
        kinds: Sequence[tuple[int, int]],
        wholes: int,
        offers: Counter[int],
        rest: tuple[int, ...],
    ) -> bool:
        if not wholes:
            return self._pack(tuple(sorted(offers.elements())), rest, set())
        if not kinds:
            return False
        (kind, count), more = kinds[0], kinds[1:]
        return any(
            self._give(more, wholes - given, offers - Counter({kind: given}), rest)
            for given in range(min(count, wholes), -1, -1)
        )

    def _pack(
        self,
        offers: tuple[int, ...],
        rest: tuple[int, ...],
        failed: set[tuple[tuple[int, ...], int]],
    ) -> bool:
        """Depth first, largest member first; equal offers are tried once."""
        if not rest:
            return True
        key = (offers, len(rest))
        if key in failed:
            return False
        self._search.left -= 1
        if self._search.left < 0:
            self._search.decided = False
            return False
        size = rest[0]
        for offer in sorted({o for o in offers if o >= size}):
            left = list(offers)
            left.remove(offer)
            if not self._single:
                left.append(offer - size)
            if self._pack(tuple(sorted(left)), rest[1:], failed):
                return True
        failed.add(key)
        return False


def place_set(sites: Iterable[Site], ask: SetAsk, *, ahead: Lookahead = USUAL) -> SetPlan | NoPlan:
    """A place for every member, or why there is none."""
    fleet = tuple(sites)
    search, fitting = _Search(), 0
    for window in ask.windows or (None,):
        parts = _parts(fleet, ask.required)
        roomy = []
        for name, members in parts.items():
            places = [site.during(window) for site in members]
            room = _Room(places, ask, search)
            if room.holds(ask.sizes):
                roomy.append((sum(room.open.values()), name))
            else:
                fitting = max(fitting, room.most(ask.sizes))
        for _, name in sorted(roomy):
            inside = _preferred(parts[name], ask, window, search)
            options = _chosen(
                [site.during(window) for site in inside or parts[name]], ask, ahead, search
            )
            if options is not None:
                return SetPlan(options, window, name, inside is not None or not ask.preferred)
    return NoPlan(fitting, len(ask.sizes), search.decided)


def members_by_part(sites: Iterable[Site], ask: SetAsk, *, level: str) -> list[tuple[int, int]]:
    """For how many members of the first one's size the parts of a level have room: (members,
    parts), most first. An empty level is all of the fleet; parts without room are left out."""
    window = ask.windows[0] if ask.windows else None
    rooms = Counter(
        _Room([site.during(window) for site in inside], ask, _Search()).members(ask.sizes[0])
        for inside in _parts(tuple(sites), level).values()
    )
    return sorted(((each, parts) for each, parts in rooms.items() if each), reverse=True)


def _parts(fleet: Sequence[Site], level: str) -> dict[tuple[str, ...], list[Site]]:
    if not level:
        return {(): list(fleet)}
    parts: dict[tuple[str, ...], list[Site]] = {}
    for site in fleet:
        name = site.part(level)
        if name is not None:
            parts.setdefault(name, []).append(site)
    return parts


def _preferred(
    members: Sequence[Site], ask: SetAsk, window: Window | None, search: _Search
) -> list[Site] | None:
    """The part of the preferred level that holds all with the least room, if there is one."""
    if not ask.preferred:
        return None
    roomy = []
    for name, inside in _parts(members, ask.preferred).items():
        room = _Room([site.during(window) for site in inside], ask, search)
        if room.holds(ask.sizes):
            roomy.append((sum(room.open.values()), name, inside))
    return min(roomy, key=lambda entry: entry[:2])[2] if roomy else None


def _chosen(
    places: Sequence[Place], ask: SetAsk, ahead: Lookahead, search: _Search
) -> tuple[Option, ...] | None:
    """The members' options, each the best that leaves room for the rest."""
    now = {place.num: place for place in places}
    closed: set[int] = set()
    single = ask.apart or ask.want.terms.own == Own.APART
    room = _Room(places, ask, search)
    order = sorted(range(len(ask.sizes)), key=lambda k: (ask.sizes[k] > 0, -ask.sizes[k]))
    found: dict[int, Option] = {}
    for at, k in enumerate(order):
        size, rest = ask.sizes[k], [ask.sizes[j] for j in order[at + 1 :]]
        want = replace(ask.want, slots=size)
        open_now = [place for num, place in now.items() if num not in closed]
        for option in rank(open_now, want, limit=len(open_now), ahead=ahead):
            after = room.without(option.num, size)
            if after.holds(rest):
                break
        else:
            return None
        room, found[k] = after, option
        now[option.num] = taken(now[option.num], option, want)
        if single:
            closed.add(option.num)
    return tuple(found[k] for k in range(len(ask.sizes)))
