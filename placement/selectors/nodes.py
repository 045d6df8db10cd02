"""What is a host meant to be, what does it report, what is it doing, what is shown of it?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors
from placement.domain.capacity import NodeFacts, posture
from placement.domain.parts import label_of, spans_within
from placement.domain.picture import ClaimFact, NodePicture, SlotFact, picture_from
from placement.domain.readiness import takes_of
from placement.domain.residue import blocking_codes
from placement.domain.truth import FourStates, Truth
from placement.models import Claim, Node, NodeDrain, NodeTask, Slot, SlotResidue
from placement.models.task import OPEN_BURN_IN
from placement.selectors.drift import drift_codes
from placement.states import LIVE, ResidueState, SlotState, TaskState

_FACTS = f"""
SELECT n.id, n.state, n.health, n.conditions,
       n.free_count + (SELECT count(*) FROM placement_cutslot k
                        WHERE k.node_id = n.id AND k.open AND k.free_milli > 0),
       coalesce(s.approved, 0),
       EXISTS (SELECT FROM placement_nodedrain d WHERE d.node_id = n.id
                AND d.ended_at IS NULL AND d.slot_index IS NULL),
       coalesce(c.whole, 0), coalesce(c.slots, 0), coalesce(c.blocked, 0),
       (SELECT count(DISTINCT r.slot_id) FROM placement_slotresidue r
         WHERE r.node_id = n.id AND r.state = 'found'),
       EXISTS (SELECT FROM placement_defragmentation m
                WHERE m.host_id = n.id AND m.ended_at IS NULL),
       n.intended,
       ARRAY(SELECT k.capability FROM placement_nodecapability k
              WHERE k.node_id = n.id AND k.state = 'promoted'),
       EXISTS (SELECT FROM placement_nodetask t WHERE t.node_id = n.id AND {OPEN_BURN_IN})
  FROM placement_node n
  LEFT JOIN LATERAL (
       SELECT count(*) AS approved FROM placement_slot s
        WHERE s.node_id = n.id AND s.state = 'approved') s ON true
  LEFT JOIN LATERAL (
       SELECT count(*) FILTER (WHERE slot_index < 0) AS whole,
              count(*) FILTER (WHERE slot_index >= 0) AS slots,
              count(*) FILTER (WHERE state = 'cleanup_blocked') AS blocked
         FROM placement_claim c WHERE c.node_num = n.num
          AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')) c ON true
 WHERE n.id = ANY (%s)
"""


def node_list() -> QuerySet[Node]:
    """Every host by name."""
    return Node.objects.select_related("pool", "family").order_by("name")


def node_named(name_or_id: str) -> Node:
    """One host by name or id. Raises NotFound."""
    rows = Node.objects.select_related("pool", "family")
    found = rows.filter(name=name_or_id).first()
    if found is None:
        try:
            found = rows.filter(pk=UUID(name_or_id)).first()
        except ValueError:
            found = None
    if found is None:
        raise errors.NotFound
    return found


def facts_of(node_ids: Iterable[UUID]) -> dict[UUID, NodeFacts]:
    """What posture and schedulability are derived from, of each host, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [list(node_ids)])
        rows = cursor.fetchall()
    return {
        row[0]: NodeFacts(
            state=row[1],
            health=row[2],
            blocking_conditions=blocking_codes(json.loads(row[3])),
            free=row[4],
            approved=row[5],
            draining=row[6],
            whole_claimed=row[7] > 0,
            slot_claims=row[8],
            cleanup_blocked=row[9],
            residue=row[10],
            held=row[11],
            takes=takes_of(row[12], row[13]),
            burning=row[14],
        )
        for row in rows
    }


def postures_of(node_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The posture of each host, derived from claims and evidence in one statement."""
    return {node_id: posture(facts) for node_id, facts in facts_of(node_ids).items()}


def posture_of(node: Node) -> str:
    """One of the seven postures."""
    return postures_of([node.pk])[node.pk]


def slot_list(node: Node) -> QuerySet[Slot]:
    """The host's slots that are not retired."""
    return Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED).order_by("index")


