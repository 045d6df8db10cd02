"""Is every part of a GPU within its slot, beside no other, and counted as it is held?"""

from __future__ import annotations

import json
from collections import defaultdict

from django.db import connection

from gpuaas.kernel.audits import Finding, ask
from gpuaas.kernel.scope import platform_scope
from placement.audits.claims import LIVE
from placement.domain.mig import Placement, board_named, conflict_of
from placement.domain.parts import placement_of

_COUNTED = f"""
SELECT * FROM (
    SELECT n.name AS node, k.slot_index AS slot,
           (k.node_num, k.slot_index, k.pool_id, k.family_id, k.taken, k.free_milli, k.state,
            k.memory_used_mib, k.holder, k.open)::text AS kept,
           (n.num, s.index, n.pool_id, n.family_id, coalesce(h.taken, '{{}}'),
            1000 - coalesce(h.milli, 0), coalesce(h.bits, 0), coalesce(h.memory, 0),
            CASE WHEN k.cut = 'share' THEN h.tenant END,
            n.schedulable AND n.takes IN ('any', 'slices') AND k.cut = ANY (n.part_kinds)
              AND s.state = 'approved'
              AND NOT EXISTS (SELECT FROM placement_nodedrain d WHERE d.node_id = n.id
                               AND d.slot_index = s.index AND d.ended_at IS NULL)
              AND NOT EXISTS (SELECT FROM placement_slotresidue r WHERE r.slot_id = s.id
                               AND r.state = 'found')
              AND NOT EXISTS (SELECT FROM placement_claim c WHERE c.node_num = n.num
                               AND c.part IS NULL AND c.state IN {LIVE}
                               AND c.span && int4multirange(
                                   int4range(s.index * 1000, (s.index + 1) * 1000))))::text AS said
      FROM placement_cutslot k
      JOIN placement_slot s ON s.id = k.slot_id
      JOIN placement_node n ON n.id = s.node_id
      LEFT JOIN LATERAL (
           SELECT range_agg(c.span) AS taken,
                  sum((SELECT sum(upper(r) - lower(r)) FROM unnest(c.span) r)) AS milli,
                  bit_or((c.part ->> 'bits')::int) AS bits,
                  sum((c.part ->> 'memory_mib')::int) AS memory,
                  min(c.tenant_id::text)::uuid AS tenant
             FROM placement_claim c
            WHERE c.node_num = n.num AND c.slot_index = s.index AND c.part IS NOT NULL
              AND c.state IN {LIVE}) h ON true) AS compared
 WHERE kept <> said
"""
_ROWS = """
SELECT n.name AS node, s.index AS slot, s.cut, s.state, coalesce(k.cut, 'none') AS row
  FROM placement_slot s JOIN placement_node n ON n.id = s.node_id
  LEFT JOIN placement_cutslot k ON k.slot_id = s.id
 WHERE CASE WHEN s.state = 'retired' OR s.cut = 'whole' THEN k.slot_id IS NOT NULL
            ELSE k.cut IS DISTINCT FROM s.cut END
"""
_UNCUT = f"""
SELECT c.id AS claim, c.part ->> 'kind' AS kind, n.name AS node, s.index AS slot, s.cut
  FROM placement_claim c JOIN placement_node n ON n.id = c.node_id
  JOIN placement_slot s ON s.id = c.slot_id
 WHERE c.state IN {LIVE} AND c.part IS NOT NULL AND s.cut <> c.part ->> 'kind'
"""
_PARENT = f"""
SELECT d.uid, c.id AS claim, o.id AS other
  FROM placement_claim c JOIN placement_slot s ON s.id = c.slot_id
  JOIN placement_claimdevice d ON d.uid = 'gpu:' || s.gpu_uuid AND d.live
  JOIN placement_claim o ON o.id = d.claim_id
 WHERE c.state IN {LIVE} AND c.part IS NOT NULL
"""
_UNHELD = f"""
SELECT c.id AS claim, u.uid
  FROM placement_claim c JOIN placement_slot s ON s.id = c.slot_id
 CROSS JOIN LATERAL (SELECT concat('mig:', s.gpu_uuid, ':', c.part ->> 'start', ':',
                                   c.part ->> 'size') AS uid) u
 WHERE c.state IN {LIVE} AND c.part ->> 'kind' = 'mig'
   AND NOT EXISTS (SELECT FROM placement_claimdevice d
                    WHERE d.claim_id = c.id AND d.uid = u.uid AND d.live)
"""
_SHARES = f"""
SELECT * FROM (
    SELECT n.name AS node, s.index AS slot, sum((c.part ->> 'milli')::int) AS milli,
           sum((c.part ->> 'memory_mib')::bigint) AS memory,
           max(g.memory_bytes) / 1048576 AS has, count(DISTINCT c.tenant_id) AS tenants
      FROM placement_claim c JOIN placement_slot s ON s.id = c.slot_id
      JOIN placement_node n ON n.id = c.node_id
      LEFT JOIN placement_gpudevice g ON g.uuid = s.gpu_uuid
     WHERE c.state IN {LIVE} AND c.part ->> 'kind' = 'share'
     GROUP BY n.name, s.index) AS held
 WHERE milli > 1000 OR tenants > 1 OR has IS NULL OR memory > has
"""
_WIDTHS = f"""
SELECT c.id AS claim, c.span::text AS span, c.part::text AS part
  FROM placement_claim c
  LEFT JOIN placement_cutslot k ON k.slot_id = c.slot_id
 WHERE c.state IN {LIVE} AND c.part IS NOT NULL
   AND (SELECT sum(upper(r) - lower(r)) FROM unnest(c.span) r)
       <> CASE c.part ->> 'kind' WHEN 'share' THEN (c.part ->> 'milli')::int
               ELSE (c.part ->> 'size')::int
                    * (CASE WHEN k.board IN ('a30-24', 'rtx-pro-6000') THEN 250 ELSE 125 END) END
"""
_INSTANCES = f"""
SELECT n.name, s.index, coalesce(k.board, ''), c.part::text
  FROM placement_claim c JOIN placement_node n ON n.id = c.node_id
  JOIN placement_slot s ON s.id = c.slot_id
  LEFT JOIN placement_cutslot k ON k.slot_id = s.id
 WHERE c.state IN {LIVE} AND c.part ->> 'kind' = 'mig'
"""


