"""What is a host fit for, by which evidence, since when, and what would mend what is missing?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuaas.kernel import clock
from gpuaas.kernel.hints import worded
from placement.domain.readiness import (
    CAPABILITIES,
    CHECKS,
    FAIL,
    PASS,
    Requirement,
    ends_at,
)
from placement.models import CleanupProof, Node, NodeCapability, ReadinessEvidence
from placement.selectors.fitness import items_of, terms_of

WAYS_OUT: Final = {
    "driver": "Load the driver that the family asks for, then discover the host again.",
    "iommu": "Switch the IOMMU on in firmware and kernel, reboot, then discover again.",
    "vfio": "Load the vfio-pci module, or mend what keeps a GPU from being cleaned after a machine "
    "had it; then discover again.",
    "fabric": "Start Fabric Manager, then discover again; or hand in what is known of it.",
    "numa": "Let the firmware tell the NUMA node of each GPU, then discover again.",
    "runtime": "Mend what the host's report names; its next report says that it is there.",
    "burn_in": "Burn it in ({burn_in}), or hand in a result of your own.",
    "firmware": "Bring the firmware to the family's baseline, discover again, or hand it in.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One check of a host, or of one of its devices, as it is shown.

    ``standing``: pass, fail, unknown, or expired. ``needed_for``: the shapes that ask for it.
    """

    check: str
    device: str
    standing: str
    reason: str
    told_by: str
    facts: dict[str, Any]
    since: datetime | None
    expires_at: datetime | None
    needed_for: tuple[str, ...]
    unblock: str
    given_by: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Capability:
    """One shape that a host may be sold in."""

    capability: str
    state: str
    since: datetime | None
    standing: str
    misses: list[dict[str, Any]]
    holds_until: datetime | None
    decision: str
    decided_by: dict[str, Any] | None
    intended: bool


def capability_list(node: Node) -> list[Capability]:
    """Every shape with the decision on it; one that was never judged is a candidate."""
    rows = {row.capability: row for row in NodeCapability.objects.filter(node=node)}
    found = []
    for name in CAPABILITIES:
        row = rows.get(name) or NodeCapability(node=node, capability=name)
        found.append(
            Capability(
                capability=name,
                state=row.state,
                since=row.state_since if name in rows else None,
                standing=row.standing,
                misses=row.misses,
                holds_until=row.holds_until,
                decision=row.decision,
                decided_by=row.decided_by,
                intended=node.intended in ("any", name),
            )
        )
    return found


def evidence_list(node: Node) -> list[Shown]:
    """Every check that something is known of, or that a shape asks for, in a fixed order."""
    now, terms = clock.db_now(), terms_of(node).terms
    needs: dict[str, list[tuple[str, Requirement]]] = {}
    for capability, required in terms.items():
        for need in required:
            needs.setdefault(need.check, []).append((capability, need))
    rows = list(ReadinessEvidence.objects.filter(node=node))
    found = []
    for row, item in zip(rows, items_of(rows), strict=True):
        wanted = needs.get(item.check, [])
        ends = [end for _, need in wanted if (end := ends_at(item, need)) is not None]
        if not wanted and item.expires_at is not None:
            ends = [item.expires_at]
        end = min(ends, default=None)
        over = item.verdict == PASS and end is not None and end <= now
        found.append(
            Shown(
                check=item.check,
                device=item.device,
                standing="expired" if over else item.verdict,
                reason=item.reason,
                told_by=item.source,
                facts=dict(item.facts),
                since=item.observed_at,
                expires_at=end if item.verdict == PASS else None,
                needed_for=tuple(capability for capability, _ in wanted),
                unblock=worded(WAYS_OUT[item.check]) if over or item.verdict != PASS else "",
                given_by=row.given_by,
            )
        )
    told = {one.check for one in found}
    found += [
        Shown(
            check=check,
            device="",
            standing="unknown",
            reason="nothing was said about it",
            told_by="",
            facts={},
            since=None,
            expires_at=None,
            needed_for=tuple(capability for capability, _ in needs[check]),
            unblock=worded(WAYS_OUT[check]),
            given_by=None,
        )
        for check in CHECKS
        if check in needs and check not in told
    ]
    return sorted(found, key=lambda one: (CHECKS.index(one.check), one.device))


def failing(shown: list[Shown]) -> int:
    """How many checks fail."""
    return sum(one.standing == FAIL for one in shown)


def proof_list(node: Node, most: int) -> list[CleanupProof]:
    """The host's cleanups with what was proven, newest first."""
    rows = CleanupProof.objects.filter(task__node=node)
    return list(rows.select_related("claim__tenant", "claim__allocation").order_by("-id")[:most])
