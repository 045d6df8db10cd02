"""How is an authorised request given a place?  Look, think, then write under a guard.

Both entrances use this: a request at once, and the pool's cycle for what waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from admission.errors import ForbiddenByLocality
from gpuaas.kernel import on_the_spot
from gpuaas.kernel.errors import ConcurrentUpdate, ProductError
from gpuaas.kernel.idempotency import Carried
from placement.domain.fit import Board, Gone, Option, Place, Want, rank, taken
from placement.domain.reasons import KEPT, SIBLINGS
from placement.domain.sets import NoPlan
from placement.errors import SkuUnavailable
from placement.measures import ATTEMPTS, LOST, PLACED, UNPLACED
from placement.measures import CANDIDATES as SEEN
from placement.services.bundle import Item, commit
from placement.services.refusals import no_capacity, no_room_together
from placement.services.search import nearest_to, one_locked, pages
from placement.services.sets import set_plan
from placement.snapshots import Target, lookahead_of, never_with

LOOKS = 3
"""How often a place is chosen without a lock before a node is locked first."""
LOCKED_LOOKS = 20
CANDIDATES = 24
ALTERNATIVES = 4
SETS_AHEAD = 4
"""Of the sets that wait and have to be close, so many keep the room in which all would fit."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an item went."""

    node_num: int
    mask: int
    at: datetime
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why an item has no place now; ``error`` carries the code and the numbers."""

    error: ProductError


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else was faster; looking again may help."""


Result = Placed | Unplaced


def attempted(item: Item, result: Result | Lost) -> None:
    """Count what came of an attempt to place a request, whoever made it."""
    match result:
        case Placed():
            on_the_spot.count(ATTEMPTS, item.authority.shape, PLACED, "")
        case Unplaced(error):
            on_the_spot.count(ATTEMPTS, item.authority.shape, UNPLACED, error.code)
        case Lost():
            _lost(item)


def _lost(item: Item) -> None:
    on_the_spot.count(ATTEMPTS, item.authority.shape, LOST, ConcurrentUpdate.code)


def place_one(item: Item, *, ahead: Sequence[Item] = ()) -> Result:
    """Place one item now. ``ahead`` are those who wait: what would be theirs is not touched.

    The first looks take no lock and pass over nodes that others are writing to. When all of
    them were lost, a node is locked before the choice, so that a crowd on few nodes never
    makes a fleet look full.
    """
    where = item.where
    if where is None or not _let_in(item):
        return Unplaced(no_capacity(item))
    try:
        for attempt in range(LOOKS):
            item = _anew(item) if attempt else item
            kept, gone = _kept_and_gone(ahead)
            limit = ALTERNATIVES * (attempt + 1)
            if attempt or gone or kept:
                options = _options(item, where, gone, kept, limit=limit)
            else:
                options = options_for(item, where, limit=limit)
            if not options:
                return Unplaced(_behind(item, where, ahead, kept))
            done = commit([(item, options)], skip_locked=True)
            if 0 in done:
                return Placed(*done[0], options=tuple(options))
            _lost(item)
        return _place_locked(_anew(item), where, ahead)
    except ProductError as error:
        return Unplaced(error)


def place_carrying(item: Item, carried: Carried) -> Placed | None:
    """Place one item for whom nobody waits, and use up the key with it; or write nothing.

    None says that it takes more than these looks: a reason, or a lock.
    Raises what ``commit`` raises.
    """
    where = item.where
    if where is None or not _let_in(item):
        return None
    for attempt in range(LOOKS):
        limit = ALTERNATIVES * (attempt + 1)
        if attempt:
            item = _anew(item)
            options = _options(item, where, {}, frozenset(), limit=limit)
        else:
            options = options_for(item, where, limit=limit)
        if not options:
            return None
        done = commit([(item, options)], skip_locked=True, carried=carried)
        if 0 in done:
            return Placed(*done[0], options=tuple(options))
        _lost(item)
    return None


def options_for(item: Item, where: Target, *, limit: int) -> list[Option]:
    """The best options, from what the request has met already if that will do."""
    if item.places is not None:
        options = rank(item.places, item.want, limit=limit, ahead=lookahead_of(where))
        if options or not item.places or item.want.tenant is None:
            on_the_spot.observe(SEEN, len(item.places), item.authority.shape)
            return options
    return _options(item, where, {}, frozenset(), limit=limit)


