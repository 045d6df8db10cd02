"""How does evidence come in, and how is a host promoted for a shape, or taken back?"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, sweeping
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.readiness import (
    CAPABILITIES,
    CHECKS,
    FAIL,
    HANDED_IN,
    PASS,
    Item,
)
from placement.domain.seen import firmware_in, from_report
from placement.errors import EvidenceNotEnough, NodeStateRefused
from placement.models import (
    Node,
    NodeCapability,
    ReadinessEvidence,
)
from placement.services.capabilities import (
    PART,
    SOLD,
    capabilities_approve,
    capabilities_judge,
    capabilities_of,
    evidence_keep,
    promote,
)
from placement.services.nodes import discovery_order, locked, need_reason, refold
from placement.states import CapabilityState

MOST_VALID_S: Final = 5 * 365 * 86_400
RENEW_AGAIN_S: Final = 600
BATCH: Final = 200
FRESH: Final = timedelta(hours=1)
"""A report that says the same as before is written down again after this long."""


def evidence_from_report(node: Node, conditions: list[dict[str, Any]], *, actor: Actor) -> bool:
    """Keep what a host's report proves; whether a verdict changed. The node is locked.

    The same answer is written again only when it is an hour old.
    """
    now = clock.db_now()
    said = from_report(conditions, now)
    known = ReadinessEvidence.objects.filter(node=node, check_name=said.check, device="").first()
    same = known is not None and (known.verdict, known.reason) == (said.verdict, said.reason)
    if same and known is not None and now - known.observed_at < FRESH:
        return False
    evidence_keep(node, [said], actor=actor)
    return capabilities_judge(node)


@transaction.atomic
def evidence_give(
    *,
    node_id: UUID,
    check: str,
    verdict: str,
    reason: str,
    actor: Actor,
    device: str = "",
    valid_s: int | None = None,
    version: str = "",
) -> ReadinessEvidence:
    """Hand in what somebody has found out about a host: a burn-in, a firmware, its fabric.

    ``valid_s``: seconds for which it is good; None: as long as the family's terms say. Raises
    InvalidRequest for a check that is read from the host, and ReasonMissing.
    """
    why = need_reason(reason)
    if check not in HANDED_IN:
        told = "is read from the host" if check in CHECKS else "is not known"
        raise errors.InvalidRequest(
            f"{check[:40]} {told}; {', '.join(HANDED_IN)} can be handed in.",
            errors=(errors.FieldError("/check", "not_allowed", f"one of {', '.join(HANDED_IN)}"),),
        )
    if verdict not in (PASS, FAIL):
        raise errors.InvalidRequest(
            errors=(errors.FieldError("/verdict", "unknown", f"{PASS} or {FAIL}"),)
        )
    if valid_s is not None and not 60 <= valid_s <= MOST_VALID_S:
        raise errors.InvalidRequest(
            errors=(errors.FieldError("/valid_s", "out_of_range", f"60 to {MOST_VALID_S}"),)
        )
    if version and not (check == "firmware" and firmware_in(version)):
        raise errors.InvalidRequest(
            errors=(
                errors.FieldError(
                    "/version", "bad_format", "of a firmware only, in hexadecimal parts with dots"
                ),
            )
        )
    node, now = locked(node_id), clock.db_now()
    item = Item(
        check,
        verdict,
        now,
        source="operator",
        device=device,
        reason=why,
        version=firmware_in(version),
        expires_at=None if valid_s is None else now + timedelta(seconds=valid_s),
        facts={"version": version} if version else {},
    )
    evidence_keep(node, [item], actor=actor, given_by=actor)
    capabilities_judge(node)
    refold(node)
    return ReadinessEvidence.objects.get(node=node, check_name=check, device=device)


def _capability(node: Node, capability: str) -> NodeCapability:
    if capability not in CAPABILITIES:
        words = ", ".join(CAPABILITIES)
        raise errors.InvalidRequest(
            errors=(errors.FieldError("/capability", "unknown", f"one of {words}"),)
        )
    return capabilities_of(node)[capability]


@transaction.atomic
def node_promote(*, node_id: UUID, capability: str, reason: str, actor: Actor) -> NodeCapability:
    """Decide that a host may be sold in this shape, on evidence that holds.

    Repeating it changes nothing. Raises NodeStateRefused before the host is approved, and
    EvidenceNotEnough with every check that misses.
    """
    why = need_reason(reason)
    node = locked(node_id)
    if node.state not in SOLD:
        raise NodeStateRefused(f"{node.name} is {node.state}; approve it first.", state=node.state)
    _capability(node, capability)
    capabilities_judge(node)
    row = _capability(node, capability)
    if row.misses:
        told = "; ".join(
            f"{m['check']}{' of ' + m['device'] if m['device'] else ''} {m['standing']}: "
            f"{m['reason']}"
            for m in row.misses
        )
        raise EvidenceNotEnough(
            f"{node.name} cannot be promoted for {capability}: {told}."[:900],
            capability=capability,
            misses=row.misses,
        )
    if row.state != CapabilityState.PROMOTED:
        row = promote(row, node, actor=actor, reason=why)
    refold(node)
    return row


@transaction.atomic
def node_demote(*, node_id: UUID, capability: str, reason: str, actor: Actor) -> NodeCapability:
    """Decide that nothing new of this shape is placed on a host; what runs goes on.

    Only a person promotes it again. Repeating it changes nothing.
    """
    why = need_reason(reason)
    node = locked(node_id)
    row = _capability(node, capability)
    if row.state != CapabilityState.DEMOTED:
        row = advance(
            row,
            "demote",
            actor=actor,
            reason=why,
            changes={
                "decided_by": actor.as_json(),
                "decided_at": clock.db_now(),
                "decision": why,
            },
            facts={"node": node.name, "capability": capability},
        )
        refold(node)
    return row


def readiness_sweep() -> int:
    """Judge anew what time or new terms may have changed, and look again at hosts in good time.

    Returns how many hosts were judged. A host that was approved by an older control plane has no
    capability yet: it is treated as one that is approved now.
    """
    judged = sweeping.each("placement.readiness", _due, _judge)
    sweeping.each("placement.readiness_new", _without, _first)
    sweeping.each("placement.readiness_renewed", _near_its_end, _renew)
    return judged


def _due(resting: Collection[UUID]) -> list[UUID]:
    now = clock.db_now()
    due = NodeCapability.objects.filter(state=CapabilityState.PROMOTED, holds_until__lte=now)
    due = (due | NodeCapability.objects.filter(rejudge=True)).exclude(node_id__in=resting)
    return list(due.values_list("node_id", flat=True).distinct()[:BATCH])


def _judge(node_id: UUID) -> None:
    node = locked(node_id)
    NodeCapability.objects.filter(node=node).update(rejudge=False)
    capabilities_judge(node)
    refold(node)


def _without(resting: Collection[UUID]) -> list[UUID]:
    new = Node.objects.filter(state__in=SOLD, capabilities__isnull=True).exclude(pk__in=resting)
    return list(new.values_list("pk", flat=True)[:BATCH])


def _first(node_id: UUID) -> None:
    node = locked(node_id)
    capabilities_approve(node, actor=PART, reason="approved before it had capabilities")
    refold(node)


def _near_its_end(resting: Collection[UUID]) -> list[UUID]:
    rows = NodeCapability.objects.filter(renew_at__lte=clock.db_now(), node__state__in=SOLD)
    rows = rows.exclude(node_id__in=resting)
    return list(rows.values_list("node_id", flat=True).distinct()[:BATCH])


def _renew(node_id: UUID) -> None:
    """Order a discovery where evidence is near its end, so that a host that is well stays sold."""
    discovery_order(locked(node_id))
    again = clock.db_now() + timedelta(seconds=RENEW_AGAIN_S)
    NodeCapability.objects.filter(node_id=node_id).update(renew_at=again)
