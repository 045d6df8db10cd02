"""Which moves make room for one large request?  Pure, exact within its steps, cheapest first.

A plan is a sequence of moves: each takes something that may be moved from its host to another that
holds it at that moment, so that the new place is had before the old one is left. Nothing moves
twice. Each new place is the best of its host, as placement would choose it. A plan is found if and
only if one exists within the budget, unless the steps of search run out, which is told. Of all
plans it has the fewest moves, and of those the least lost work.

The search deepens move by move. A host that lacks n slots needs at least as many moves as its
largest movable pieces take to cover n; where a host promises wiring or itself to somebody, the
bound is one move. Hosts that look alike are tried once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placement.domain.fit import Held, Place, Want, best_option, open_mask

STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that may be moved: where it is, what it needs, and the work that a move loses.

    ``lost`` is in thousandths of a GPU-hour. ``allowed``: the only hosts it may go to; None: any.
    """

    key: str
    num: int
    mask: int
    want: Want
    lost: int = 0
    allowed: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One piece from a host to another; masks are of slots."""

    key: str
    source: int
    leaves: int
    target: int
    takes: int
    lost: int


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many moves, and so much lost work in thousandths of a GPU-hour."""

    moves: int
    lost: int


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The moves in order, and the host on which there is room afterwards."""

    host: int
    moves: tuple[Move, ...]

    @property
    def lost(self) -> int:
        """Work that is lost, in thousandths of a GPU-hour."""
        return sum(move.lost for move in self.moves)

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class NoMoves:
    """There is none within the budget; or, when not ``decided``, none was found in time.

    ``least`` is how many moves it would take at least, None where no host could ever do.
    """

    decided: bool
    least: int | None


@dataclass(slots=True)
class _Search:
    left: int
    budget: Budget
    target: Want
    clean: Mapping[int, int]
    hosts: frozenset[int]
    best: tuple[int, MovePlan] | None = None
    seen: dict[frozenset[tuple[str, int]], int] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        return self.left >= 0


def fits_on(place: Place, want: Want) -> bool:
    """Whether there is room for it on one host."""
    return best_option(place, want) is not None


def plan_moves(
    places: Iterable[Place],
    pieces: Sequence[Piece],
    target: Want,
    budget: Budget,
    *,
    clean: Mapping[int, int] | None = None,
    hosts: frozenset[int] | None = None,
    steps: int = STEPS,
) -> MovePlan | NoMoves:
    """The fewest moves after which some host has room for ``target``.

    ``clean``: the slots of each host that are to be had once nobody holds them; without it all.
    ``hosts``: the only ones on which room is wanted; None: any.
    """
    fleet = {place.num: place for place in places}
    known = clean or {num: (1 << place.slot_count) - 1 for num, place in fleet.items()}
    wanted = frozenset(fleet) if hosts is None else hosts
    search = _Search(steps, budget, target, known, wanted)
    mine = tuple(piece for piece in pieces if piece.num in fleet)
    needs = [need for place in fleet.values() if (need := _need(place, mine, search)) is not None]
    least = min(needs, default=None)
    if least is None:
        return NoMoves(True, None)
    for depth in range(least, min(budget.moves, len(mine)) + 1):
        search.seen.clear()
        _deepen(fleet, mine, (), depth, search)
        if search.best is not None:
            return search.best[1]
        if not search.decided:
            return NoMoves(False, least)
    return NoMoves(search.decided, least)


def _need(place: Place, pieces: Sequence[Piece], search: _Search) -> int | None:
    """A bound from below on the moves from this host that make room there; None: it never has."""
    if place.num not in search.hosts:
        return None
    if fits_on(place, search.target):
        return 0
    here = sorted(
        (piece.mask.bit_count() for piece in pieces if piece.num == place.num), reverse=True
    )
    if not here:
        return None
    promised = search.target.terms.about_tenants or any(h.alone for h in place.held or ())
    if promised or search.target.exclusive_nic:
        return 1
    size = search.target.slots or place.slot_count
    lacking = size - open_mask(place, search.target).bit_count()
    for count, slots in enumerate(here, 1):
        lacking -= slots
        if lacking <= 0:
            return count
    return None


def _deepen(
    fleet: dict[int, Place],
    pieces: tuple[Piece, ...],
    done: tuple[Move, ...],
    left: int,
    search: _Search,
) -> None:
    """Try every way to go on with ``left`` moves; the best plan found is kept."""
    search.left -= 1
    if search.left < 0:
        return
    lost = sum(move.lost for move in done)
    if lost > search.budget.lost or (search.best is not None and lost >= search.best[0]):
        return
    wanted = sorted(search.hosts & fleet.keys())
    host = next((num for num in wanted if fits_on(fleet[num], search.target)), None)
    if host is not None:
        search.best = (lost, MovePlan(host, done))
        return
    if not left:
        return
    needs = {num: _need(place, pieces, search) for num, place in fleet.items()}
    least = min((need for need in needs.values() if need is not None), default=None)
    if least is None or least > left:
        return
    for piece in _distinct(fleet, pieces, search.hosts):
        # With no move to spare every one of them has to be from a host that needs no more.
        if least == left and needs[piece.num] != least:
            continue
        rest = tuple(other for other in pieces if other.key != piece.key)
        for place in _distinct_targets(fleet, piece, rest, search.hosts):
            option = best_option(place, _of(piece))
            if option is None:
                continue
            after = (
                *done,
                Move(piece.key, piece.num, piece.mask, place.num, option.mask, piece.lost),
            )
            mark = frozenset((move.key, move.target) for move in after)
            known = search.seen.get(mark)
            if known is not None and known <= lost + piece.lost:
                continue
            search.seen[mark] = lost + piece.lost
            _deepen(
                _moved(fleet, piece, option.mask, place.num, search.clean),
                rest,
                after,
                left - 1,
                search,
            )


def _of(piece: Piece) -> Want:
    return replace(piece.want, slots=piece.mask.bit_count())


def _look(place: Place, pieces: Sequence[Piece]) -> tuple[object, ...]:
    """All that tells a host from another, but its number."""
    here = sorted((p.mask, p.want.terms.alone, p.lost) for p in pieces if p.num == place.num)
    held = sorted((str(h.tenant), h.mask, h.alone, h.afar) for h in place.held or ())
    return (
        place.slot_count,
        place.free_mask,
        place.layout,
        place.exclusive_mask,
        tuple(held),
        tuple(here),
    )


def _distinct(
    fleet: Mapping[int, Place], pieces: Sequence[Piece], hosts: frozenset[int]
) -> list[Piece]:
    """The pieces, of those alike on hosts alike one each; those that lose least first."""
    found: dict[tuple[object, ...], Piece] = {}
    for piece in pieces:
        look = (
            piece.num in hosts,
            _look(fleet[piece.num], pieces),
            (piece.mask, piece.want, piece.lost, piece.allowed),
        )
        # Where a piece may go leaves its own host out, so twins on one host are alike as well.
        found.setdefault(look, piece)
    return sorted(
        found.values(), key=lambda piece: (piece.lost, -piece.mask.bit_count(), piece.key)
    )


def _distinct_targets(
    fleet: Mapping[int, Place],
    piece: Piece,
    pieces: Sequence[Piece],
    hosts: frozenset[int],
) -> list[Place]:
    """The hosts to which it may go, of those alike the lowest number; the fullest first."""
    found: dict[tuple[object, ...], Place] = {}
    bound = piece.allowed is not None or any(p.allowed is not None for p in pieces)
    for num in sorted(fleet):
        place = fleet[num]
        if num == piece.num or (piece.allowed is not None and num not in piece.allowed):
            continue
        # Where somebody is bound to hosts by name, no two of them are alike.
        look = (num,) if bound else (num in hosts, *_look(place, pieces))
        found.setdefault(look, place)
    return sorted(found.values(), key=lambda place: (place.free_mask.bit_count(), place.num))


def _moved(
    fleet: dict[int, Place], piece: Piece, mask: int, target: int, clean: Mapping[int, int]
) -> dict[int, Place]:
    """The fleet after a move."""
    source, place = fleet[piece.num], fleet[target]
    mine = Held(piece.want.tenant, mask, int(piece.want.terms.alone))
    return {
        **fleet,
        piece.num: replace(
            source,
            free_mask=source.free_mask | (piece.mask & clean[piece.num]),
            held=_without(source.held, piece),
        ),
        target: replace(
            place,
            free_mask=place.free_mask & ~mask,
            held=None if place.held is None else (*place.held, mine),
        ),
    }


def _without(held: tuple[Held, ...] | None, piece: Piece) -> tuple[Held, ...] | None:
    if held is None:
        return None
    gone = Held(piece.want.tenant, piece.mask, int(piece.want.terms.alone))
    kept = list(held)
    if gone in kept:
        kept.remove(gone)
    return tuple(kept)