def _anew(item: Item) -> Item:
    """The item, kept apart from whom it is now: a host may have been lost because of that."""
    tenant = item.authority.tenant_id
    never = never_with(tenant)
    if never == item.want.terms.never:
        return item
    terms = replace(item.want.terms, never=never)
    return replace(item, want=replace(item.want, terms=terms, tenant=tenant))


def _let_in(item: Item) -> bool:
    """Whether the pool is for this tenant."""
    tenants = item.want.terms.tenants
    return not tenants or str(item.authority.tenant_id) in tenants


def place_group(items: Sequence[Item], *, ahead: Sequence[Item] = ()) -> Result:
    """Place all of a request's allocations, or none, in the caller's transaction.

    Each try has a savepoint of its own, so that what a lost try locked is let go.
    """
    try:
        for attempt in range(2 * LOOKS):
            items = [_anew(item) for item in items] if attempt else items
            mine = _mine(items, ahead)
            if isinstance(mine, NoPlan) or len(mine) < len(items):
                return Unplaced(no_capacity_for(items, mine))
            with transaction.atomic():
                done = commit(mine, skip_locked=attempt < LOOKS)
                if len(done) == len(mine):
                    return Placed(*done[0], options=tuple(mine[0][1]))
                transaction.set_rollback(True)
            _lost(items[0])
    except ProductError as error:
        return Unplaced(error)
    return Unplaced(no_capacity_for(items, []))


def _behind(item: Item, where: Target, ahead: Sequence[Item], kept: frozenset[int]) -> ProductError:
    """The reason, with what is kept free for somebody who has waited long.

    Those who wait are named only where there would be room without them.
    """
    waited_for = bool(ahead) and bool(_options(item, where, {}, frozenset(), limit=1))
    return _refused(item, waited_for=waited_for, kept=len(kept))


def _refused(item: Item, *, waited_for: bool, kept: int) -> ProductError:
    error = no_capacity(item, rest=KEPT if waited_for else "")
    told = SkuUnavailable if not waited_for else (SkuUnavailable, ForbiddenByLocality)
    if kept and isinstance(error, told):
        error.detail += " What is free there is kept for a larger request that has waited longer."
        error.facts |= {"nodes_kept": kept}
    return error


def _passed_over(item: Item, ahead: Sequence[Item], kept: frozenset[int]) -> ProductError:
    """The reason once its batch is placed: room that is left then is kept for who has waited."""
    left = bool(ahead or kept) and _room_alone(item)
    return _refused(item, waited_for=left, kept=len(kept) if left else 0)


def _mine(items: Sequence[Item], ahead: Sequence[Item]) -> list[tuple[Item, list[Option]]] | NoPlan:
    """The plan for a request's allocations after those ahead."""
    if items[0].closeness.matters and _let_in(items[0]):
        kept, gone = _kept_and_gone(ahead)
        return set_plan(items, lambda place: None if place.num in kept else _left(place, gone))
    mine = _only(items, _plan([*ahead, *items], _short(ahead))[0])
    # A later try waits for its nodes: everybody who waits takes them by their numbers. Those of
    # one node keep their turn, since each expects the generation that the one before left.
    return sorted(mine, key=lambda pair: pair[1][0].num)


def alone_plan(item: Item, ahead: Sequence[Item], *, limit: int) -> list[Option] | ProductError:
    """What a request for one allocation would get now, the best first, after those ahead, or why
    it gets nothing; nothing is locked."""
    where = item.where
    if where is None or not _let_in(item):
        return no_capacity(item)
    kept, gone = _kept_and_gone(ahead)
    if kept or gone:
        options = _options(item, where, gone, kept, limit=limit)
    else:
        options = options_for(item, where, limit=limit)
    return options or _behind(item, where, ahead, kept)


def option_beside(item: Item, gone: Gone, *, avoid: frozenset[int]) -> Option | None:
    """The best place of an item now on none of these nodes, after what is gone elsewhere.

    Nothing is locked or written: an answer to what would be.
    """
    if item.where is None or not _let_in(item):
        return None
    return next(iter(_options(item, item.where, gone, avoid, limit=1)), None)


def group_beside(items: Sequence[Item], gone: Gone, *, avoid: frozenset[int]) -> Group:
    """The places of a request's allocations now on none of these nodes, after what is gone
    elsewhere. Nothing is locked or written."""
    item = items[0]
    if item.where is None or not _let_in(item):
        return []
    if item.closeness.matters:
        return set_plan(items, lambda p: None if p.num in avoid else _left(p, gone))
    taken_too = {num: list(those) for num, those in gone.items()}
    found: list[tuple[Item, list[Option]]] = []
    for one in items:
        option = option_beside(one, taken_too, avoid=avoid)
        if option is None:
            break
        taken_too.setdefault(option.num, []).append((option, one.want))
        found.append((one, [option]))
    return found


