"""Why does an authorised request get no place, and what would help?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from admission.errors import ForbiddenByLocality
from gpuaas.kernel.errors import ProductError, entry_of
from placement.domain.part_reasons import PartsRefused, parts_refused
from placement.domain.parts import PartAsk
from placement.domain.reasons import (
    CHANGED,
    DEDICATED,
    OTHER_FAMILY,
    OTHER_POOL,
    OTHERS,
    SIBLINGS,
    SPREAD,
    TOGETHER,
    TOPOLOGY,
    WHOLE,
    WINDOW,
    Asked,
    Refused,
    refused,
)
from placement.domain.sets import NoPlan
from placement.errors import ForbiddenByTopology, NeverFits, PoolDedicated, SkuUnavailable
from placement.services.bundle import Item
from placement.services.search import found
from placement.snapshots import (
    ANYWHERE,
    Target,
    census,
    isolation_promised,
    lookahead_of,
    outside,
    part_census,
    size_of,
)

_A = TypeVar("_A", Refused, PartsRefused)
TOLD = 4
"""How many kinds of parts a refusal's sentence names; its numbers have all."""


def no_capacity(item: Item, *, rest: str = "") -> ProductError:
    """Why nothing fits: the numbers, what each constraint removed, and the nearest miss.

    ``rest`` is the code of what kept it from hosts that would do by themselves.
    """
    where, family, want = item.where, item.authority.family, item.want
    if want.terms.tenants and str(item.authority.tenant_id) not in want.terms.tenants:
        return _dedicated(item)
    if want.part is not None:
        return _no_part(item, want.part, rest)
    asked = want.slots or "a whole node"
    size = size_of(where, want) if where is not None else want.slots
    groups = census(where, want) if where is not None else ()
    asking = Asked(size, want.whole, want.exclusive_nic, want.terms)
    account = _account(lambda left: refused(groups, asking, rest=left), rest)
    numbers = {**account.as_json(), **_outside(where), **want.terms.as_json()}
    if where is not None and not where.near.anywhere:
        free = _free_elsewhere(where, item)
        if free:
            return ForbiddenByLocality(
                f"{item.authority.sku}: there is room elsewhere, but the best {family} node where "
                f"this has to run has {account.largest_free} free.",
                asked=want.slots,
                largest_free=account.largest_free,
                free_elsewhere=free,
                never=not account.ever,
                **where.near.as_json(),
                **numbers,
            )
    if not account.ever:
        return NeverFits(
            f"{asked} of {item.authority.sku}: no approved {family} node could ever hold it.",
            asked=want.slots,
            family=family,
            largest_possible=where.family_slots if where else 0,
            **numbers,
        )
    wanted = "a whole free node" if want.whole else f"{_counted(want.slots)} on one node"
    if account.nearest in TOPOLOGY and not _fits_by_now(item):
        return ForbiddenByTopology(
            f"{item.authority.sku} needs {wanted}; a {family} node has {account.nearest_free} "
            f"free, but: {_because(account.nearest)}",
            asked=want.slots,
            largest_free=account.largest_free,
            family=family,
            pool=item.authority.pool,
            **numbers,
        )
    return SkuUnavailable(
        f"{item.authority.sku} needs {wanted}; the best {family} node has "
        f"{account.largest_free} free{_in_the_way(item, account)}.{_windows(account)}",
        asked=want.slots,
        largest_free=account.largest_free,
        family=family,
        pool=item.authority.pool,
        **numbers,
    )


def _account(count: Callable[[str], _A], rest: str) -> _A:
    """The account. It is counted after the look that found nothing, and others take and give back
    meanwhile: what is left is no isolation of others where nobody was promised any."""
    account = count(rest)
    changed = OTHERS in account.removed and not isolation_promised()
    return count(CHANGED) if changed else account


def _counted(slots: int) -> str:
    return f"{slots} slot" if slots == 1 else f"{slots} slots"


def _in_the_way(item: Item, account: Refused) -> str:
    """What keeps the best node from being leased whole, though most of it is free."""
    if not item.want.whole or item.where is None or account.nearest != WHOLE:
        return ""
    return f" of {_counted(item.where.family_slots)}; the rest is taken, blocked or cut for parts"


def _dedicated(item: Item) -> ProductError:
    """The pool is for others: that is what removed all of its hosts."""
    where = item.where
    hosts = sum(g.hosts for g in census(where, item.want)) if where is not None else 0
    return PoolDedicated(
        f"The pool {item.authority.pool} is for other tenants.",
        pool=item.authority.pool,
        nodes=hosts,
        removed={DEDICATED: hosts} if hosts else {},
        never=True,
    )