def parts() -> list[Finding]:
    """Parts are on slots cut for them, valid together, and what is said to be free is."""
    return [
        *ask(
            "cut_state_wrong",
            _COUNTED,
            subject="slot {slot} of {node}",
            detail="it says {kept}; slots, drains, residue and claims say {said}",
        ),
        *ask(
            "cut_row_differs",
            _ROWS,
            subject="slot {slot} of {node}",
            detail="it is {state} and cut as {cut}; what is free is kept for: {row}",
        ),
        *ask(
            "part_on_uncut_slot",
            _UNCUT,
            subject="claim {claim}",
            detail="a {kind} part of slot {slot} of {node}, which is cut as {cut}",
        ),
        *ask(
            "parent_held_beside_part",
            _PARENT,
            subject="device {uid}",
            detail="claim {other} holds all of it, and claim {claim} a part",
        ),
        *ask(
            "instance_not_held",
            _UNHELD,
            subject="claim {claim}",
            detail="it does not hold {uid}",
        ),
        *ask(
            "shares_exceed_gpu",
            _SHARES,
            subject="slot {slot} of {node}",
            detail="{tenants} tenants hold {milli}/1000 with {memory} MiB of {has} MiB",
        ),
        *ask(
            "part_span_wrong",
            _WIDTHS,
            subject="claim {claim}",
            detail="{part} is held as {span}",
        ),
        *_invalid(),
    ]


def _invalid() -> list[Finding]:
    """Instances of one GPU that its geometry does not allow together."""
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(_INSTANCES)
        rows = cursor.fetchall()
    held: dict[tuple[str, int, str], list[Placement]] = defaultdict(list)
    for node, index, board, part in rows:
        held[node, index, board].append(placement_of(json.loads(part)))
    found = []
    for (node, index, name), placements in sorted(held.items()):
        board = board_named(name)
        conflict = conflict_of(board, placements) if board else None
        if board is None or conflict is not None:
            why = f"{conflict.reason}: {', '.join(conflict.spans)}" if conflict else "no board"
            found.append(Finding("instances_conflict", f"slot {index} of {node}", why))
    return found