Group = list[tuple[Item, list[Option]]] | NoPlan
"""What a request's allocations would get: each its option, or why not all of them."""


def group_plan(items: Sequence[Item], ahead: Sequence[Item]) -> Group:
    """What a request's allocations would get now, after those ahead; nothing is locked."""
    return _mine(items, ahead)


def no_capacity_for(items: Sequence[Item], found: Group) -> ProductError:
    """Why a request for several allocations has no room: the same, with how many would fit.

    There is a place for all of them, but not as close as they have to be: that is said.
    """
    item, count = items[0], len(items)
    if isinstance(found, NoPlan):
        return no_room_together(item, found)
    # Where there is no room for one alone, it is not the others that are in its way.
    siblings = count > 1 and (bool(found) or _room_alone(item))
    error = no_capacity(item, rest=SIBLINGS if siblings else "")
    if count > 1:
        error.detail = f"{count} allocations asked together, {len(found)} fit now. {error.detail}"
        error.facts |= {"replicas": count, "replicas_fitting": len(found)}
    return error


def _room_alone(item: Item) -> bool:
    where = item.where
    if where is None or not _let_in(item):
        return False
    return bool(_options(item, where, {}, frozenset(), limit=1))


def kept_nodes(items: Sequence[Item]) -> frozenset[int]:
    """The nodes that are kept free for those of these who have waited long; nothing is locked."""
    return _plan(items)[1]


def room_for(item: Item, most: int) -> int:
    """How many such allocations would fit now, at most ``most``; nothing is locked.

    Of those that have to be close or apart, the most that would all have a place together.
    """
    if not item.closeness.matters:
        return len(_plan([item] * most)[0])
    least = 0
    while least < most:
        some = (least + most + 1) // 2
        found = _mine([item] * some, ())
        if isinstance(found, NoPlan):
            most = min(some - 1, found.fitting)
        else:
            least, most = (some, most) if len(found) == some else (least, some - 1)
    return least


def _place_locked(item: Item, where: Target, ahead: Sequence[Item]) -> Result:
    outlook = lookahead_of(where)
    for _ in range(LOCKED_LOOKS):
        kept, gone = _kept_and_gone(ahead)
        first = _options(item, where, gone, kept, limit=1)
        if not first:
            break
        with transaction.atomic():
            places = [_left(p, gone) for p in one_locked(where, item.want, first[0].num)]
            best = rank(places, item.want, limit=1, ahead=outlook)
            options = [replace(option, wish=first[0].wish) for option in best]
            done = commit([(item, options)], skip_locked=False) if options else {}
            # A lost try lets its node go: the next one may need another.
            transaction.set_rollback(0 not in done)
        if 0 in done:
            return Placed(*done[0], options=tuple(options))
        if options:
            _lost(item)
    return Unplaced(no_capacity(item))


def _kept_and_gone(ahead: Sequence[Item]) -> tuple[frozenset[int], Gone]:
    """Of those ahead: the nodes kept for who has waited long, and what each would get where."""
    gone: Gone = {}
    planned, kept = _plan(ahead, _short(ahead))
    for item, [option] in planned:
        gone.setdefault(option.num, []).append((option, item.want))
    return kept, gone


def _short(ahead: Sequence[Item]) -> frozenset[UUID]:
    """The requests for several among those ahead that do not fit in whole now: a part of the room
    is of no use to them, and what they cannot have is not kept from others."""
    sizes = Counter(item.request_id for item in ahead)
    several = [item for item in ahead if item.lead and sizes[item.request_id] > 1]
    if not several:
        return frozenset()
    close = [item for item in several if item.closeness.matters]
    short = {item.request_id for item in close[SETS_AHEAD:]}
    for item in close[:SETS_AHEAD]:
        items = [item] * sizes[item.request_id]
        if isinstance(set_plan(items, lambda place: place, why=False), NoPlan):
            short.add(item.request_id)
    while True:
        found = Counter(item.request_id for item, _ in _plan(ahead, frozenset(short))[0])
        whole = {one for one, size in sizes.items() if size == 1 or found[one] == size}
        if sizes.keys() <= whole | short:
            return frozenset(short)
        short |= sizes.keys() - whole


def _left(place: Place, gone: Gone) -> Place:
    """A place without what those ahead would get; nothing is written there, so its generation
    is the same."""
    generation = place.generation
    for option, want in gone.get(place.num, ()):
        place = taken(place, option, want)
    return replace(place, generation=generation)


