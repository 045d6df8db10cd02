"""Which hosts of a pool and family could give or take work, and what on them may be moved?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection

from placement.domain.fit import Held, Place, Want
from placement.models.maintenance import OPEN_THEN
from placement.snapshots.places import LIVE, Target, params_of

MOST_HOSTS = 512
MOST_PIECES = 512
"""So many are looked at, those nearest to the size first; more than that is told."""

_HOSTS: Final = (
    """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask, n.name,
       n.zone, n.rack, n.driver, n.runtime,
       n.takes IN ('any', %(use)s::text) AND n.driver >= %(driver_min)s::int[]
           AND n.runtime >= %(runtime_min)s::int[]
           AND (%(driver_below)s::int[] = '{}'
                OR (n.driver <> '{}' AND n.driver < %(driver_below)s::int[])),
       coalesce((SELECT bit_or(1::bigint << s.index) FROM placement_slot s
                  WHERE s.node_id = n.id AND s.state = 'approved'
                    AND NOT EXISTS (SELECT FROM placement_nodedrain d
                         WHERE d.node_id = n.id AND d.slot_index = s.index
                           AND d.ended_at IS NULL)
                    AND NOT EXISTS (SELECT FROM placement_slotresidue r
                         WHERE r.slot_id = s.id AND r.state = 'found')), 0)
  FROM placement_node n
 WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.schedulable
   AND (n.fabric || n.fabric_seen = '' OR NOT EXISTS (
        SELECT FROM placement_claim f WHERE f.alone > 0 AND f.state IN """
    + LIVE
    + """))
   AND """
    + OPEN_THEN
    + """
 ORDER BY n.free_count = 0, n.free_count = n.slot_count, n.free_count DESC, n.num
 LIMIT %(limit)s OFFSET %(skip)s
"""
)
_HELD: Final = (
    """
SELECT c.node_num, c.allocation_id, c.tenant_id, max(c.alone),
       bit_or(CASE WHEN c.slot_index < 0 THEN -1::bigint ELSE 1::bigint << c.slot_index END)
  FROM placement_claim c WHERE c.node_num = ANY (%(nums)s) AND c.state IN """
    + LIVE
    + """ GROUP BY c.node_num, c.allocation_id, c.tenant_id
"""
)
_MOVABLE: Final = """
SELECT a.id, a.name, t.slug, a.slots, n.num, w.id, w.kind, w.name,
       greatest(0, extract(epoch FROM statement_timestamp() - a.active_at))::bigint,
       w.spec ->> 'checkpoint_s'
  FROM placement_allocation a
  JOIN placement_node n ON n.id = a.node_id
  JOIN admission_workload w ON w.id = a.workload_id
  JOIN tenants_tenant t ON t.id = a.tenant_id
  JOIN tenants_slatier s ON s.id = t.tier_id
  JOIN tenants_sku k ON k.id = a.sku_id AND k.shape = 'gpu_slice'
 WHERE n.num = ANY (%(nums)s) AND a.state = 'active' AND a.slots > 0
   AND w.state = 'admitted' AND w.spec -> 'movable' = 'true'::jsonb
   AND (w.replicas = 1 OR (coalesce(w.spec ->> 'together', '') = ''
                           AND w.spec -> 'apart' IS DISTINCT FROM 'true'::jsonb))
   AND w.replicas = (SELECT count(*) FROM placement_allocation o WHERE o.workload_id = w.id
                        AND o.state IN ('placed', 'provisioning', 'active'))
   AND NOT EXISTS (SELECT FROM admission_admissionrequest q
                    WHERE q.workload_id = w.id AND q.state = 'queued')
   AND a.active_at + make_interval(secs => s.protected_run_s) <= statement_timestamp()
 ORDER BY a.slots, a.id LIMIT %(limit)s