def task_list(node: Node) -> QuerySet[NodeTask]:
    """The host's tasks, newest first."""
    return NodeTask.objects.filter(node=node).order_by("-created_at")


def residue_of(node_ids: Iterable[UUID]) -> dict[UUID, dict[int, str]]:
    """The slots of each host with traces of an earlier tenant, and the host's words for it."""
    found: dict[UUID, dict[int, str]] = {}
    rows = SlotResidue.objects.filter(node_id__in=list(node_ids), state=ResidueState.FOUND)
    for node_id, index, detail in rows.values_list("node_id", "slot__index", "detail"):
        found.setdefault(node_id, {})[index] = detail
    return found


def node_picture(node: Node) -> NodePicture:
    """How the host is wired, with what is on each part now."""
    drains = set(
        NodeDrain.objects.filter(node=node, ended_at__isnull=True).values_list(
            "slot_index", flat=True
        )
    )
    traces = residue_of([node.pk]).get(node.pk, {})
    slots = [
        SlotFact(
            index=slot.index,
            state=slot.state,
            gpu_uuid=slot.gpu_uuid,
            gpu_index=slot.gpu_index,
            nic=slot.nic or None,
            nic_mode=slot.nic_mode,  # type: ignore[arg-type]  # the column's choices
            nvme=slot.nvme or None,
            nvme_mode=slot.nvme_mode,  # type: ignore[arg-type]  # the column's choices
            draining=None in drains or slot.index in drains,
            reason=slot.block_reason or traces.get(slot.index, ""),
            residue=slot.index in traces,
            cut=slot.cut,
        )
        for slot in slot_list(node)
    ]
    claims = [
        ClaimFact(
            slot_index=claim.slot_index,
            state=claim.state,
            holder=claim.holder,
            tenant=claim.tenant.name,
            allocation=str(claim.allocation_id),
            part="" if claim.part is None else label_of(claim.part),
            spans=() if claim.part is None else spans_within(claim.span, claim.slot_index),
        )
        for claim in Claim.objects.select_related("tenant").filter(
            node_num=node.num, state__in=LIVE
        )
    ]
    return picture_from(node.topology, slots, claims)


def node_states(node: Node) -> dict[str, Any]:
    """Desired, observed, executing and projected of a host, each with its age."""
    now = clock.db_now()
    drain = NodeDrain.objects.filter(
        node=node, ended_at__isnull=True, slot_index__isnull=True
    ).first()
    task = (
        NodeTask.objects.filter(node=node, state__in=[TaskState.LEASED, TaskState.PENDING])
        .order_by("-state", "-created_at")
        .first()
    )
    actual, differs = posture_of(node), drift_codes(node_id=node.pk)
    codes = ", ".join(sorted({c["code"] for c in node.conditions}))
    desired = f"{node.state}, for {node.intended}"
    states = FourStates(
        desired=Truth(
            f"{desired}, draining" if drain else desired,
            drain.created_at if drain else node.state_since,
            "the operator's decision",
            drain.reason if drain else "",
        ),
        observed=Truth(
            codes or node.health, node.observed_at, "the host's report", ", ".join(differs)
        ),
        executing=Truth(
            f"{task.kind} {task.state}" if task else "idle",
            task.state_since if task else node.last_seen_at,
            "node task" if task else "the host's last poll",
            task.step.replace("_", " ") if task else "",
        ),
        projected=Truth(
            node.projected.get("posture", "not projected yet"),
            node.projected_at,
            "the fleet page's projection",
        ),
    )
    drift = {
        "observed": node.health != "ok" or bool(node.conditions) or bool(differs),
        "projected": node.projected.get("posture") != actual,
    }
    return states.as_json(now, drift=drift) | {"posture": actual}
