"""Which parts of a fleet could hold a set, and which nodes stand in one?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuaas.kernel import prepared
from placement.domain.fit import Want
from placement.domain.sets import Site
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
       n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask, """
    + HELD
    + """
  FROM placement_node n
 WHERE n.free_count >= %(slots)s::int
   AND (%(zone)s::text = '' OR n.zone = %(zone)s) AND (%(block)s::text = '' OR n.block = %(block)s)
   AND (%(rack)s::text = '' OR n.rack = %(rack)s)
   AND (%(fabric)s::text = '' OR n.fabric = %(fabric)s)
   AND """
    + FITS
    + """
 ORDER BY n.free_count, n.num LIMIT %(limit)s::int
"""
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the fleet; an empty name binds nothing."""

    zone: str = ""
    block: str = ""
    rack: str = ""
    fabric: str = ""


def parts_with_room(
    where: Target, want: Want, *, level: str, members: int, apart: bool
) -> list[Part]:
    """The parts at a level whose free slots would do for the members, the tightest first.

    One aggregate over the nodes that take work.
    """
    params = {
        **params_of(where, want),
        "level": level,
        "members": members,
        "apart": apart,
        "limit": PARTS,
    }
    return [Part(*row) for row in prepared.rows(_PARTS, params)]


def sites(where: Target, want: Want, part: Part) -> list[Site]:
    """The nodes of a part that hold a member, the fullest first, with who holds what on them."""
    params = {
        **params_of(where, want),
        "zone": part.zone,
        "block": part.block,
        "rack": part.rack,
        "fabric": part.fabric,
        "limit": MOST,
    }
    return [Site(read_place(row[4:]), *row[:4]) for row in prepared.rows(_SITES, params)]
