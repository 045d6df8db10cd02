"""How is an authorised request given a place?  Look, think, then write under a guard.

Both entrances use this: a request at once, and the pool's cycle for what waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from gpuaas.kernel.errors import ConcurrentUpdate, ProductError
from placement.domain.fit import Option, Place, Want, rank, take
from placement.errors import NeverFits, SkuUnavailable
from placement.services.bundle import Item, commit
from placement.snapshots import Target, candidates, could_ever_fit, largest_free, target

TRIES = 6
CANDIDATES = 24
ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an item went."""

    node_num: int
    mask: int
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why an item has no place now; ``error`` carries the code and the numbers."""

    error: ProductError


Result = Placed | Unplaced


def target_of(item: Item) -> Target | None:
    """The inventory that the item's SKU is sold from."""
    return target(pool=item.authority.pool, family=item.authority.family)


def no_capacity(item: Item, where: Target | None) -> ProductError:
    """Why nothing fits, with the numbers that say what would."""
    asked = item.want.slots or "a whole node"
    family = item.authority.family
    if where is None or not could_ever_fit(where, item.want):
        return NeverFits(
            f"{asked} of {item.authority.sku}: no approved {family} node could ever hold it.",
            asked=item.want.slots,
            family=family,
            largest_possible=where.family_slots if where else 0,
        )
    best = largest_free(where)
    wanted = "a whole free node" if item.want.whole else f"{item.want.slots} slots on one node"
    return SkuUnavailable(
        f"{item.authority.sku} needs {wanted}; the best {family} node has {best} free.",
        asked=item.want.slots,
        largest_free=best,
        family=family,
        pool=item.authority.pool,
    )


def place_one(item: Item) -> Result:
    """Place one item in the caller's transaction. Never waits for another's node.

    The last try does not pass over locked nodes, so that a full-looking fleet is looked at
    once more before the answer is no.
    """
    where = target_of(item)
    if where is None:
        return Unplaced(no_capacity(item, None))
    for attempt in range(TRIES):
        places = candidates(where, item.want, limit=CANDIDATES)
        options = rank(places, item.want, limit=ALTERNATIVES * (attempt + 1))
        if not options:
            return Unplaced(no_capacity(item, where))
        with transaction.atomic():
            done = commit([(item, options)], skip_locked=attempt < TRIES - 1)
        if 0 in done:
            return Placed(*done[0], options=tuple(options))
    return Unplaced(no_capacity(item, where))


def _plan(
    items: Sequence[Item], places: dict[tuple[Target, Want], list[Place]]
) -> list[tuple[Item, list[Option]]]:
    """Give each item its options in turn, each seeing what those before it took."""
    planned: list[tuple[Item, list[Option]]] = []
    for item in items:
        where = target_of(item)
        if where is None:
            continue
        key = (where, item.want)
        if key not in places:
            limit = CANDIDATES + len(items)
            known = {p.num: p for group in places.values() for p in group}
            fresh = candidates(where, item.want, limit=limit)
            places[key] = [known.get(p.num, p) for p in fresh]
        options = rank(places[key], item.want, limit=1)
        if not options:
            continue
        planned.append((item, options))
        for other in places:
            places[other] = take(places[other], options[0])
    return planned


def place_many(items: Sequence[Item]) -> dict[int, Result]:
    """Place a batch in order, in the caller's transaction: item position → result.

    Items whose place was lost are looked at again, a bounded number of times.
    """
    results: dict[int, Result] = {}
    left = list(enumerate(items))
    for attempt in range(TRIES):
        planned = _plan([item for _, item in left], {})
        if not planned:
            break
        position = {id(item): i for i, item in left}
        with transaction.atomic():
            done = commit(planned, skip_locked=attempt < TRIES - 1)
        for k, (item, options) in enumerate(planned):
            if k in done:
                results[position[id(item)]] = Placed(*done[k], options=tuple(options))
        left = [(i, item) for i, item in left if i not in results]
        if not left or len(done) == len(planned):
            break
    for i, item in left:
        results[i] = Unplaced(no_capacity(item, target_of(item)))
    return results


def settle(item: Item) -> Result:
    """``place_one``, with a lost race for the envelope told as a value."""
    try:
        with transaction.atomic():
            return place_one(item)
    except ConcurrentUpdate as error:
        return Unplaced(error)
