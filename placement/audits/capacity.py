"""Is what is counted and shown equal to what is held?"""

from __future__ import annotations

import json
import time

from django.db import connection

from gpuaas.kernel.audits import Finding, ask
from gpuaas.kernel.scope import platform_scope
from placement.audits.claims import HELD, LIVE
from placement.domain.capacity import NodeFacts, schedulable
from placement.domain.readiness import takes_of
from placement.domain.residue import blocking_codes
from placement.models import Node
from placement.models.task import OPEN_BURN_IN
from placement.selectors import postures_of

SETTLE_S = 11.0
"""Two periods of the projection: who differs for longer is not being refreshed."""

_FREE = f"""
SELECT * FROM (
    SELECT n.name AS node, n.free_mask, n.free_count,
           coalesce((SELECT bit_or(1::bigint << s.index) FROM placement_slot s
             WHERE s.node_id = n.id AND s.state = 'approved' AND s.cut = 'whole'
               AND NOT EXISTS (SELECT FROM placement_nodedrain d WHERE d.node_id = n.id
                                AND d.slot_index = s.index AND d.ended_at IS NULL)
               AND NOT EXISTS (SELECT FROM placement_slotresidue r WHERE r.slot_id = s.id
                                AND r.state = 'found')
               AND NOT EXISTS (SELECT FROM placement_claim c WHERE c.node_num = n.num
                                AND c.state IN {LIVE} AND c.span && int4multirange(
                                    int4range(s.index * 1000, (s.index + 1) * 1000)))), 0) AS mask
      FROM placement_node n) AS counted
 WHERE mask <> free_mask OR bit_count(mask::bit(64)) <> free_count
"""
_SCHEDULABLE = f"""
SELECT n.name, n.schedulable, n.state, n.health, n.conditions, n.free_count,
       (SELECT count(*) FROM placement_slot s WHERE s.node_id = n.id AND s.state = 'approved'),
       EXISTS (SELECT FROM placement_nodedrain d WHERE d.node_id = n.id
                AND d.slot_index IS NULL AND d.ended_at IS NULL),
       EXISTS (SELECT FROM placement_defragmentation m
                WHERE m.host_id = n.id AND m.ended_at IS NULL),
       n.takes, n.intended,
       ARRAY(SELECT k.capability FROM placement_nodecapability k
              WHERE k.node_id = n.id AND k.state = 'promoted'),
       EXISTS (SELECT FROM placement_nodetask t WHERE t.node_id = n.id AND {OPEN_BURN_IN})
  FROM placement_node n ORDER BY n.name
"""


def capacity() -> list[Finding]:
    """Free masks and counts equal slots minus drains, residue and claims; the fold its facts."""
    found = ask(
        "free_capacity_wrong",
        _FREE,
        subject="node {node}",
        detail="free mask {free_mask} and count {free_count}; slots, residue and claims say {mask}",
    )
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(_SCHEDULABLE)
        rows = cursor.fetchall()
    for name, says, state, health, conditions, free, approved, draining, *fit in rows:
        held, shown, intended, promoted, burning = fit
        takes = takes_of(intended, promoted)
        kept = json.loads(conditions) if isinstance(conditions, str) else conditions
        facts = NodeFacts(
            state=state,
            draining=draining,
            health=health,
            blocking_conditions=blocking_codes(kept),
            approved=approved,
            free=free,
            whole_claimed=False,
            slot_claims=0,
            cleanup_blocked=0,
            takes=takes,
            held=held,
            burning=burning,
        )
        if shown != takes:
            found.append(
                Finding(
                    "takes_wrong",
                    f"node {name}",
                    f"it shows that it takes {shown}; meant for {intended} and promoted for "
                    f"{', '.join(promoted) or 'nothing'} it takes {takes}",
                )
            )
        if schedulable(facts) != says:
            found.append(
                Finding(
                    "schedulable_wrong",
                    f"node {name}",
                    f"schedulable is {says}; {state}, {health}, draining {draining}, "
                    f"{approved} approved slots say otherwise",
                )
            )
    return found


