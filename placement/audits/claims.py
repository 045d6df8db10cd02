"""Does every hold stand alone, belong to what it says, and end by proof?

The database's own constraints make most of this impossible. The audit asks all the same: a
constraint that was dropped, or a row that came in beside the product, is what it is for.
"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, ask

LIVE = "('reserved', 'active', 'releasing', 'cleanup_blocked')"

_OVERLAPPING = f"""
SELECT n.name AS node, a.id AS one, b.id AS other, a.slot_index AS at, b.slot_index AS beside
  FROM placement_claim a
  JOIN placement_claim b ON b.node_num = a.node_num AND b.span && a.span AND b.id > a.id
  LEFT JOIN placement_node n ON n.num = a.node_num
 WHERE a.state IN {LIVE} AND b.state IN {LIVE}
"""
_ELSEWHERE = f"""
SELECT c.id AS claim, c.node_num, n.num, n.name AS node, c.slot_index, c.span::text AS span
  FROM placement_claim c JOIN placement_node n ON n.id = c.node_id
  LEFT JOIN placement_slot s ON s.id = c.slot_id
 WHERE c.state IN {LIVE}
   AND (c.node_num <> n.num
        OR CASE WHEN c.part IS NOT NULL
                THEN NOT c.span <@ int4multirange(
                    int4range(c.slot_index * 1000, (c.slot_index + 1) * 1000)) ELSE false END
        OR c.part IS NULL AND c.span <> CASE WHEN c.slot_index < 0
             THEN int4multirange(int4range(0, 2147483647))
             ELSE int4multirange(int4range(c.slot_index * 1000, (c.slot_index + 1) * 1000)) END
        OR (c.slot_index < 0) <> (c.slot_id IS NULL)
        OR s.node_id IS DISTINCT FROM (CASE WHEN c.slot_id IS NULL THEN NULL ELSE c.node_id END)
        OR s.index IS DISTINCT FROM (CASE WHEN c.slot_id IS NULL THEN NULL ELSE c.slot_index END))
"""
# Of a blocked allocation, slots may have been overridden one by one: they count as accounted for.
HELD = f"""(c.state IN {LIVE} OR (a.state = 'cleanup_blocked' AND c.state = 'released'
        AND EXISTS (SELECT FROM placement_cleanupoverride o
                     WHERE o.claim_id = c.id AND o.approved_at IS NOT NULL)))"""
_NOT_ALL_OR_NONE = f"""
SELECT a.id AS allocation, a.state, a.slots AS wanted, count(c.id) AS held,
       count(c.id) FILTER (WHERE c.node_id <> a.node_id) AS elsewhere,
       count(c.id) FILTER (WHERE c.tenant_id <> a.tenant_id) AS of_others
  FROM placement_allocation a
  LEFT JOIN placement_claim c ON c.allocation_id = a.id AND {HELD}
 WHERE a.state <> 'released'
 GROUP BY a.id
HAVING count(c.id) <> greatest(a.slots, 1)
    OR count(c.id) FILTER (WHERE (c.slot_index < 0) <> (a.slots = 0)) > 0
    OR count(c.id) FILTER (WHERE c.node_id <> a.node_id) > 0
    OR count(c.id) FILTER (WHERE c.tenant_id <> a.tenant_id) > 0
"""
_OUTLIVING = f"""
SELECT c.id AS claim, c.state, a.id AS allocation
  FROM placement_claim c JOIN placement_allocation a ON a.id = c.allocation_id
 WHERE a.state = 'released' AND c.state IN {LIVE}
"""
_OUT_OF_STEP = f"""
SELECT c.id AS claim, c.state, c.holder, a.id AS allocation, a.state AS allocation_state
  FROM placement_claim c JOIN placement_allocation a ON a.id = c.allocation_id
 WHERE c.state IN {LIVE}
   AND (c.state <> CASE a.state WHEN 'placed' THEN 'reserved' WHEN 'provisioning' THEN 'reserved'
                     WHEN 'preempting' THEN 'active' WHEN 'released' THEN c.state ELSE a.state END
        OR (c.holder = 'platform') <> (c.state = 'cleanup_blocked'))
"""


def claims() -> list[Finding]:
    """I-1, I-2, I-3, I-4: one hold a place, on one node, all of an allocation's or none."""
    return [
        *ask(
            "double_claim",
            _OVERLAPPING,
            subject="node {node}",
            detail="live claims {one} (slot {at}) and {other} (slot {beside}) overlap",
        ),
        *ask(
            "claim_misplaced",
            _ELSEWHERE,
            subject="claim {claim}",
            detail="slot {slot_index} of {node} ({num}) is held as {span} of {node_num}",
        ),
        *ask(
            "claims_incomplete",
            _NOT_ALL_OR_NONE,
            subject="allocation {allocation}",
            detail="{state}, {wanted} slots (0: the whole node), {held} claims held or overridden, "
            "{elsewhere} of them on another node, {of_others} of another tenant",
        ),
        *ask(
            "claim_outlives_allocation",
            _OUTLIVING,
            subject="claim {claim}",
            detail="it is {state}, and its allocation {allocation} is released",
        ),
        *ask(
            "claim_out_of_step",
            _OUT_OF_STEP,
            subject="claim {claim}",
            detail="{state}, held by the {holder}, of an allocation that is {allocation_state}",
        ),
    ]


