"""Which nodes have room, and who holds what on them?  Candidates by index probe, frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from admission.domain.locality import Near, Wish
from gpuaas.kernel import prepared
from placement.domain.fit import Held, Place, Want
from placement.domain.parts import CutState
from placement.domain.terms import Alone, Own
from placement.models.maintenance import OPEN_THEN

ANYWHERE = Near()
LIVE: Final = "('reserved', 'active', 'releasing', 'cleanup_blocked')"
FENCED: Final = (
    "EXISTS (SELECT FROM placement_claim f WHERE f.alone > 0 AND f.state IN " + LIVE + ")"
)
"""Whether any live claim was promised to share nothing: only then it matters who holds what."""
HELD: Final = "placement_held(n.num, n.slot_count, n.fabric)"
"""Who holds what on node ``n``, as ``held_of`` reads it."""
NEVER_HERE: Final = (
    "EXISTS (SELECT FROM placement_claim c WHERE c.node_num = n.num"
    " AND c.tenant_id = ANY (%(never)s) AND c.state IN " + LIVE + ")"
)
"""Whether somebody holds something on node ``n`` who is never placed beside the one that asks."""
WITHIN: Final = """
       (%(zones)s::text[] = '{}' OR n.zone = ANY (%(zones)s))
   AND (%(racks)s::text[] = '{}' OR n.rack = ANY (%(racks)s))
   AND (%(nodes)s::text[] = '{}' OR n.name = ANY (%(nodes)s))
"""
"""Whether node ``n`` is in the places that are asked for."""
OWN_HERE: Final = (
    "EXISTS (SELECT FROM placement_claim c WHERE c.node_num = n.num"
    " AND c.tenant_id = %(tenant)s AND c.state IN " + LIVE + ")"
)
"""Whether the tenant that asks holds something on node ``n``."""
VERSIONS: Final = """
       n.driver >= %(driver_min)s::int[] AND n.runtime >= %(runtime_min)s::int[]
   AND (%(driver_below)s::int[] = '{}'
        OR (n.driver <> '{}' AND n.driver < %(driver_below)s::int[]))
