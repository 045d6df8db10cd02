"""Does nobody share what somebody was promised alone?"""

from __future__ import annotations

from collections import defaultdict

from django.db import connection

from gpuaas.kernel.audits import Finding
from gpuaas.kernel.scope import platform_scope
from placement.audits.claims import LIVE
from placement.domain.terms import Alone
from placement.domain.wiring import beside

_HELD = f"""
SELECT n.name, ARRAY(SELECT DISTINCT x FROM unnest(ARRAY[n.fabric, n.fabric_seen]) x WHERE x <> ''),
       n.layout, n.slot_count, c.tenant_id, c.alone,
       bit_or(CASE WHEN c.slot_index < 0 THEN (1::bigint << n.slot_count) - 1
                   ELSE 1::bigint << c.slot_index END)
  FROM placement_claim c JOIN placement_node n ON n.num = c.node_num
 WHERE c.state IN {LIVE}
   AND (EXISTS (SELECT FROM placement_claim f WHERE f.node_num = n.num AND f.alone > 0
                   AND f.state IN {LIVE})
        OR (n.fabric || n.fabric_seen <> '' AND EXISTS (
            SELECT FROM placement_node m JOIN placement_claim f ON f.node_num = m.num
             WHERE ((m.fabric <> '' AND m.fabric IN (n.fabric, n.fabric_seen))
                    OR (m.fabric_seen <> '' AND m.fabric_seen IN (n.fabric, n.fabric_seen)))
               AND f.alone > 0 AND f.state IN {LIVE})))
 GROUP BY 1, 2, 3, 4, 5, 6
"""


def wiring() -> list[Finding]:
    """No switch, NVLink domain, NIC or host is shared where either side was promised it alone."""
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(_HELD)
        rows = cursor.fetchall()
    found = []
    hosts, fabrics = defaultdict(list), defaultdict(list)
    for row in rows:
        hosts[row[0]].append(row)
        for fabric in row[1]:
            fabrics[fabric].append(row)
    for name, held in hosts.items():
        for _, _, layout, count, tenant, alone, mask in held:
            fenced = beside(layout, count, mask) if alone != Alone.NODE else (1 << count) - 1
            others = [o for o in held if alone and o[4] != tenant and o[6] & fenced]
            found += [
                Finding(
                    "wiring_shared",
                    f"node {name}",
                    f"tenant {tenant} was promised {Alone(alone).name.lower()} alone, and "
                    f"tenant {other[4]} holds slots beside it",
                )
                for other in others
            ]
    for fabric, held in fabrics.items():
        promised = {row[4] for row in held if row[5]}
        present = {row[4] for row in held}
        if promised and len(present) > 1:
            found.append(
                Finding(
                    "fabric_shared",
                    f"NVLink domain {fabric}",
                    f"{len(present)} tenants are in it, and {len(promised)} were promised it alone",
                )
            )
    return found
