"""How much stands, waits or is blocked now under each reason code?"""

from __future__ import annotations

from typing import Final

from gpuaas.kernel import prepared

_STANDING: Final = """
SELECT code, sum(n)::int FROM (
    SELECT 'drift_' || d.kind AS code, count(*) AS n
      FROM placement_drift d WHERE d.state IN ('open', 'escalated') GROUP BY d.kind
    UNION ALL
    SELECT 'breaker_held', count(*) FROM placement_automaticaction a WHERE a.state = 'held'
    UNION ALL
    SELECT 'cleanup_blocked', count(*)
      FROM placement_allocation l WHERE l.state = 'cleanup_blocked'
    UNION ALL
    SELECT 'node_silent', count(*) FROM placement_node s
     WHERE s.health = 'unknown' AND s.state NOT IN ('retired', 'enrolling')
       AND s.last_seen_at IS NOT NULL
    UNION ALL
    SELECT r.code, count(*) FROM admission_admissionrequest r
     WHERE r.state = 'queued' AND r.code <> '' GROUP BY r.code
    UNION ALL
    SELECT m ->> 'code', count(*)
      FROM placement_nodecapability c
      JOIN placement_node n ON n.id = c.node_id AND n.state <> 'retired'
     CROSS JOIN jsonb_array_elements(c.misses) m
     GROUP BY m ->> 'code'
    UNION ALL
    SELECT f ->> 'code', count(*)
      FROM placement_devicehealth h
      JOIN placement_node n ON n.id = h.node_id AND n.state <> 'retired'
     CROSS JOIN jsonb_array_elements(h.findings) f
     GROUP BY f ->> 'code'
) AS each GROUP BY code HAVING sum(n) > 0
"""


def reasons_standing() -> dict[str, int]:
    """How many differences, held actions, blocked cleanups, silent nodes, waiting requests,
    misses of evidence and findings of devices stand now, by code; one statement."""
    return {str(code): int(count) for code, count in prepared.rows(_STANDING, ())}