"""
"""Whether what node ``n`` runs meets the demands on it."""
OPEN_TO: Final = (
    """
       (%(with)s::bool IS NULL OR %(with)s::bool = """
    + OWN_HERE
    + """)
   AND (NOT %(by_itself)s::bool OR NOT EXISTS (
            SELECT FROM placement_claim c WHERE c.node_num = n.num AND c.tenant_id <> %(tenant)s
               AND c.state IN """
    + LIVE
    + """))
   AND (%(never)s::uuid[] = '{}' OR NOT """
    + NEVER_HERE
    + ")\n"
)
"""Whether the tenant that asks may be on node ``n`` with those who hold something there now."""
ONE_DAY: Final = VERSIONS + " AND (%(with)s::bool IS NOT TRUE OR " + OWN_HERE + ")\n"
"""Whether leases that end on node ``n`` are all that it may take until it is of use."""
FITS: Final = (
    """
       n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
   AND (NOT %(whole)s::bool OR n.free_count = n.slot_count)
   AND """
    + OPEN_THEN
    + """
   AND n.takes IN ('any', %(use)s::text)
   AND (NOT %(nic)s::bool
        OR bit_count((n.free_mask & n.exclusive_mask)::bit(64)) >= %(slots)s::int)
   AND """
    + WITHIN
    + """
   AND """
    + VERSIONS
    + " AND "
    + OPEN_TO
)
_CANDIDATES: Final = (
    """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask,
       CASE WHEN %(holders)s::bool OR """
    + FENCED
    + " THEN "
    + HELD
    + """ END
  FROM unnest(%(levels)s::int[]) WITH ORDINALITY AS level(free, at)
 CROSS JOIN LATERAL (
       SELECT n.* FROM placement_node n
        WHERE n.free_count >= level.free AND n.free_count <= level.free AND """
    + FITS
    + """
        ORDER BY n.free_count, n.num LIMIT %(limit)s::int + %(skip)s::int) AS n
 LIMIT %(limit)s::int OFFSET %(skip)s::int
"""
)
_ONE: Final = (
    """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask, """
    + HELD
    + """
  FROM placement_node n WHERE n.num = %(num)s::int AND n.free_count >= %(slots)s::int AND """
    + FITS
)
_NEAREST: Final = (
    """
SELECT n.num FROM placement_node n
 WHERE """
    + WITHIN
    + """ AND n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
   AND n.slot_count >= %(slots)s::int AND n.takes IN ('any', %(use)s::text)
   AND (NOT %(nic)s::bool OR bit_count(n.exclusive_mask::bit(64)) >= %(slots)s::int)
   AND """
    + ONE_DAY
    + """
 ORDER BY NOT ("""
    + OPEN_TO
    + """), EXISTS (SELECT FROM placement_slotresidue r
                   WHERE r.node_id = n.id AND r.state = 'found')
       OR EXISTS (SELECT FROM placement_allocation a
                   WHERE a.node_id = n.id AND a.state = 'cleanup_blocked')
       OR EXISTS (SELECT FROM placement_nodedrain d
                   WHERE d.node_id = n.id AND d.ended_at IS NULL)
       OR NOT """
    + OPEN_THEN
    + """,
       n.free_count DESC, n.num
 LIMIT 1
"""
)
_NEVER_WITH: Final = "SELECT placement_never_with(%s)"
LOCK: Final = "SELECT n.num FROM placement_node n WHERE n.num = %s FOR NO KEY UPDATE"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a SKU may be placed: keys of the pool and family, and the family's size.

    ``near`` binds it to zones, racks or nodes; most requests run anywhere.
    """

    pool_id: UUID
    family_id: UUID
    family_slots: int
    near: Near = ANYWHERE
    prefer: tuple[Wish, ...] = ()
    """Where it would rather be, the best first; each is within ``near``."""


def candidates(
    where: Target, want: Want, *, levels: Sequence[int], limit: int, skip: int = 0
) -> list[Place]:
    """Nodes that hold the size, by free count in the order of ``levels``, then by number.

    An index probe for each level until there are ``limit``, whatever the fleet's size. Who
    holds what is read only where it matters.
    """
    params = {**params_of(where, want), "levels": list(levels), "limit": limit, "skip": skip}
    return [read_place(row) for row in prepared.rows(_CANDIDATES, params)]


def locked(where: Target, want: Want, num: int) -> list[Place]:
    """One node as it is once its lock is had; empty if it does not fit any more.

    Two statements: what is read after the lock must not come from before it.
    """
    prepared.rows(LOCK, (num,))
    return [read_place(row) for row in prepared.rows(_ONE, {**params_of(where, want), "num": num})]


def nearest(where: Target, want: Want) -> int | None:
    """The node that is nearest to holding this one day: without trouble, then with most free.

    None on which other leases may end and it could not be placed all the same. Where others have
    to leave altogether comes last.
    """
    found = prepared.rows(_NEAREST, params_of(where, want))
    return int(found[0][0]) if found else None


def read_place(row: Sequence[Any], *, cuts: tuple[CutState, ...] | None = None) -> Place:
    """A place from its seven columns, with its cut slots where they were asked for."""
    num, generation, free, count, layout, exclusive, held = row
    known = None if held is None else held_of(held)
    return Place(num, generation, free, count, layout, exclusive, known, cuts=cuts)


def never_with(tenant: UUID) -> tuple[UUID, ...]:
    """Who is never placed on one host with this tenant, as it is now."""
    ((found,),) = prepared.rows(_NEVER_WITH, (tenant,))
    return tuple(found or ())


def params_of(where: Target, want: Want) -> dict[str, Any]:
    """The values of ``FITS``."""
    near, terms = where.near, want.terms
    return {
        "pool": where.pool_id,
        "family": where.family_id,
        "slots": size_of(where, want),
        "whole": want.whole,
        "use": "baremetal" if want.whole else "slices",
        "nic": want.exclusive_nic,
        "zones": list(near.zones),
        "racks": list(near.racks),
        "nodes": list(near.nodes),
        "driver_min": list(terms.driver_min),
        "driver_below": list(terms.driver_below),
        "runtime_min": list(terms.runtime_min),
        "with": None if terms.own == Own.ANY else terms.own == Own.WITH,
        "by_itself": terms.alone == Alone.NODE,
        "never": list(terms.never),
        "tenant": want.tenant,
        "lasts": want.lasts_s,
        "holders": terms.about_tenants,
    }


def size_of(where: Target, want: Want) -> int:
    """How many slots of a node it takes."""
    return where.family_slots if want.whole else want.slots


def held_of(text: str) -> tuple[Held, ...]:
    """What ``HELD`` says, as values."""
    out = []
    for part in text.split(",") if text else ():
        tenant, mask, alone, afar = part.split(":")
        out.append(Held(UUID(tenant), int(mask), int(alone), afar == "1"))
    return tuple(out)
