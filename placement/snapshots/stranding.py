"""Which hosts are alike for the account of idle capacity?  One aggregate over the fleet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from django.db import connection

from placement.domain.part_stranding import CutSlots, SoldPart
from placement.domain.parts import KINDS, PartAsk
from placement.domain.stranding import (
    CLEANUP,
    DRAINING,
    KEPT,
    MAINTENANCE,
    UNHEALTHY,
    WINDOW,
    Hosts,
    Sold,
)
from placement.domain.terms import merged
from placement.snapshots.places import LIVE

WHOLE: Final = ("gpu_slice", "baremetal")
SHAPES: Final = dict(zip(("mig", "gpu_share"), KINDS, strict=True))
"""The shapes that are parts, and the kinds of their parts."""
PARTS: Final = tuple(SHAPES)
Home = tuple[str, str]
"""Names of a pool and a family."""

_HOST: Final = (
    """
WITH slot AS (
    SELECT s.node_id, bit_or(1::bigint << s.index) AS whole
      FROM placement_slot s WHERE s.state IN ('approved', 'blocked') AND s.cut = 'whole'
     GROUP BY s.node_id),
held AS (
    SELECT c.node_num,
           bit_or(CASE WHEN c.slot_index < 0 THEN -1::bigint
                       ELSE 1::bigint << c.slot_index END) AS mask,
           bit_or(CASE WHEN c.alone = 1 AND c.slot_index >= 0
                       THEN 1::bigint << c.slot_index ELSE 0 END) AS promised,
           bit_or(CASE WHEN c.state = 'cleanup_blocked' AND c.slot_index >= 0
                       THEN 1::bigint << c.slot_index
                       WHEN c.state = 'cleanup_blocked' THEN -1::bigint ELSE 0 END) AS blocked,
           max(c.alone) AS alone
      FROM placement_claim c WHERE c.state IN """
    + LIVE
    + """ GROUP BY c.node_num),
domain AS (
    SELECT m.fabric, count(*) AS hosts, max(h.alone) AS alone,
           count(*) FILTER (WHERE h.alone > 0) AS promising
      FROM placement_node m JOIN held h ON h.node_num = m.num
     WHERE m.fabric <> '' GROUP BY m.fabric),
drained AS (
    SELECT d.node_id, bool_or(d.slot_index IS NULL) AS whole,
           coalesce(bit_or(1::bigint << d.slot_index) FILTER (WHERE d.slot_index IS NOT NULL), 0)
               AS mask
      FROM placement_nodedrain d WHERE d.ended_at IS NULL GROUP BY d.node_id),
host AS (
    SELECT n.num, p.name AS pool, f.name AS family, n.slot_count, n.free_mask, n.layout,
           n.exclusive_mask, n.takes AS intended, n.driver, n.runtime,
           n.num = ANY (%(kept)s) AS kept,
           CASE WHEN n.schedulable AND (n.open_until IS NULL
                                       OR n.open_until > statement_timestamp()) THEN ''
                WHEN EXISTS (SELECT FROM placement_defragmentation m
                              WHERE m.host_id = n.id AND m.ended_at IS NULL) THEN '"""
    + KEPT
    + """'
                WHEN n.schedulable THEN '"""
    + WINDOW
    + """'
                WHEN n.state IN ('maintenance', 'quarantined') THEN '"""
    + MAINTENANCE
    + """'
                WHEN coalesce(drained.whole, false) THEN '"""
    + DRAINING
    + """' ELSE '"""
    + UNHEALTHY
    + """' END AS state,
           (1::bigint << n.slot_count) - 1 AS every,
           coalesce(slot.whole, 0) AS whole,
           coalesce(held.mask, 0) & ~coalesce(held.blocked, 0) AS mask,
           coalesce(held.promised, 0) AS promised, coalesce(held.blocked, 0) AS blocked,
           coalesce(held.alone, 0) = 2 OR coalesce(domain.promising, 0)
               > (CASE WHEN held.alone > 0 THEN 1 ELSE 0 END) AS closed,
           coalesce(domain.hosts, 0) > (CASE WHEN held.node_num IS NULL THEN 0 ELSE 1 END)
               AS domain_held,
           coalesce(drained.mask, 0) AS drained
      FROM placement_node n
      JOIN placement_pool p ON p.id = n.pool_id
      JOIN placement_nodefamily f ON f.id = n.family_id
      LEFT JOIN slot ON slot.node_id = n.id
      LEFT JOIN held ON held.node_num = n.num
      LEFT JOIN domain ON domain.fabric = n.fabric AND n.fabric <> ''
      LEFT JOIN drained ON drained.node_id = n.id
     WHERE n.state IN ('ready', 'maintenance', 'quarantined') AND n.slot_count > 0)
"""
)
_HOSTS: Final = (
    _HOST
    + """
SELECT pool, family, count(*), slot_count, free_mask, layout, exclusive_mask, intended, driver,
       runtime, kept, state, mask & every, promised, closed, domain_held,
       bit_count((whole & ~mask)::bit(64))::int,
       bit_count((drained & whole & ~mask & ~blocked & ~free_mask)::bit(64))::int
  FROM host
 GROUP BY pool, family, slot_count, free_mask, layout, exclusive_mask, intended, driver, runtime,
          kept, state, mask & every, promised, closed, domain_held,
          bit_count((whole & ~mask)::bit(64)),
          bit_count((drained & whole & ~mask & ~blocked & ~free_mask)::bit(64))
"""
)
_CUTS: Final = (
    _HOST
    + """
SELECT h.pool, h.family, count(*), h.slot_count, 1::bigint << k.slot_index, h.layout,
       h.exclusive_mask, h.intended, h.driver, h.runtime, h.kept,
       CASE WHEN h.state <> '' THEN h.state WHEN k.open THEN ''
            WHEN h.drained >> k.slot_index & 1 = 1 THEN '"""
    + DRAINING
    + """'
            WHEN s.state = 'blocked' OR EXISTS (
                 SELECT FROM placement_slotresidue r
                  WHERE r.slot_id = s.id AND r.state = 'found') THEN '"""
    + CLEANUP
    + "' ELSE '"
    + UNHEALTHY
    + """' END,
       h.mask & h.every, h.promised, h.closed, h.domain_held,
       k.cut, k.board, k.state, k.free_milli, k.memory_mib, k.memory_used_mib,
       k.holder IS NOT NULL
  FROM host h JOIN placement_cutslot k ON k.node_num = h.num
  JOIN placement_slot s ON s.id = k.slot_id
 GROUP BY 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
"""
)
_SOLD: Final = """
SELECT s.name, s.pool, s.family, s.shape, s.slots_min, s.slots_max, s.exclusive_nic,
       s.part_profile, s.part_milli, s.part_memory_mib,
       coalesce((SELECT json_agg(json_build_object(
                     'alone', t.alone, 'own', '', 'driver_min', t.driver_min,
                     'driver_below', t.driver_below, 'runtime_min', t.runtime_min,
                     'tenants', '[]'::json))
                   FROM placement_placementterms t
                  WHERE t.about IN ('sku:' || s.name, 'pool:' || s.pool)), '[]'::json)::text
  FROM tenants_sku s
 WHERE s.state = 'published' AND s.shape = ANY (%(shapes)s)
   AND (%(sku)s = '' OR s.name = %(sku)s) ORDER BY s.name
"""


