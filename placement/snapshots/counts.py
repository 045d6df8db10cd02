"""How many nodes of a pool are alike?  One aggregate, for the account of a refusal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from gpuaas.kernel import clock, prepared
from placement.domain.fit import Want
from placement.domain.reasons import Group
from placement.domain.terms import Own
from placement.snapshots.places import LIVE, OPEN_THEN, SETTLE_S, Target

SMALL = 200
"""Pools up to this many nodes are counted anew for every refusal."""
KEPT_S = 2.0
"""How long the count of a larger pool stands for, so that refusals do not cost by its size."""
KEPT = 256

_CENSUS: Final = (
    """
SELECT count(*)::int, n.state, n.draining, n.health, n.schedulable, n.intended, n.takes, n.near,
       n.driver, n.runtime, n.slot_count, n.free_count, n.nic_free, n.closing,
       max(n.until_s)::bigint, n.own
  FROM (SELECT CASE WHEN NOT n.schedulable AND EXISTS (
                         SELECT FROM placement_defragmentation m
                          WHERE m.host_id = n.id AND m.ended_at IS NULL)
                    THEN 'held' ELSE n.state END AS state,
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
    + """) END AS own
          FROM placement_node n
         WHERE n.pool_id = %(pool)s AND n.family_id = %(family)s AND n.state <> 'retired') AS n
 GROUP BY n.state, n.draining, n.health, n.schedulable, n.intended, n.takes, n.near, n.driver,
          n.runtime, n.slot_count, n.free_count, n.nic_free, n.closing, n.own
"""
)
_kept: OrderedDict[Any, tuple[float, tuple[Group, ...]]] = OrderedDict()


def census(where: Target, want: Want) -> tuple[Group, ...]:
    """The nodes of a pool and family in groups that are alike in what is asked about.

    Of a large pool the answer may be up to ``KEPT_S`` seconds old.
    """
    own = want.terms.own != Own.ANY
    key = (where, want.exclusive_nic, want.tenant if own else None, want.lasts_s)
    now = clock.monotonic()
    found = _kept.get(key)
    if found is not None and now - found[0] < KEPT_S:
        return found[1]
    near = where.near
    rows = prepared.rows(
        _CENSUS,
        {
            "pool": where.pool_id,
            "family": where.family_id,
            "zones": list(near.zones),
            "racks": list(near.racks),
            "nodes": list(near.nodes),
            "nic": want.exclusive_nic,
            "own": own,
            "tenant": want.tenant,
            "lasts": want.lasts_s,
        },
    )
    groups = tuple(_group(row) for row in rows)
    if sum(group.hosts for group in groups) > SMALL:
        _kept[key] = (now, groups)
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    else:
        _kept.pop(key, None)
    return groups


def _group(row: Sequence[Any]) -> Group:
    hosts, state, draining, health, works, intended, takes, here, *rest = row
    driver, runtime, slots, free, nic, closing, until_s, own = rest
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
        closing=closing,
        fits_s=max(0, until_s - SETTLE_S) if until_s is not None else None,
    )