def _options(
    item: Item, where: Target, gone: Gone, kept: frozenset[int], *, limit: int
) -> list[Option]:
    """The best options of the first page that has any, without what is gone and what is kept."""
    outlook, seen = lookahead_of(where), 0
    options: list[Option] = []
    for page in pages(where, item.want, outlook, at_once=CANDIDATES + len(gone) + len(kept)):
        places = [_left(place, gone) for place in page if place.num not in kept]
        seen += len(places)
        options = rank(places, item.want, limit=limit, ahead=outlook)
        if options:
            break
    on_the_spot.observe(SEEN, seen, item.authority.shape)
    return options


def _plan(
    items: Sequence[Item], short: frozenset[UUID] = frozenset()
) -> tuple[list[tuple[Item, list[Option]]], frozenset[int]]:
    """Give each item its option in turn, each seeing what those before it took; those of requests
    that are ``short`` get none.

    The first of a pool's family that fits nowhere and has waited long keeps one node: what
    gets free there goes to nobody behind it, so that smaller ones never starve it. One at a
    time, so that the others go on; whoever is next has its turn when the first is placed.
    """
    boards: dict[Target, Board] = {}
    gone: Gone = {}
    kept: dict[tuple[UUID, UUID], int] = {}
    planned: list[tuple[Item, list[Option]]] = []
    for item in items:
        if item.where is None or not _let_in(item):
            continue
        if item.where not in boards:
            boards[item.where] = Board(lookahead_of(item.where), gone)
            for num in kept.values():
                boards[item.where].close(num)
        board = boards[item.where]
        option = None
        if item.request_id not in short:
            option = _on_board(board, item.where, item.want, CANDIDATES + len(items))
        if option is not None:
            board.take(option, item.want)
            # Another board may have the same node, for what has to be in other places.
            for other in boards.values():
                if other is not board:
                    other.follow(option, item.want)
            planned.append((item, [option]))
            continue
        family = (item.where.pool_id, item.where.family_id)
        if item.holds and family not in kept:
            node = nearest_to(item.where, item.want)
            if node is not None:
                kept[family] = node
                for other in boards.values():
                    other.close(node)
    return planned, frozenset(kept.values())


def _on_board(board: Board, where: Target, want: Want, at_once: int) -> Option | None:
    """The best option for a size on the board, after as many pages of candidates as it needs."""
    option = board.best(want) if board.knows(want) else None
    if option is not None or board.exhausted(want):
        return option
    for page in pages(where, want, lookahead_of(where), at_once=at_once):
        board.offer(want, page)
        option = board.best(want)
        if option is not None:
            return option
    board.exhaust(want)
    return None


def _only(
    items: Sequence[Item], planned: Sequence[tuple[Item, list[Option]]]
) -> list[tuple[Item, list[Option]]]:
    """The plan of these items, at the nodes' own generations as far as others come before."""
    mine = {id(item) for item in items}
    before: dict[int, int] = {}
    out = []
    for item, [option] in planned:
        if id(item) in mine:
            generation = option.generation - before.get(option.num, 0)
            out.append((item, [replace(option, generation=generation)]))
        else:
            before[option.num] = before.get(option.num, 0) + 1
    return out


def place_many(items: Sequence[Item], *, ahead: Sequence[Item] = ()) -> list[Result | Lost]:
    """Place a batch in order, in the caller's transaction: a result for each.

    ``ahead`` are those of earlier pages for whom a node is kept; they are not placed here.

    Called once in a transaction: a second batch would lock its nodes after the counters of
    the first. What was lost to others stays for another transaction.
    Raises what ``commit`` raises when the batch as a whole cannot be written.
    """
    everybody, kept = _plan([*ahead, *items])
    planned = _only(items, everybody)
    position = {id(item): i for i, item in enumerate(items)}
    results: dict[int, Result | Lost] = {}
    done = commit(planned, skip_locked=True) if planned else {}
    for k, (item, options) in enumerate(planned):
        here = position[id(item)]
        results[here] = Placed(*done[k], options=tuple(options)) if k in done else Lost()
    reasons: dict[Hashable, Unplaced] = {}
    for i, item in enumerate(items):
        if i not in results:
            whose = item.authority.tenant_id if item.want.part is not None else None
            key = (item.where, item.want, item.authority.sku, _let_in(item), whose)
            if key not in reasons:
                reasons[key] = Unplaced(_passed_over(item, ahead, kept))
            results[i] = reasons[key]
    return [results[i] for i in range(len(items))]