_HELD_TWICE = """
SELECT uid, count(*) AS holds FROM placement_claimdevice WHERE live GROUP BY uid
HAVING count(*) > 1
"""
_LIVE_DIFFERS = f"""
SELECT d.uid, d.live, c.id AS claim, c.state
  FROM placement_claimdevice d JOIN placement_claim c ON c.id = d.claim_id
 WHERE d.live <> (c.state IN {LIVE})
"""
_UNHELD = f"""
SELECT c.id AS claim, s.index AS slot, n.name AS node, u.uid
  FROM placement_claim c
  JOIN placement_node n ON n.id = c.node_id
  JOIN placement_slot s ON s.node_id = c.node_id AND s.state = 'approved'
   AND (c.slot_index < 0 OR s.id = c.slot_id)
 CROSS JOIN LATERAL unnest(s.device_uids) AS u(uid)
 WHERE c.state IN {LIVE} AND c.part IS NULL
   AND NOT EXISTS (SELECT FROM placement_claimdevice d
                    WHERE d.claim_id = c.id AND d.uid = u.uid AND d.live)
"""
_STRANGE_GPU = """
SELECT s.id AS slot, s.index, n.name AS node, s.gpu_uuid, other.name AS owner
  FROM placement_slot s JOIN placement_node n ON n.id = s.node_id
  LEFT JOIN placement_gpudevice g ON g.uuid = s.gpu_uuid
  LEFT JOIN placement_node other ON other.id = g.node_id
 WHERE s.state <> 'retired' AND g.node_id IS DISTINCT FROM s.node_id
"""


_IN_TWO_SLOTS = """
SELECT u.uid, string_agg(n.name || '/' || s.index, ', ' ORDER BY n.name, s.index) AS slots
  FROM placement_slot s JOIN placement_node n ON n.id = s.node_id
 CROSS JOIN LATERAL unnest(s.device_uids) AS u(uid)
 WHERE s.state = 'approved' GROUP BY u.uid HAVING count(*) > 1
"""


def devices() -> list[Finding]:
    """One physical thing is held by one live claim, and each claim holds all of its slot's."""
    return [
        *ask(
            "device_held_twice",
            _HELD_TWICE,
            subject="device {uid}",
            detail="{holds} live claims hold it",
        ),
        *ask(
            "device_hold_differs",
            _LIVE_DIFFERS,
            subject="device {uid}",
            detail="its hold is live: {live}; its claim {claim} is {state}",
        ),
        *ask(
            "device_not_held",
            _UNHELD,
            subject="device {uid}",
            detail="slot {slot} of {node} is held by claim {claim}, and this part of it is not",
        ),
        *ask(
            "device_in_two_slots",
            _IN_TWO_SLOTS,
            subject="device {uid}",
            detail="these slots have it, and only one of them can be leased: {slots}",
        ),
        *ask(
            "gpu_of_another_node",
            _STRANGE_GPU,
            subject="slot {slot}",
            detail="slot {index} of {node} is {gpu_uuid}, which is known as a part of {owner}",
        ),
    ]


_UNPROVEN = """
SELECT c.id AS claim, c.slot_index, n.name AS node, c.attempt, a.id AS allocation
  FROM placement_claim c
  JOIN placement_node n ON n.id = c.node_id
  JOIN placement_allocation a ON a.id = c.allocation_id
 WHERE c.state = 'released'
   AND NOT EXISTS (SELECT FROM placement_cleanupproof p
                    WHERE p.claim_id = c.id AND p.attempt = c.attempt AND p.complete
                      AND p.slot_id IS NOT DISTINCT FROM c.slot_id)
   AND NOT EXISTS (SELECT FROM placement_cleanupoverride o
                    WHERE o.claim_id = c.id AND o.approved_at IS NOT NULL)
"""
_COMPLETE_WITH_GAPS = """
SELECT p.id AS proof, p.claim_id AS claim, jsonb_array_length(p.missing) AS missing
  FROM placement_cleanupproof p
  JOIN placement_nodetask t ON t.id = p.task_id
  JOIN placement_claim c ON c.id = p.claim_id
 WHERE p.complete AND (jsonb_array_length(p.missing) > 0 OR t.state <> 'succeeded'
                       OR t.allocation_id <> c.allocation_id OR t.boot_id <> p.boot_id)
"""


def proofs() -> list[Finding]:
    """I-12: a hold ends by a complete proof of its last attempt, or by an approved override."""
    return [
        *ask(
            "released_without_proof",
            _UNPROVEN,
            subject="claim {claim}",
            detail="slot {slot_index} of {node}, attempt {attempt}, of allocation {allocation}",
        ),
        *ask(
            "proof_not_of_its_task",
            _COMPLETE_WITH_GAPS,
            subject="proof {proof}",
            detail="it counts as complete for claim {claim}; {missing} steps are missing, or its "
            "task did not succeed, or ran for another allocation or boot",
        ),
    ]
