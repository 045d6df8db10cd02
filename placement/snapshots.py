"""What free capacity is there, frozen, for the engine to decide on?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from django.db import connection

from placement.domain.fit import Place, Want

_SLICES = """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask
  FROM placement_node n
 WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
   AND n.free_count >= %(slots)s AND n.intended <> 'baremetal' {nic}
 ORDER BY n.free_count, n.num LIMIT %(limit)s
"""
_NIC = "AND bit_count((n.free_mask & n.exclusive_mask)::bit(64)) >= %(slots)s"
_WHOLE = """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask
  FROM placement_node n
 WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
   AND n.free_count >= %(slots)s AND n.free_count = n.slot_count AND n.intended <> 'slices'
 ORDER BY n.free_count, n.num LIMIT %(limit)s
"""
_LARGEST = """
SELECT n.free_count FROM placement_node n
 WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
 ORDER BY n.free_count DESC LIMIT 1
"""
_EVER = """
SELECT EXISTS (SELECT FROM placement_node n
 WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.state = 'ready'
   AND n.slot_count >= %(slots)s AND n.intended <> %(unfit)s)
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a SKU may be placed: keys of the pool and family, and the family's size."""

    pool_id: UUID
    family_id: UUID
    family_slots: int


def target(*, pool: str, family: str) -> Target | None:
    """The pool and family of a SKU by name, or None when the inventory has no such thing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.id, f.id, f.slots FROM placement_pool p, placement_nodefamily f "
            "WHERE p.name = %s AND f.name = %s",
            [pool, family],
        )
        row = cursor.fetchone()
    return Target(*row) if row else None


def _params(where: Target, want: Want, limit: int) -> dict[str, UUID | int | str]:
    return {
        "pool": where.pool_id,
        "family": where.family_id,
        "slots": max(want.slots, 1),
        "limit": limit,
    }


@lru_cache(maxsize=2)
def _slices_sql(exclusive: bool) -> str:
    return _SLICES.format(nic=_NIC if exclusive else "")


def candidates(where: Target, want: Want, *, limit: int) -> list[Place]:
    """The best-fitting nodes by free count: an index probe, whatever the fleet's size."""
    sql = _WHOLE if want.whole else _slices_sql(want.exclusive_nic)
    with connection.cursor() as cursor:
        cursor.execute(sql, _params(where, want, limit))
        return [Place(*row) for row in cursor.fetchall()]


def largest_free(where: Target) -> int:
    """The most free slots on any schedulable node of the target."""
    with connection.cursor() as cursor:
        cursor.execute(_LARGEST, _params(where, Want(1), 1))
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def could_ever_fit(where: Target, want: Want) -> bool:
    """Whether an approved node exists that could hold this when empty."""
    unfit = "slices" if want.whole else "baremetal"
    with connection.cursor() as cursor:
        cursor.execute(_EVER, _params(where, want, 1) | {"unfit": unfit})
        row = cursor.fetchone()
    return bool(row and row[0])
