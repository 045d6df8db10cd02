"""What may a host be sold as, by its evidence?  Under the node's lock, before it is folded.

A promotion is a decision that stays. Where its evidence does not hold it is suspended by rule, and
goes on by rule when it holds again; only a person, or the family's terms, promote anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.transitions import advance
from placement.domain.readiness import (
    CAPABILITIES,
    CODES,
    Item,
    Standing,
    judge,
    merged,
    renewal_at,
)
from placement.domain.seen import DISCOVERED, from_discovery
from placement.models import Node, NodeCapability, ReadinessEvidence
from placement.selectors.fitness import items_of, terms_of
from placement.states import CapabilityState, NodeState

PART = system("readiness")
SOLD = (NodeState.READY, NodeState.MAINTENANCE, NodeState.QUARANTINED)


def evidence_keep(
    node: Node,
    said: Sequence[Item],
    *,
    actor: Actor,
    given_by: Actor | None = None,
    devices_of: Iterable[str] = (),
) -> bool:
    """Keep what is said; whether a verdict changed by it. The node is locked.

    ``devices_of``: checks of which everything that a device is not said to have any more ends.
    """
    now = clock.db_now()
    known = {
        (row.check_name, row.device): row for row in ReadinessEvidence.objects.filter(node=node)
    }
    told = {(item.check, item.device) for item in said}
    gone = [
        row
        for key, row in known.items()
        if row.device and row.check_name in set(devices_of) and key not in told
    ]
    changed: dict[str, Any] = {f"{row.check_name} {row.device}": "gone" for row in gone}
    ReadinessEvidence.objects.filter(pk__in=[row.pk for row in gone]).delete()
    for item in said:
        row = known.get((item.check, item.device))
        was = items_of([row])[0] if row is not None else None
        if merged(was, item, now) is not item:
            continue
        if was is None or (was.verdict, was.reason) != (item.verdict, item.reason):
            changed[f"{item.check} {item.device}".strip()] = item.verdict
        row = row or ReadinessEvidence(node=node, check_name=item.check, device=item.device)
        row.verdict, row.source, row.reason = item.verdict, item.source, item.reason[:400]
        row.facts, row.version = dict(item.facts), list(item.version)
        row.observed_at, row.expires_at = item.observed_at, item.expires_at
        row.boot_id, row.given_by = node.boot_id, given_by.as_json() if given_by else None
        row.save()
    if changed:
        events.record(
            kind="placement.node.evidence",
            subject=node,
            actor=actor,
            after=changed,
            reason=said[0].reason if given_by else "",
        )
    return bool(changed)


def capabilities_of(node: Node) -> dict[str, NodeCapability]:
    """The node's row of each capability, made where there is none yet; the node is locked."""
    rows = {row.capability: row for row in NodeCapability.objects.filter(node=node)}
    for capability in CAPABILITIES:
        if capability not in rows:
            rows[capability] = NodeCapability.objects.create(node=node, capability=capability)
    return rows


def capabilities_judge(node: Node) -> bool:
    """Bring every capability to what its evidence says now; whether one moved. Node is locked."""
    now, in_force = clock.db_now(), terms_of(node)
    items = items_of(ReadinessEvidence.objects.filter(node=node))
    found, renew = judge(items, in_force.terms, now), renewal_at(items, in_force.terms)
    moved = False
    for capability, row in capabilities_of(node).items():
        standing = found[capability]
        edge = rule_for(row, standing, node, auto=in_force.auto)
        kept: dict[str, Any] = {
            "standing": standing.standing,
            "misses": [miss.as_json() for miss in standing.misses],
            "holds_until": standing.until,
            "renew_at": renew,
        }
        if edge == "promote":
            why = "all evidence holds, and the family's terms promote by themselves"
            kept |= {"decided_by": PART.as_json(), "decided_at": now, "decision": why}
        if edge:
            moved = True
            code = CODES.get(standing.standing, "evidence_holds")
            facts = {"node": node.name, "capability": capability, "misses": kept["misses"]}
            advance(row, edge, actor=PART, reason=code, changes=kept, facts=facts)
        elif any(getattr(row, name) != value for name, value in kept.items()):
            NodeCapability.objects.filter(pk=row.pk).update(**kept)
    return moved


def rule_for(row: NodeCapability, standing: Standing, node: Node, *, auto: bool) -> str:
    """The move that the rule makes, or an empty text."""
    if row.state == CapabilityState.PROMOTED and not standing.ready:
        return "suspend"
    if row.state == CapabilityState.SUSPENDED and standing.ready:
        return "resume"
    wanted = node.intended in ("any", row.capability) and node.state in SOLD
    if auto and wanted and standing.ready and row.state == CapabilityState.CANDIDATE:
        return "promote"
    return ""


def capabilities_approve(node: Node, *, actor: Actor, reason: str) -> dict[str, str]:
    """Promote what the node is meant for as far as its evidence holds; each with its standing.

    What does not hold stays a candidate and says what it misses. The node is locked.
    """
    capabilities_judge(node)
    said = {}
    for capability, row in capabilities_of(node).items():
        said[capability] = row.standing
        wanted = node.intended in ("any", capability)
        if wanted and row.standing == "ready" and row.state == CapabilityState.CANDIDATE:
            promote(row, node, actor=actor, reason=reason or "approved with its slots")
            said[capability] = "promoted"
    return said


def promote(row: NodeCapability, node: Node, *, actor: Actor, reason: str) -> NodeCapability:
    """The decision that a host is sold in this shape; its evidence was looked at."""
    decided = {
        "decided_by": actor.as_json(),
        "decided_at": clock.db_now(),
        "decision": reason[:500],
    }
    facts = {"node": node.name, "capability": row.capability}
    return advance(row, "promote", actor=actor, reason=reason, changes=decided, facts=facts)


def evidence_from_discovery(node: Node, report: Mapping[str, Any], *, actor: Actor) -> None:
    """Keep what a discovery proves, and judge anew; the node is locked and folded after."""
    said = from_discovery(report, clock.db_now())
    evidence_keep(node, said, actor=actor, devices_of=DISCOVERED)
    capabilities_judge(node)