_COUNTERS = f"""
SELECT * FROM (
    SELECT coalesce(held.tenant_id, q.tenant_id) AS tenant, rc.name AS class,
           coalesce(q.used_milli, 0) AS counted, coalesce(held.amount, 0) AS held
      FROM tenants_quotacounter q
      FULL JOIN (SELECT c.tenant_id, c.resource_class_id, sum(c.amount_milli)::bigint AS amount
                   FROM placement_claim c
                  WHERE c.state IN {LIVE} AND c.holder = 'tenant'
                  GROUP BY c.tenant_id, c.resource_class_id) held
        ON held.tenant_id = q.tenant_id AND held.resource_class_id = q.resource_class_id
      JOIN tenants_resourceclass rc
        ON rc.id = coalesce(held.resource_class_id, q.resource_class_id)) AS compared
 WHERE counted <> held
"""
_PROJECTS = f"""
SELECT * FROM (
    SELECT coalesce(held.project_id, q.project_id) AS project, rc.name AS class,
           coalesce(q.used_milli, 0) AS counted, coalesce(held.amount, 0) AS held
      FROM tenants_projectquota q
      FULL JOIN (SELECT a.project_id, c.resource_class_id, sum(c.amount_milli)::bigint AS amount
                   FROM placement_claim c JOIN placement_allocation a ON a.id = c.allocation_id
                  WHERE c.state IN {LIVE} AND c.holder = 'tenant'
                  GROUP BY a.project_id, c.resource_class_id) held
        ON held.project_id = q.project_id AND held.resource_class_id = q.resource_class_id
      JOIN tenants_resourceclass rc
        ON rc.id = coalesce(held.resource_class_id, q.resource_class_id)) AS compared
 WHERE counted <> held
"""
_AMOUNTS = f"""
SELECT a.id AS allocation, r.amount_milli / r.replicas AS asked, sum(c.amount_milli)::bigint AS held
  FROM placement_allocation a
  JOIN admission_admissionrequest r ON r.id = a.request_id
  JOIN placement_claim c ON c.allocation_id = a.id AND {HELD}
 GROUP BY a.id, r.amount_milli, r.replicas
HAVING sum(c.amount_milli) * r.replicas <> r.amount_milli
"""


def quota() -> list[Finding]:
    """I-15: what a tenant is charged equals what it holds."""
    return [
        *ask(
            "counter_wrong",
            _COUNTERS,
            subject="tenant {tenant}",
            detail="{counted} of {class} is charged, {held} is held by live claims",
        ),
        *ask(
            "project_counter_wrong",
            _PROJECTS,
            subject="project {project}",
            detail="{counted} of {class} is charged, {held} is held by live claims",
        ),
        *ask(
            "amount_differs",
            _AMOUNTS,
            subject="allocation {allocation}",
            detail="{asked} was decided, its claims hold {held}",
        ),
    ]


def projections(settle_s: float = SETTLE_S) -> list[Finding]:
    """I-9: what the fleet pages show can be rebuilt, and is being rebuilt.

    A projection may be behind for a moment. What differs is looked at again after two of its
    periods (``settle_s`` seconds), and is a finding when nobody has refreshed it meanwhile.
    """
    first = _differing()
    if first and settle_s:
        time.sleep(settle_s)
    still = _differing()
    return [
        Finding(
            "projection_wrong",
            f"node {name}",
            f"it shows {shown or 'nothing'} as of {as_of}; rebuilt from the claims it is {rebuilt}",
        )
        for name, (shown, as_of, rebuilt) in sorted(still.items())
        if first.get(name, ("", ""))[1] == as_of
    ]


def _differing() -> dict[str, tuple[str, str, str]]:
    with platform_scope():
        nodes = {node.pk: node for node in Node.objects.all()}
        rebuilt = postures_of(nodes)
    return {
        node.name: (node.projected.get("posture", ""), f"{node.projected_at}", rebuilt[node.pk])
        for node in nodes.values()
        if node.pk in rebuilt and node.projected.get("posture") != rebuilt[node.pk]
    }