def _outside(where: Target | None) -> dict[str, Any]:
    """How many hosts were never asked, since they are of another family or in another pool."""
    if where is None:
        return {}
    families, pools = outside(where)
    counts = {OTHER_FAMILY: families, OTHER_POOL: pools}
    return {"not_asked": {code: hosts for code, hosts in counts.items() if hosts}}


def _fits_by_now(item: Item) -> bool:
    """Whether there is room after all: then a race was lost, and nothing is forbidden."""
    where = item.where
    return where is not None and bool(
        found(where, item.want, lookahead_of(where), at_once=1, limit=1)
    )


def _because(code: str) -> str:
    """What a constraint means, at the end of a sentence."""
    entry = entry_of(code)
    return f"{entry.title[0].lower()}{entry.title[1:]}." if entry else code


def _windows(account: Refused) -> str:
    """What announced maintenance rules out, and how long something could last there."""
    nodes = account.removed.get(WINDOW, 0)
    if not nodes:
        return ""
    said = f" Maintenance begins too early on {nodes} of {account.hosts} nodes"
    if account.fits_s:
        return f"{said}; for {account.fits_s} seconds at most it fits now."
    return f"{said}."


def no_room_together(item: Item, found: NoPlan) -> ProductError:
    """Why a set has no room: how many would fit, and how many parts of the fleet hold how many."""
    close = item.closeness
    # Of members that have to be close and apart, closeness is what fails where others have room.
    scattered = bool(close.required) and found.anywhere >= found.members
    others = TOGETHER if scattered else SPREAD if close.apart else SIBLINGS
    # Where there is no room for one alone, it is not the others that are in its way.
    error = no_capacity(item, rest=others if found.anywhere else "")
    numbers = {
        "replicas": found.members,
        "replicas_fitting": found.fitting,
        "free_anywhere_for": found.anywhere,
        **close.as_json(),
        "parts": sum(count for _, count in found.parts),
        "parts_by_members": {str(each): count for each, count in found.parts},
    }
    asked = f"{found.members} of {item.authority.sku}"
    held = ", ".join(f"{n} for {each}" for each, n in found.parts[:TOLD]) or "none for any"
    level = ""
    if close.required:
        level = f" in {'the' if close.within else 'one'} {close.required}"
        level += " where the others are" if close.within else ""
    if close.apart:
        level += ", each on a node of its own"
    if found.anywhere >= found.members and close.required and not error.facts.get("never"):
        return ForbiddenByLocality(
            f"{asked}{level}: there are free slots for {found.anywhere}, but in no such part for "
            f"all. Parts with free slots: {held}.",
            **{**error.facts, **numbers},
        )
    error.detail = f"{asked}{level}: {found.fitting} fit now (parts: {held}). {error.detail}"
    error.facts |= numbers
    return error


def _no_part(item: Item, ask: PartAsk, rest: str) -> ProductError:
    """Why no cut slot gives this part: how many each constraint removed, and the nearest miss."""
    where, family, want = item.where, item.authority.family, item.want
    asked = Asked(0, False, False, want.terms)
    groups = part_census(where, want) if where is not None else ()
    tenant = item.authority.tenant_id
    account = _account(lambda left: parts_refused(groups, ask, asked, tenant, rest=left), rest)
    numbers: dict[str, Any] = {
        "part": str(ask),
        **account.as_json(),
        **_outside(where),
        **want.terms.as_json(),
    }
    if where is not None and not where.near.anywhere:
        anywhere = replace(where, near=ANYWHERE, prefer=())
        if found(anywhere, want, lookahead_of(anywhere), at_once=1, limit=1):
            return ForbiddenByLocality(
                f"{item.authority.sku}: there is room for {ask} elsewhere, but not where this "
                "has to run.",
                never=not account.ever,
                **where.near.as_json(),
                **numbers,
            )
    if not account.ever:
        return NeverFits(
            f"{item.authority.sku}: no slot of {family} is cut so that it could ever give {ask}.",
            family=family,
            **numbers,
        )
    if account.nearest in TOPOLOGY and not _fits_by_now(item):
        return ForbiddenByTopology(
            f"{item.authority.sku} needs {ask}, for which there is room, but: "
            f"{_because(account.nearest)}",
            family=family,
            pool=item.authority.pool,
            **numbers,
        )
    return SkuUnavailable(
        f"{item.authority.sku} needs {ask}; the emptiest GPU that is cut for it has "
        f"{account.largest_free}/1000 free.",
        family=family,
        pool=item.authority.pool,
        **numbers,
    )


def _free_elsewhere(where: Target, item: Item) -> int:
    """Free slots of a node outside the places where it has to run, if it would fit there."""
    anywhere = replace(where, near=ANYWHERE, prefer=())
    options = found(anywhere, item.want, lookahead_of(anywhere), at_once=1, limit=1)
    return options[0].left_on_node + options[0].mask.bit_count() if options else 0
