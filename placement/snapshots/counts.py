"""How many nodes of a pool are alike?  One aggregate, for the account of a refusal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from gpuaas.kernel import prepared
from placement.domain.fit import Want
from placement.domain.reasons import Group
from placement.domain.terms import Own
from placement.models.maintenance import OPEN_THEN, SETTLE_S
from placement.models.task import OPEN_BURN_IN
from placement.snapshots.keeping import Kept
from placement.snapshots.places import FENCED, LIVE, NEVER_HERE, Target

SMALL = 200
"""Pools up to this many nodes are counted anew for every refusal."""
KEPT_S = 2.0
"""How long the count of a larger pool stands for, so that refusals do not cost by its size."""

_CENSUS: Final = (
    """
SELECT count(*)::int, n.state, n.draining, n.health, n.schedulable, n.intended, n.takes, n.near,
       n.driver, n.runtime, n.slot_count, n.free_count, n.nic_free, n.closing,
       max(n.until_s)::bigint, n.own, n.never
  FROM (SELECT CASE WHEN NOT n.schedulable AND EXISTS (
                         SELECT FROM placement_defragmentation m
                          WHERE m.host_id = n.id AND m.ended_at IS NULL)
                    THEN 'held'
                    WHEN NOT n.schedulable AND n.state = 'ready' AND (
                         n.conditions @> '[{"code": "burn_in_runs"}]' OR EXISTS (
                         SELECT FROM placement_nodetask t
                          WHERE t.node_id = n.id AND """
    + OPEN_BURN_IN
    + """))
                    THEN 'burning' ELSE n.state END AS state,
               n.health, n.schedulable, n.intended, n.takes, n.driver, n.runtime, n.slot_count,
               n.free_count, NOT """
    + OPEN_THEN
    + """ AS closing,
               extract(epoch FROM n.free_until - statement_timestamp()) AS until_s,
               NOT n.schedulable AND EXISTS (
                    SELECT FROM placement_nodedrain d
                     WHERE d.node_id = n.id AND d.slot_index IS NULL AND d.ended_at IS NULL
               ) AS draining,
               (%(zones)s::text[] = '{}' OR n.zone = ANY (%(zones)s))
                   AND (%(racks)s::text[] = '{}' OR n.rack = ANY (%(racks)s))
                   AND (%(nodes)s::text[] = '{}' OR n.name = ANY (%(nodes)s)) AS near,
               CASE WHEN %(nic)s::bool
                    THEN bit_count((n.free_mask & n.exclusive_mask)::bit(64))::int
                    ELSE 0 END AS nic_free,
               CASE WHEN %(own)s::bool THEN EXISTS (
                    SELECT FROM placement_claim c
                     WHERE c.node_num = n.num AND c.tenant_id = %(tenant)s AND c.state IN """
    + LIVE
    + """) END AS own,
               %(never)s::uuid[] <> '{}' AND """
    + NEVER_HERE
    + """ AS never
          FROM placement_node n
         WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.state <> 'retired') AS n
 GROUP BY n.state, n.draining, n.health, n.schedulable, n.intended, n.takes, n.near, n.driver,
          n.runtime, n.slot_count, n.free_count, n.nic_free, n.closing, n.own,
          n.never
"""
)
_OUTSIDE: Final = """
SELECT count(*) FILTER (WHERE n.family_id <> %(family)s)::int,
       count(*) FILTER (WHERE n.family_id = %(family)s AND n.pool_id <> %(pool)s)::int
  FROM placement_node n WHERE n.state <> 'retired'
"""
_PROMISED: Final = "SELECT " + FENCED
_kept: Kept[tuple[Group, ...]] = Kept(seconds=KEPT_S)
_beyond: Kept[tuple[int, int]] = Kept(seconds=KEPT_S)


def census(where: Target, want: Want) -> tuple[Group, ...]:
    """The nodes of a pool and family in groups that are alike in what is asked about.

    Of a large pool the answer may be up to ``KEPT_S`` seconds old.
    """
    params = {**params_of_census(where, want), "nic": want.exclusive_nic}

    def read() -> tuple[Group, ...]:
        return tuple(_group(row) for row in prepared.rows(_CENSUS, params))

    return _kept.of(
        (*key_of_census(where, want), want.exclusive_nic),
        read,
        keep=lambda groups: sum(group.hosts for group in groups) > SMALL,
    )


def outside(where: Target) -> tuple[int, int]:
    """How many nodes are of another family, and of this family in another pool.

    Of a large fleet the answer may be up to ``KEPT_S`` seconds old.
    """
    params = {"pool": where.pool_id, "family": where.family_id}

    def read() -> tuple[int, int]:
        ((families, pools),) = prepared.rows(_OUTSIDE, params)
        return families, pools

    key = (where.pool_id, where.family_id)
    return _beyond.of(key, read, keep=lambda counts: sum(counts) > SMALL)


def isolation_promised() -> bool:
    """Whether anybody holds anything beside which others may be kept off."""
    ((promised,),) = prepared.rows(_PROMISED, ())
    return bool(promised)


def key_of_census(where: Target, want: Want) -> tuple[Hashable, ...]:
    """What a count depends on; whose it is only where that binds the choice of hosts."""
    own = want.tenant if want.terms.own != Own.ANY else None
    return (where, own, want.terms.never, want.lasts_s)


def params_of_census(where: Target, want: Want) -> dict[str, Any]:
    """The values that every count of a pool and family takes."""
    near = where.near
    return {
        "pool": where.pool_id,
        "family": where.family_id,
        "zones": list(near.zones),
        "racks": list(near.racks),
        "nodes": list(near.nodes),
        "own": want.terms.own != Own.ANY,
        "tenant": want.tenant,
        "never": list(want.terms.never),
        "lasts": want.lasts_s,
    }


def _group(row: Sequence[Any]) -> Group:
    hosts, state, draining, health, works, intended, takes, here, *rest = row
    driver, runtime, slots, free, nic, closing, until_s, own, never = rest
    return Group(
        hosts=hosts,
        state=state,
        draining=draining,
        health=health,
        schedulable=works,
        intended=intended,
        takes=takes,
        near=here,
        driver=tuple(driver),
        runtime=tuple(runtime),
        slot_count=slots,
        free_count=free,
        nic_free=nic,
        own=own,
        never=never,
        closing=closing,
        fits_s=max(0, until_s - SETTLE_S) if until_s is not None else None,
    )
