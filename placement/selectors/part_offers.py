"""How many parts of GPUs could be had now, by product?  Counts, never hosts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from django.db import connection

from placement.domain.mig import board_named, room
from placement.models.maintenance import OPEN_THEN
from tenants.models import Shape

_CUT: Final = (
    """
SELECT s.name, s.shape, s.part_profile, s.part_milli, s.part_memory_mib, k.board, k.state,
       k.free_milli, k.memory_mib, k.memory_mib - k.memory_used_mib, k.holder IS NULL, k.open,
       o.stays, count(*), array_agg(DISTINCT k.node_num),
       max(floor(extract(epoch FROM n.free_until - statement_timestamp())))
  FROM tenants_sku s
  JOIN placement_pool pl ON pl.name = s.pool
  JOIN placement_nodefamily f ON f.name = s.family
  JOIN placement_cutslot k ON k.pool_id = pl.id AND k.family_id = f.id
   AND k.cut = CASE s.shape WHEN 'mig' THEN 'mig' ELSE 'share' END
  JOIN placement_node n ON n.id = k.node_id
 CROSS JOIN LATERAL (SELECT """
    + OPEN_THEN
    + """ AS stays) o
 WHERE s.state = 'published' AND s.shape IN ('mig', 'gpu_share') AND n.state = 'ready'
   AND n.intended <> 'baremetal'
   AND NOT EXISTS (
       SELECT FROM placement_placementterms t
        WHERE t.about IN ('sku:' || s.name, 'pool:' || s.pool)
          AND NOT (n.driver >= t.driver_min AND n.runtime >= t.runtime_min
                   AND (t.driver_below = '{}'
                        OR (n.driver <> '{}' AND n.driver < t.driver_below))))
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
"""
)


@dataclass(slots=True)
class PartRoom:
    """What of one product there is: ``ready``, whether any cut slot could ever give it.

    Of shares only those on GPUs that are nobody's are counted: anybody could have them. On
    ``closing`` nodes maintenance begins too early, the last of them in ``shorter_s`` seconds.
    """

    parts: int = 0
    nodes: set[int] = field(default_factory=set)
    ready: bool = False
    closing: set[int] = field(default_factory=set)
    shorter_s: int | None = None


def part_room(*, lasts_s: int | None = None) -> dict[str, PartRoom]:
    """The room for each published product that is a part, by its name, for so many seconds."""
    found: dict[str, PartRoom] = defaultdict(PartRoom)
    with connection.cursor() as cursor:
        cursor.execute(_CUT, {"lasts": lasts_s})
        rows = cursor.fetchall()
    for name, shape, profile, milli, memory, *slot in rows:
        here = found[name]
        if shape == Shape.MIG:
            ever, now = _instances(profile, *slot[:2])
        else:
            ever, now = _shares(milli, memory, *slot[2:6])
        *_, is_open, stays, count, nodes, until_s = slot
        here.ready = here.ready or ever > 0
        if is_open and now and not stays:
            here.closing.update(nodes)
            here.shorter_s = max(here.shorter_s or 0, int(until_s or 0))
        elif is_open and now:
            here.parts += now * count
            here.nodes.update(nodes)
    return found


def _instances(profile: str, board_name: str, state: int) -> tuple[int, int]:
    """How many instances an empty GPU would hold, and how many this one holds beside its own."""
    board = board_named(board_name)
    row = board.profile(profile) if board else None
    return (row.most, room(board, state, row)) if board and row else (0, 0)


def _shares(
    milli: int, memory: int, free: int, has: int, left: int, nobody: bool
) -> tuple[int, int]:
    """The same for shares."""
    return min(1000 // milli, has // memory), min(free // milli, left // memory) if nobody else 0
