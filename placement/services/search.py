"""In which order are nodes looked at until one has room?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placement.domain.fit import NO_WISH, Option, Place, Want, rank
from placement.domain.lookahead import Lookahead
from placement.domain.parts import PartAsk
from placement.snapshots import (
    Target,
    candidates,
    locked,
    nearest,
    part_candidates,
    part_locked,
    part_nearest,
    size_of,
)

GROWTH = 4


def pages(where: Target, want: Want, ahead: Lookahead, *, at_once: int) -> Iterator[list[Place]]:
    """Nodes that hold the size: where the request would rather be first, then wherever it may.

    Each place says which wish it meets.
    """
    plain = replace(where, prefer=())
    for level, wish in enumerate(where.prefer):
        close = replace(plain, near=wish.near)
        for page in _pages(close, want, ahead, at_once=at_once):
            yield [replace(place, wish=level) for place in page]
    none_met = len(where.prefer) if where.prefer else NO_WISH
    for page in _pages(plain, want, ahead, at_once=at_once):
        yield [replace(place, wish=none_met) for place in page] if where.prefer else page


def _pages(where: Target, want: Want, ahead: Lookahead, *, at_once: int) -> Iterator[list[Place]]:
    """Nodes that hold the size, those first that cost usual requests least room.

    The first page is all that is needed unless it matters who holds what: then more follow,
    larger each time, the emptiest nodes first, until there are no more.
    """
    if want.part is not None:
        yield from _part_pages(where, want, want.part, at_once=at_once)
        return
    levels = ahead.levels(where.family_slots, size_of(where, want))
    page = candidates(where, want, levels=levels, limit=at_once)
    yield page
    if len(page) < at_once or not (want.terms.about_tenants or any(p.held for p in page)):
        return
    emptiest = sorted(levels, reverse=True)
    skip, limit = 0, at_once
    while len(page) == limit or not skip:
        limit *= GROWTH
        page = candidates(where, want, levels=emptiest, limit=limit, skip=skip)
        skip += limit
        yield page


def _part_pages(where: Target, want: Want, ask: PartAsk, *, at_once: int) -> Iterator[list[Place]]:
    """Nodes with room for a part; more pages where a promise may rule out all of the first."""
    skip, limit, more = 0, at_once, True
    while more:
        page, more = part_candidates(where, want, ask, limit=limit, skip=skip)
        skip, limit = skip + limit, limit * GROWTH
        yield page
        if not (want.terms.about_tenants or any(place.held for place in page)):
            return


def one_locked(where: Target, want: Want, num: int) -> list[Place]:
    """One node as it is once its lock is had; empty if it does not fit any more."""
    if want.part is not None:
        return part_locked(where, want, want.part, num)
    return locked(where, want, num)


def nearest_to(where: Target, want: Want) -> int | None:
    """The node that is nearest to holding this one day."""
    if want.part is not None:
        return part_nearest(where, want, want.part)
    return nearest(where, want)


def found(where: Target, want: Want, ahead: Lookahead, *, at_once: int, limit: int) -> list[Option]:
    """The best options of the first page that has any."""
    for page in pages(where, want, ahead, at_once=at_once):
        options = rank(page, want, limit=limit, ahead=ahead)
        if options:
            return options
    return []
