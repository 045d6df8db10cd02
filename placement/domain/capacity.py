"""What is a node's posture, and may anything new be placed on it?  Derived, never a flag."""

from __future__ import annotations

from dataclasses import dataclass

POSTURES = (
    "fully_available",
    "partially_allocated",
    "fully_allocated",
    "exclusive_baremetal",
    "draining",
    "cleanup_blocked",
    "unavailable",
)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What posture is derived from: claims and evidence, read together.

    ``blocking_conditions`` are those of the node as a whole; ``residue`` counts the slots with
    traces of an earlier tenant, which block no other slot. ``takes``: the shapes that it is meant
    and promoted for, or none.
    """

    state: str
    draining: bool
    health: str
    blocking_conditions: tuple[str, ...]
    approved: int
    free: int
    whole_claimed: bool
    slot_claims: int
    cleanup_blocked: int
    residue: int = 0
    held: bool = False
    """Whether room is being made there for somebody: nothing new comes until that is done."""
    takes: str = "any"
    burning: bool = False
    """Whether a burn-in of the host is open, whoever has ended its drain."""


def schedulable(facts: NodeFacts) -> bool:
    """Whether new work may be placed: ready, healthy, known, fit for a shape, not draining."""
    return (
        facts.state == "ready"
        and not facts.draining
        and not facts.held
        and not facts.burning
        and facts.health == "ok"
        and not facts.blocking_conditions
        and facts.approved > 0
        and facts.takes != "none"
    )


BURN_IN_RUNS = "burn_in_runs"
"""What keeps new work away while a host's GPUs are under load: its open task, or its own word."""
RESIDUE = "residue_found"
"""The one condition that is about cleanup: an earlier tenant's traces are still there."""


def posture(facts: NodeFacts) -> str:
    """One of the seven postures. The most restrictive that holds is shown.

    Left-over traces alone are a cleanup that is not proven, not a broken host. On a single
    slot they are shown as such, and the other slots go on being leased.
    """
    other = [code for code in facts.blocking_conditions if code != RESIDUE]
    if facts.state != "ready" or facts.health == "unknown" or other or facts.approved == 0:
        return "unavailable"
    if facts.cleanup_blocked or facts.residue or facts.blocking_conditions:
        return "cleanup_blocked"
    if facts.health != "ok" or facts.takes == "none":
        return "unavailable"
    if facts.draining or facts.burning:
        return "draining"
    if facts.whole_claimed:
        return "exclusive_baremetal"
    if facts.slot_claims and facts.free == 0:
        return "fully_allocated"
    if facts.slot_claims:
        return "partially_allocated"
    return "fully_available" if facts.free else "unavailable"
