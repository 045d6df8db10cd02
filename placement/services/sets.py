"""Which nodes does a request for several allocations get when they have to be close, or apart?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from placement.domain.fit import Option, Place
from placement.domain.sets import LEVELS, NoPlan, SetAsk, SetPlan, place_set
from placement.services.bundle import Item
from placement.snapshots import Target, lookahead_of
from placement.snapshots.sites import Part, parts_with_room, sites


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
    )
    for part in _parts(where, item, len(items)):
        open_sites = [
            replace(site, place=place)
            for site in sites(where, want, part)
            if (place := left(site.place)) is not None
        ]
        plan = place_set(open_sites, ask, ahead=lookahead_of(where))
        if isinstance(plan, SetPlan):
            return _in_turn(items, plan)
        fitting = max(fitting, plan.fitting)
    return NoPlan(fitting, len(items))


def _parts(where: Target, item: Item, members: int) -> Iterator[Part]:
    """The parts to try, the tightest first: those of a preferred level before the required."""
    close = item.closeness
    levels = [close.preferred, close.required]
    if close.required and close.preferred not in LEVELS[: LEVELS.index(close.required)]:
        levels = [close.required]
    for level in filter(None, levels):
        yield from parts_with_room(
            where, item.want, level=level, members=members, apart=close.apart
        )
    if not close.required:
        yield Part()


def _in_turn(items: Sequence[Item], plan: SetPlan) -> list[tuple[Item, list[Option]]]:
    """Each item with its option, those of one node behind each other as the commit wants them."""
    pairs = sorted(zip(items, plan.options, strict=True), key=lambda pair: pair[1].num)
    return [(item, [option]) for item, option in pairs]