"""


_STAYS: Final = """
SELECT CASE WHEN k.shape IN ('mig', 'gpu_share') THEN 'move_part'
            WHEN w.id IS NULL THEN 'move_lease'
            WHEN w.spec -> 'movable' IS DISTINCT FROM 'true'::jsonb THEN 'move_not_declared'
            ELSE 'move_not_now' END AS code, count(*)::int
  FROM placement_allocation a
  JOIN placement_node n ON n.id = a.node_id
  JOIN tenants_sku k ON k.id = a.sku_id
  LEFT JOIN admission_workload w ON w.id = a.workload_id
 WHERE n.num = ANY (%(nums)s) AND a.state <> 'released' AND NOT a.id = ANY (%(moves)s)
 GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A host as the planner sees it, with its name, its place, and what it is to be had of."""

    place: Place
    name: str
    zone: str
    rack: str
    driver: tuple[int, ...]
    runtime: tuple[int, ...]
    wanted: bool
    """Whether the size that room is made for may go there at all."""
    clean: int


@dataclass(frozen=True, slots=True)
class Movable:
    """An allocation of a workload that was declared movable, and how long it has run, in seconds.

    ``checkpoint_s``: its work is kept at least so often; None where nobody said.
    """

    id: UUID
    name: str
    tenant: str
    slots: int
    num: int
    mask: int
    workload_id: UUID
    kind: str
    workload: str
    ran_s: int
    checkpoint_s: int | None

    @property
    def lost_milli(self) -> int:
        """Thousandths of a GPU-hour that a restart loses; a service loses none."""
        if self.kind != "job":
            return 0
        lost_s = self.ran_s if self.checkpoint_s is None else min(self.ran_s, self.checkpoint_s)
        return self.slots * lost_s * 1000 // 3600


def standing_hosts(where: Target, want: Want, *, skip: int = 0) -> tuple[list[Standing], bool]:
    """The hosts that take work, with who holds what; and whether these are the last of them.

    At most MOST_HOSTS, after the first ``skip``. No host is among them on which maintenance begins
    too early for work without an end. Hosts of an NVLink domain that spans hosts are left out
    while anybody was promised wiring.
    """
    params = {**params_of(where, want), "lasts": None, "limit": MOST_HOSTS + 1, "skip": skip}
    with connection.cursor() as cursor:
        cursor.execute(_HOSTS, params)
        rows = cursor.fetchall()
        held = _held(cursor, [row[0] for row in rows[:MOST_HOSTS]])
    found = [_standing(row, held.get(row[0], {})) for row in rows[:MOST_HOSTS]]
    return found, len(rows) <= MOST_HOSTS


def _held(cursor: Any, nums: Sequence[int]) -> dict[int, dict[UUID, Held]]:
    cursor.execute(_HELD, {"nums": list(nums)})
    found: dict[int, dict[UUID, Held]] = {}
    for num, allocation, tenant, alone, mask in cursor.fetchall():
        found.setdefault(num, {})[allocation] = Held(tenant, mask, alone)
    return found


def _standing(row: Sequence[Any], held: dict[UUID, Held]) -> Standing:
    num, generation, free, count, layout, exclusive, name, zone, rack, *more = row
    driver, runtime, wanted, clean = more
    every = (1 << count) - 1
    kept = tuple(Held(h.tenant, h.mask & every, h.alone) for h in held.values())
    return Standing(
        Place(num, generation, free, count, layout, exclusive, kept),
        name,
        zone,
        rack,
        tuple(driver),
        tuple(runtime),
        wanted,
        clean,
    )


def movable_on(nums: Sequence[int]) -> tuple[list[Movable], bool]:
    """What on these hosts may be moved now, the smallest first; and whether that is all of it.

    Active replicas of admitted workloads that were declared movable, past the tier's protected
    run time, while nothing else is being done with the workload.
    """
    with connection.cursor() as cursor:
        held = _held(cursor, nums)
        cursor.execute(_MOVABLE, {"nums": list(nums), "limit": MOST_PIECES + 1})
        rows = cursor.fetchall()
    found = []
    for row in rows[:MOST_PIECES]:
        allocation, name, tenant, slots, num, workload_id, kind, workload, ran_s, checkpoint = row
        mine = held.get(num, {}).get(allocation)
        if mine is not None and mine.mask.bit_count() == slots:
            found.append(
                Movable(
                    allocation,
                    name,
                    tenant,
                    slots,
                    num,
                    mine.mask,
                    workload_id,
                    kind,
                    workload,
                    int(ran_s),
                    int(checkpoint) if checkpoint and checkpoint.isdecimal() else None,
                )
            )
    return found, len(rows) <= MOST_PIECES


def staying_on(nums: Sequence[int], movable: Sequence[UUID]) -> dict[str, int]:
    """How many other allocations stay on these hosts, by the code of why they are not moved."""
    with connection.cursor() as cursor:
        cursor.execute(_STAYS, {"nums": list(nums), "moves": list(movable)})
        return dict(cursor.fetchall())
