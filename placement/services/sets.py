"""Which nodes does a request for several allocations get when they have to be close, or apart?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from admission.domain.locality import Wish
from placement.domain.fit import NO_WISH, Option, Place, Want
from placement.domain.sets import (
    LEVELS,
    NoPlan,
    Path,
    SetAsk,
    SetPlan,
    Window,
    closest,
    members_by_part,
    place_set,
)
from placement.services.bundle import Item
from placement.snapshots import Target, lookahead_of
from placement.snapshots.sites import MOST, PARTS, Part, members_free, parts_with_room, sites


def set_plan(
    items: Sequence[Item], left: Callable[[Place], Place | None], *, why: bool = True
) -> list[tuple[Item, list[Option]]] | NoPlan:
    """An option for each item, as close as the first one asks; or how many would fit.

    ``left`` gives a place without what others come first for, or None where it is kept. Who asks
    on behalf of somebody else need not know ``why`` not: then the fleet is not counted for it.
    """
    item, fitting = items[0], 0
    where = item.where
    if where is None:
        return NoPlan(0, len(items))
    want = replace(item.want, tenant=item.authority.tenant_id)
    ask = _ask(want, item, len(items))
    tries = _tries(where, item, len(items))
    looked = False
    for one in tries:
        if one.emptiest and looked:
            continue
        found = sites(one.where, want, one.part, avoid=item.closeness.avoid, emptiest=one.emptiest)
        looked = one.all_of_it and len(found) < MOST
        open_sites = [
            replace(site, place=replace(place, wish=one.wish))
            for site in found
            if (place := left(site.place)) is not None
        ]
        plan = place_set(open_sites, ask, ahead=lookahead_of(where))
        if isinstance(plan, SetPlan):
            paths = {s.place.num: (s.zone, s.block, s.rack, s.fabric) for s in open_sites}
            others = (t.part for t in tries if not t.emptiest and t.part != one.part)
            return _in_turn(items, plan, paths, next(others, None))
        fitting = max(fitting, plan.fitting)
    return _no_plan(where, item, ask, fitting) if why else NoPlan(fitting, len(items))


def _ask(want: Want, item: Item, members: int) -> SetAsk:
    """What is asked of each part that is tried."""
    close = item.closeness
    return SetAsk(
        (want.slots,) * members,
        want,
        required=close.required,
        preferred=close.preferred,
        apart=close.apart,
        windows=(Window(0, want.lasts_s),) if want.lasts_s else (),
    )


@dataclass(frozen=True, slots=True)
class _Try:
    """A part to look at, and the number of the wish that it is near.

    ``all_of_it``: it is all where the set may be. ``emptiest``: from its emptiest hosts on.
    """

    where: Target
    part: Part
    wish: int
    all_of_it: bool = False
    emptiest: bool = False


def _tries(where: Target, item: Item, members: int) -> Iterator[_Try]:
    """What is tried in turn: near preferred data first, then wherever it may run."""
    plain = replace(where, prefer=())
    for level, wish in enumerate(where.prefer):
        yield from _parts(replace(plain, near=wish.near), item, members, level)
    yield from _parts(plain, item, members, len(where.prefer) if where.prefer else NO_WISH)


def _parts(where: Target, item: Item, members: int, wish: int) -> Iterator[_Try]:
    """The parts to try, the tightest first: those of a preferred level before the required.

    Where others of the workload stand already, their part comes first, or is the only one. Parts
    with free slots enough may be closed by promises to others: where more than a page of them may
    be, all hosts are looked at together at last, the emptiest of them first.
    """
    close = item.closeness
    inside = Part(*close.within) if close.within else Part()
    if close.toward:
        yield _Try(where, Part(*close.toward), wish)
    levels = [close.preferred, close.required]
    if close.required and close.preferred not in LEVELS[: LEVELS.index(close.required)]:
        levels = [close.required]
    more = False
    for level in filter(None, levels):
        if close.within and level == close.required:
            continue
        found = parts_with_room(
            where,
            item.want,
            level=level,
            members=members,
            apart=close.apart,
            avoid=close.avoid,
        )
        more = len(found) == PARTS
        yield from (_Try(where, part, wish) for part in found if _inside(part, inside))
    if not close.required or close.within:
        yield _Try(where, inside, wish, all_of_it=True)
        more = True
    if more:
        yield _Try(where, inside, wish, emptiest=True)


def _inside(part: Part, outer: Part) -> bool:
    """Whether a part is within another, as far as their names tell."""
    pairs = zip(_names(part), _names(outer), strict=True)
    return all(not bound or not name or name == bound for name, bound in pairs)


def _names(part: Part) -> Path:
    return (part.zone, part.block, part.rack, part.fabric)


def _no_plan(where: Target, item: Item, ask: SetAsk, fitting: int) -> NoPlan:
    """How many would fit, with the counts by part of the fleet that tell why not more.

    Where it matters who holds what, room is what is open to this tenant.
    """
    close, members = item.closeness, len(ask.sizes)
    inside = Part(*close.within) if close.within else Part()

    def counted(level: str, part: Part) -> list[tuple[int, int]]:
        if item.want.tenant is not None:
            found = sites(where, ask.want, part, avoid=close.avoid, emptiest=True)
            return members_by_part(found, ask, level=level)
        return members_free(
            where, item.want, level=level, apart=close.apart, part=part, avoid=close.avoid
        )

    parts = counted(close.required if not close.within else "", inside)
    anywhere = sum(count * each for each, count in counted("", Part()))
    # A part that was not tried has free slots for fewer than all; one that was has ``fitting``.
    untried = max((each for each, _ in parts if each < members), default=0)
    return NoPlan(max(fitting, untried), members, parts=tuple(parts), anywhere=anywhere)


def _in_turn(
    items: Sequence[Item], plan: SetPlan, paths: dict[int, Path], second: Part | None
) -> list[tuple[Item, list[Option]]]:
    """Each item with its option, those of one node behind each other as the commit wants them."""
    met = _met(items[0], plan, paths, second)
    told = [replace(item, set_met=met) for item in items]
    pairs = sorted(zip(told, plan.options, strict=True), key=lambda pair: pair[1].num)
    return [(item, [option]) for item, option in pairs]


def _met(item: Item, plan: SetPlan, paths: dict[int, Path], second: Part | None) -> dict[str, Any]:
    """How close the members came, for the record; names of parts are for operators."""
    nums = {option.num for option in plan.options}
    level, part = closest(paths[num] for num in nums)
    return {
        **item.closeness.as_json(),
        **_near(item.where.prefer if item.where is not None else (), plan.options[0].wish),
        "members": len(plan.options),
        "nodes": len(nums),
        "level_met": level or "none",
        "part": named(part) if part else "",
        "runner_up": named(_names(second)) if second else "",
    }


def _near(wishes: Sequence[Wish], met: int) -> dict[str, Any]:
    """Which preferred data sets there are, and which of them the set is near."""
    if not wishes:
        return {}
    names = dict.fromkeys(name for wish in wishes for name in wish.names)
    near = wishes[met].names if 0 <= met < len(wishes) else ()
    return {"preferred": list(names), "preferred_met": list(near)}


def named(path: Path) -> str:
    """A part of the fleet in words, such as ``zone z1, block b1, rack r2``."""
    words = zip(("zone", "block", "rack", "NVLink domain"), path, strict=True)
    return ", ".join(f"{word} {name}" for word, name in words if name) or "the whole pool"