def idle_hosts(kept: Iterable[int] = ()) -> dict[Home, list[Hosts]]:
    """The hosts and their slots that are sold whole, in groups that are alike, by their home.

    One statement whose answer grows with the number of patterns, not of hosts. ``kept`` are the
    numbers of nodes that are kept for who waits.
    """
    found: dict[Home, list[Hosts]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_HOSTS, {"kept": list(kept)})
        for row in cursor.fetchall():
            found.setdefault((row[0], row[1]), []).append(_hosts(row))
    return found


def cut_slots(kept: Iterable[int] = ()) -> dict[Home, list[CutSlots]]:
    """The slots that are sold in parts, in groups that are alike, by their home."""
    found: dict[Home, list[CutSlots]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_CUTS, {"kept": list(kept)})
        for row in cursor.fetchall():
            host, cut = _hosts((*row[:16], 1, 0)), row[16:]
            found.setdefault((row[0], row[1]), []).append(CutSlots(row[2], host, *cut))
    return found


def _hosts(row: tuple[Any, ...]) -> Hosts:
    _, _, hosts, slots, free, layout, exclusive, intended, driver, runtime, *more = row
    kept, state, held, promised, closed, domain_held, idle, drained = more
    return Hosts(
        hosts=hosts,
        slots=slots,
        free=free,
        idle=idle,
        layout=layout,
        exclusive=exclusive,
        held=held,
        promised=promised,
        closed=closed,
        domain_held=domain_held,
        state=state,
        drained=drained,
        intended=intended,
        driver=tuple(driver),
        runtime=tuple(runtime),
        kept=kept,
    )


def sold_now(sku: str = "") -> list[tuple[Home, Sold]]:
    """Every published product of whole slots or hosts, or one: its home, and what it needs.

    Its terms are those of the product and of its pool.
    """
    return [
        (
            (pool, family),
            Sold(
                sku=name,
                least=1 if shape == "baremetal" else least,
                most=0 if shape == "baremetal" else most,
                exclusive_nic=nic and shape != "baremetal",
                terms=merged(json.loads(terms)),
            ),
        )
        for name, pool, family, shape, least, most, nic, *_, terms in _sold(sku, WHOLE)
    ]


def parts_sold_now(sku: str = "") -> list[tuple[Home, SoldPart]]:
    """The same of every published product that is a part of a GPU, or of one."""
    return [
        (
            (pool, family),
            SoldPart(
                PartAsk(*_ask(shape, profile, milli, memory)),
                Sold(sku=name, least=1, most=1, terms=merged(json.loads(terms))),
            ),
        )
        for name, pool, family, shape, *_, profile, milli, memory, terms in _sold(
            sku, tuple(SHAPES)
        )
    ]


def _ask(shape: str, profile: str, milli: int | None, memory: int | None) -> tuple[Any, ...]:
    return SHAPES[shape], profile, milli or 0, memory or 0


def _sold(sku: str, shapes: tuple[str, ...]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_SOLD, {"sku": sku, "shapes": list(shapes)})
        return list(cursor.fetchall())
