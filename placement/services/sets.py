"""Which nodes does a request for several allocations get when they have to be close, or apart?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from placement.domain.fit import Option, Place
from placement.domain.sets import (
    LEVELS,
    Closeness,
    NoPlan,
    Path,
    SetAsk,
    SetPlan,
    Window,
    closest,
    place_set,
)
from placement.services.bundle import Item
from placement.snapshots import Target, lookahead_of
from placement.snapshots.sites import Part, members_by_part, parts_with_room, sites


def set_plan(
    items: Sequence[Item], left: Callable[[Place], Place | None]
) -> list[tuple[Item, list[Option]]] | NoPlan:
    """An option for each item, as close as the first one asks; or how many would fit.

    ``left`` gives a place without what others come first for, or None where it is kept.
    """
    item, fitting = items[0], 0
    where, close = item.where, item.closeness
    if where is None:
        return NoPlan(0, len(items))
    want = replace(item.want, tenant=item.authority.tenant_id)
    ask = SetAsk(
        (want.slots,) * len(items),
        want,
        required=close.required,
        preferred=close.preferred,
        apart=close.apart,
        windows=(Window(0, want.lasts_s),) if want.lasts_s else (),
    )
    parts = _parts(where, item, len(items))
    for part in parts:
        found = sites(where, want, part, avoid=close.avoid)
        open_sites = [
            replace(site, place=place) for site in found if (place := left(site.place)) is not None
        ]
        plan = place_set(open_sites, ask, ahead=lookahead_of(where))
        if isinstance(plan, SetPlan):
            paths = {s.place.num: (s.zone, s.block, s.rack, s.fabric) for s in open_sites}
            return _in_turn(items, plan, paths, next(parts, None))
        fitting = max(fitting, plan.fitting)
    return _no_plan(where, item, len(items), fitting)


def _parts(where: Target, item: Item, members: int) -> Iterator[Part]:
    """The parts to try, the tightest first: those of a preferred level before the required.

    Where others of the workload stand already, their part comes first, or is the only one.
    """
    close = item.closeness
    inside = Part(*close.within) if close.within else Part()
    if close.toward:
        yield Part(*close.toward)
    levels = [close.preferred, close.required]
    if close.required and close.preferred not in LEVELS[: LEVELS.index(close.required)]:
        levels = [close.required]
    for level in filter(None, levels):
        if close.within and level == close.required:
            continue
        for part in parts_with_room(
            where,
            item.want,
            level=level,
            members=members,
            apart=close.apart,
            avoid=close.avoid,
        ):
            if _inside(part, inside):
                yield part
    if not close.required or close.within:
        yield inside


def _inside(part: Part, outer: Part) -> bool:
    """Whether a part is within another, as far as their names tell."""
    pairs = zip(_names(part), _names(outer), strict=True)
    return all(not bound or not name or name == bound for name, bound in pairs)


def _names(part: Part) -> Path:
    return (part.zone, part.block, part.rack, part.fabric)


def _no_plan(where: Target, item: Item, members: int, fitting: int) -> NoPlan:
    """How many would fit, with the counts by part of the fleet that tell why not more."""
    close = item.closeness
    inside = Part(*close.within) if close.within else Part()

    def counted(level: str, part: Part) -> list[tuple[int, int]]:
        return members_by_part(
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
    met = _met(items[0].closeness, plan, paths, second)
    told = [replace(item, set_met=met) for item in items]
    pairs = sorted(zip(told, plan.options, strict=True), key=lambda pair: pair[1].num)
    return [(item, [option]) for item, option in pairs]


def _met(
    close: Closeness, plan: SetPlan, paths: dict[int, Path], second: Part | None
) -> dict[str, Any]:
    """How close the members came, for the record; names of parts are for operators."""
    nums = {option.num for option in plan.options}
    level, part = closest(paths[num] for num in nums)
    return {
        **close.as_json(),
        "members": len(plan.options),
        "nodes": len(nums),
        "level_met": level or "none",
        "part": named(part) if part else "",
        "runner_up": named(_names(second)) if second else "",
    }


def named(path: Path) -> str:
    """A part of the fleet in words, such as ``zone z1, block b1, rack r2``."""
    words = zip(("zone", "block", "rack", "NVLink domain"), path, strict=True)
    return ", ".join(f"{word} {name}" for word, name in words if name) or "the whole pool"
