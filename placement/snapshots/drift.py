"""What is wanted of hosts, what did they report, and what is being done?  In one statement.

One statement sees one moment, so that nothing is compared with something of another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from gpuaas.kernel import prepared
from placement.domain.drift import (
    DeviceDifference,
    Holding,
    HostFacts,
    Known,
    Machine,
    Report,
    SlotFact,
    Work,
)
from placement.domain.health import NOT_RESTARTED

_FACTS: Final = """
SELECT n.id, n.boot_id, extract(epoch FROM %(now)s::timestamptz - n.last_seen_at)::float8,
       extract(epoch FROM %(now)s::timestamptz - n.observed_at)::float8, n.observed::text,
       (SELECT coalesce(json_agg(json_build_object(
            'id', a.id, 'state', a.state, 'connection', a.connection,
            'since', extract(epoch FROM %(now)s::timestamptz - a.state_since),
            'busy', EXISTS (SELECT FROM placement_nodetask t WHERE t.allocation_id = a.id
                             AND t.state IN ('pending', 'leased'))
                 OR EXISTS (SELECT FROM kernel_workflowrun r
                             WHERE r.id = a.run_id AND r.ended_at IS NULL),
            'claims', (SELECT coalesce(json_agg(json_build_array(c.slot_index, c.boot_id)
                                                ORDER BY c.slot_index), '[]')
                         FROM placement_claim c WHERE c.allocation_id = a.id
                          AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked'))
            ) ORDER BY a.id), '[]')
          FROM placement_allocation a
         WHERE a.node_id = n.id AND a.state <> 'released')::text,
       (SELECT coalesce(json_agg(json_build_object(
            'id', a.id, 'here', a.node_id = n.id AND a.state = 'released',
            'ended', extract(epoch FROM %(now)s::timestamptz - a.released_at))), '[]')
          FROM placement_allocation a
         WHERE a.id = ANY (ARRAY(
               SELECT CASE WHEN v->>'claim_ref' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                           THEN (v->>'claim_ref')::uuid END
                 FROM jsonb_array_elements(coalesce(n.observed->'vms', '[]')) v))
           AND (a.node_id <> n.id OR a.state = 'released'))::text,
       (SELECT coalesce(json_agg(json_build_array(t.id, t.kind, extract(epoch FROM
            %(now)s::timestamptz - coalesce(t.lease_until, t.deadline_at)))), '[]')
          FROM placement_nodetask t
         WHERE t.node_id = n.id AND t.state IN ('pending', 'leased'))::text,
       (SELECT coalesce(json_agg(json_build_array(s.index, s.gpu_uuid,
            EXISTS (SELECT FROM placement_claim c WHERE c.node_num = n.num
                     AND c.slot_index IN (-1, s.index)
                     AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')),
            (SELECT r.detail FROM placement_slotresidue r
              WHERE r.slot_id = s.id AND r.state = 'found' LIMIT 1)) ORDER BY s.index), '[]')
          FROM placement_slot s
         WHERE s.node_id = n.id AND s.state IN ('approved', 'blocked'))::text,
       (SELECT coalesce(json_agg(json_build_array(
            d.code, d.outcome, (SELECT s.index FROM placement_slot s WHERE s.id = d.slot_id),
            d.gpu_uuid, d.detail)), '[]')
          FROM placement_identitydifference d
         WHERE d.node_id = n.id AND d.ended_at IS NULL)::text
  FROM placement_node n
 WHERE n.id = ANY (%(nodes)s) AND n.state NOT IN ('retired', 'enrolling')
"""


def rows_of(nodes: Iterable[UUID], now: datetime) -> list[tuple[Any, ...]]:
    """What is stored of each host, as ``facts_from`` reads it. The caller takes each by itself."""
    return prepared.rows(_FACTS, {"nodes": list(nodes), "now": now})


def facts_from(row: tuple[Any, ...]) -> HostFacts:
    """The facts of one host. Raises ValueError, KeyError or TypeError for a broken one."""
    load = json.loads
    _, boot, silent, age, observed, holdings, known, work, slots, devices = row
    return HostFacts(
        boot=boot,
        silent_s=silent,
        report=_report(load(observed), age),
        holdings=tuple(_holding(one) for one in load(holdings)),
        known=tuple(Known(one["id"], one["here"], one["ended"]) for one in load(known)),
        work=tuple(Work(pk, kind, float(late or 0.0)) for pk, kind, late in load(work)),
        slots=tuple(SlotFact(i, gpu, held, traces or "") for i, gpu, held, traces in load(slots)),
        devices=tuple(DeviceDifference(*one) for one in load(devices)),
    )


def _report(said: Mapping[str, Any], age: float | None) -> Report | None:
    if not said or age is None:
        return None
    return Report(
        age_s=age,
        boot=said["boot_id"],
        machines=tuple(
            Machine(
                one.get("claim_ref") or "",
                one["name"],
                one["state"],
                tuple(one["slots"]),
                _address(one.get("address")),
            )
            for one in said["vms"]
        ),
        gpus={one["id"]: one["presence"] for one in said["devices"]["gpus"]},
        troubles={
            one["claim_ref"]: f"{one['detail']} [{one['code']}]"
            for one in said["conditions"]
            if one["code"] == NOT_RESTARTED and one.get("claim_ref")
        },
    )


def _holding(one: Mapping[str, Any]) -> Holding:
    return Holding(
        id=one["id"],
        state=one["state"],
        since_s=float(one["since"]),
        worked_on=one["busy"],
        claims=tuple((index, boot) for index, boot in one["claims"]),
        address=_address(one["connection"]),
    )


def _address(said: Mapping[str, Any] | None) -> tuple[str, int] | None:
    return (said["host"], said["port"]) if said and said.get("host") else None
