"""How many cut slots of a pool are alike?  One aggregate, for the account of a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpuaas.kernel import prepared
from placement.domain.fit import Want
from placement.domain.parts import CutState
from placement.domain.reasons import Group
from placement.models.maintenance import OPEN_THEN
from placement.models.task import OPEN_BURN_IN
from placement.snapshots.counts import KEPT_S, SMALL, key_of_census, params_of_census
from placement.snapshots.keeping import Kept
from placement.snapshots.places import LIVE, NEVER_HERE, Target

_CENSUS: Final = (
    """
SELECT count(*)::int, q.*
  FROM (SELECT CASE WHEN NOT n.schedulable AND n.state = 'ready' AND (
                         n.conditions @> '[{"code": "burn_in_runs"}]' OR EXISTS (
                         SELECT FROM placement_nodetask t
                          WHERE t.node_id = n.id AND """
    + OPEN_BURN_IN
    + """))
                    THEN 'burning' ELSE n.state END AS state,
               NOT n.schedulable AND EXISTS (
                    SELECT FROM placement_nodedrain d
                     WHERE d.node_id = n.id AND d.slot_index IS NULL AND d.ended_at IS NULL
               ) AS draining,
               n.health, n.schedulable, n.intended, n.takes,
               (%(zones)s::text[] = '{}' OR n.zone = ANY (%(zones)s))
                   AND (%(racks)s::text[] = '{}' OR n.rack = ANY (%(racks)s))
                   AND (%(nodes)s::text[] = '{}' OR n.name = ANY (%(nodes)s)) AS near,
               n.driver, n.runtime,
               CASE WHEN %(own)s::bool THEN EXISTS (
                    SELECT FROM placement_claim c
                     WHERE c.node_num = n.num AND c.tenant_id = %(tenant)s AND c.state IN """
    + LIVE
    + """) END AS own,
               %(never)s::uuid[] <> '{}' AND """
    + NEVER_HERE
    + """ AS never,
               k.cut, k.board, k.state AS used, k.free_milli, k.memory_mib, k.memory_used_mib,
               k.holder, k.open, NOT """
    + OPEN_THEN
    + """ AS closing
          FROM placement_cutslot k JOIN placement_node n ON n.id = k.node_id
         WHERE k.pool_id = %(pool)s AND k.family_id = %(family)s AND n.state <> 'retired') AS q
 GROUP BY q.state, q.draining, q.health, q.schedulable, q.intended, q.takes, q.near, q.driver,
          q.runtime, q.own, q.never, q.cut, q.board, q.used, q.free_milli, q.memory_mib,
          q.memory_used_mib, q.holder, q.open, q.closing
"""
)
Groups = tuple[tuple[Group, CutState], ...]
_kept: Kept[Groups] = Kept(seconds=KEPT_S)


def part_census(where: Target, want: Want) -> Groups:
    """The cut slots of a pool and family in groups that are alike in what is asked about.

    Of a large pool the answer may be up to ``KEPT_S`` seconds old.
    """

    def read() -> Groups:
        return tuple(_group(row) for row in prepared.rows(_CENSUS, params_of_census(where, want)))

    return _kept.of(
        key_of_census(where, want),
        read,
        keep=lambda groups: sum(group.hosts for group, _ in groups) > SMALL,
    )


def _group(row: Sequence[Any]) -> tuple[Group, CutState]:
    slots, state, draining, health, works, intended, takes, here, *rest = row
    driver, runtime, own, never, *cut = rest
    kind, board, used, free, memory, memory_used, holder, is_open, closing = cut
    group = Group(
        hosts=slots,
        state=state,
        draining=draining,
        health=health,
        schedulable=works,
        intended=intended,
        takes=takes,
        near=here,
        driver=tuple(driver),
        runtime=tuple(runtime),
        slot_count=1,
        free_count=1,
        nic_free=0,
        own=own,
        never=never,
        closing=closing,
    )
    # Where on the GPU the free milli are does not matter here.
    taken = ((free, 1000),) if free < 1000 else ()
    return group, CutState(-1, kind, board, used, taken, memory, memory_used, holder, is_open)
