"""Which parts of a fleet could hold a set, and which nodes stand in one?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from gpuaas.kernel import prepared
from placement.domain.fit import Want
from placement.domain.sets import Hold, Path, Site, Window
from placement.snapshots.places import FITS, HELD, Target, params_of, read_place

PARTS = 64
"""How many parts of a fleet are tried for one set."""
MOST = 4096
"""How many nodes of a part are looked at."""

_PARTS: Final = (
    """
SELECT p.zone, p.block, p.rack, p.fabric
  FROM (SELECT CASE WHEN %(level)s::text <> 'fabric' THEN n.zone ELSE '' END AS zone,
               CASE WHEN %(level)s::text IN ('block', 'rack') THEN n.block ELSE '' END AS block,
               CASE WHEN %(level)s::text = 'rack' THEN n.rack ELSE '' END AS rack,
               CASE WHEN %(level)s::text = 'fabric' THEN n.fabric ELSE '' END AS fabric,
               CASE WHEN %(apart)s::bool THEN 1 ELSE n.free_count / %(slots)s::int END AS members
          FROM placement_node n
         WHERE n.free_count >= %(slots)s::int
           AND CASE %(level)s::text WHEN 'zone' THEN n.zone WHEN 'block' THEN n.block
                    WHEN 'rack' THEN n.rack ELSE n.fabric END <> ''
           AND n.num <> ALL (%(avoid)s::int[])
           AND """
    + FITS
    + """) AS p
 GROUP BY p.zone, p.block, p.rack, p.fabric
HAVING sum(p.members) >= %(members)s::int
 ORDER BY sum(p.members), p.zone, p.block, p.rack, p.fabric LIMIT %(limit)s::int
"""
)
_SITES: Final = (
    """
SELECT n.zone, n.block, n.rack, n.fabric,
       extract(epoch FROM n.free_until - statement_timestamp())::float8,
       n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask, """
    + HELD
    + """
  FROM placement_node n
 WHERE n.free_count >= %(slots)s::int
   AND (%(zone)s::text = '' OR n.zone = %(zone)s) AND (%(block)s::text = '' OR n.block = %(block)s)
   AND (%(rack)s::text = '' OR n.rack = %(rack)s)
   AND (%(fabric)s::text = '' OR n.fabric = %(fabric)s)
   AND n.num <> ALL (%(avoid)s::int[])
   AND """
    + FITS
    + """
 ORDER BY n.free_count, n.num LIMIT %(limit)s::int
"""
)
_EMPTIEST: Final = _SITES.replace("ORDER BY n.free_count,", "ORDER BY n.free_count DESC,")
_COUNTS: Final = (
    """
SELECT p.members::int, count(*)::int
  FROM (SELECT sum(CASE WHEN %(apart)s::bool THEN 1 ELSE n.free_count / %(slots)s::int END)
               AS members
          FROM placement_node n
         WHERE n.free_count >= %(slots)s::int
           AND (%(zone)s::text = '' OR n.zone = %(zone)s)
           AND (%(block)s::text = '' OR n.block = %(block)s)
           AND (%(rack)s::text = '' OR n.rack = %(rack)s)
           AND (%(fabric)s::text = '' OR n.fabric = %(fabric)s)
           AND CASE %(level)s::text WHEN 'zone' THEN n.zone WHEN 'block' THEN n.block
                    WHEN 'rack' THEN n.rack WHEN 'fabric' THEN n.fabric ELSE 'all' END <> ''
           AND n.num <> ALL (%(avoid)s::int[])
           AND """
    + FITS
    + """
         GROUP BY CASE WHEN %(level)s::text NOT IN ('fabric', '') THEN n.zone END,
                  CASE WHEN %(level)s::text IN ('block', 'rack') THEN n.block END,
                  CASE WHEN %(level)s::text = 'rack' THEN n.rack END,
                  CASE WHEN %(level)s::text = 'fabric' THEN n.fabric END) AS p
 GROUP BY p.members ORDER BY p.members DESC
"""
)
_STANDING: Final = """
SELECT n.num, n.zone, n.block, n.rack, n.fabric
  FROM placement_allocation a JOIN placement_node n ON n.id = a.node_id
 WHERE a.workload_id = %(workload)s::uuid AND a.state IN ('placed', 'provisioning', 'active')
   AND a.id <> ALL (%(leaving)s::uuid[])
 ORDER BY n.num
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the fleet; an empty name binds nothing."""

    zone: str = ""
    block: str = ""
    rack: str = ""
    fabric: str = ""


def parts_with_room(
    where: Target,
    want: Want,
    *,
    level: str,
    members: int,
    apart: bool,
    avoid: frozenset[int] = frozenset(),
) -> list[Part]:
    """The parts at a level whose free slots would do for the members, the tightest first.

    One aggregate over the nodes that take work.
    """
    params = {
        **params_of(where, want),
        "level": level,
        "members": members,
        "apart": apart,
        "avoid": sorted(avoid),
        "limit": PARTS,
    }
    return [Part(*row) for row in prepared.rows(_PARTS, params)]


def members_free(
    where: Target,
    want: Want,
    *,
    level: str,
    apart: bool,
    part: Part,
    avoid: frozenset[int] = frozenset(),
) -> list[tuple[int, int]]:
    """For how many members the parts of a level have free slots: (members, parts), most first.

    An empty level is all of ``part``. One aggregate; who shares wiring with whom is not asked.
    """
    params = {
        **params_of(where, want),
        **_named(part),
        "level": level,
        "apart": apart,
        "avoid": sorted(avoid),
    }
    return [(int(row[0]), int(row[1])) for row in prepared.rows(_COUNTS, params)]


def standing_of(workload_id: UUID, *, leaving: Iterable[str] = ()) -> list[tuple[int, Path]]:
    """The host of each allocation of a workload that stands and stays, with its place."""
    rows = prepared.rows(_STANDING, {"workload": workload_id, "leaving": list(leaving)})
    return [(int(num), (zone, block, rack, fabric)) for num, zone, block, rack, fabric in rows]


def _named(part: Part) -> dict[str, str]:
    return {"zone": part.zone, "block": part.block, "rack": part.rack, "fabric": part.fabric}


def sites(
    where: Target,
    want: Want,
    part: Part,
    *,
    avoid: frozenset[int] = frozenset(),
    emptiest: bool = False,
) -> list[Site]:
    """The nodes of a part that hold a member, the fullest first, with who holds what on them.

    At most ``MOST`` of them; ``emptiest`` takes those with most free slots instead. A window of
    maintenance holds a node from so many seconds from now on.
    """
    params = {
        **params_of(where, want),
        **_named(part),
        "avoid": sorted(avoid),
        "limit": MOST,
    }
    return [_site(row) for row in prepared.rows(_EMPTIEST if emptiest else _SITES, params)]


def _site(row: Sequence[Any]) -> Site:
    zone, block, rack, fabric, until_s, *seen = row
    place = read_place(seen)
    every = (1 << place.slot_count) - 1
    # What comes after the next window is not known here, so it holds the host for good.
    holds = () if until_s is None else (Hold(every, Window(until_s)),)
    return Site(place, zone, block, rack, fabric, holds)
