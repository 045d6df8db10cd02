"""What does a tier promise, are its terms sound, and what does a change of it mean?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

ISOLATIONS = ("shared", "mig", "gpu", "vm", "node", "cluster")
PREEMPTIONS = ("never", "when_borrowing", "by_band")
MILLION = 1_000_000
_RANGES = {
    "priority_band": 1000,
    "protected_run_s": 366 * 86_400,
    "availability_ppm": MILLION,
    "provision_target_s": 30 * 86_400,
    "throughput_floor_permille": 1000,
    "checkpoint_grace_s": 86_400,
    "degradation_rank": 1000,
}
TERMS = (*_RANGES, "preemptible", "isolation", "preemption", "credit_ladder")
"""Everything that a tier's version fixes."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One running lease that a change of tier touches."""

    id: str
    name: str
    sku: str
    isolation: str


@dataclass(frozen=True, slots=True)
class Change:
    """One term before and after, and whether the tenant loses by it."""

    term: str
    before: Any
    after: Any
    worse: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """Whom and what a change touches: to be looked at before it is made."""

    tenants: tuple[str, ...]
    changes: tuple[Change, ...]
    leases: tuple[Lease, ...]
    broken: tuple[str, ...]
    """Ids of leases that have less isolation than would be promised."""

    def as_json(self) -> dict[str, Any]:
        """As it is shown and kept."""
        return {**asdict(self), "digest": self.digest}

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed."""
        seen = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(seen.encode()).hexdigest()


def faults(terms: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the given terms, by term; empty when nothing is."""
    out = {}
    for name, value in terms.items():
        if name in _RANGES:
            if isinstance(value, bool) or not isinstance(value, int):
                out[name] = "an integer"
            elif not 0 <= value <= _RANGES[name]:
                out[name] = f"0 to {_RANGES[name]}"
        elif name == "preemptible":
            if not isinstance(value, bool):
                out[name] = "true or false"
        elif name == "isolation" and value not in ISOLATIONS:
            out[name] = ", ".join(ISOLATIONS)
        elif name == "preemption" and value not in PREEMPTIONS:
            out[name] = ", ".join(PREEMPTIONS)
        elif name == "credit_ladder":
            fault = _ladder_fault(value)
            if fault:
                out[name] = fault
        elif name not in TERMS:
            out[name] = f"no such term; there are {', '.join(sorted(TERMS))}"
    return out


def _ladder_fault(value: Any) -> str:
    if not isinstance(value, list) or len(value) > 10:
        return "a list of at most 10 rungs"
    last_below, last_credit = MILLION + 1, 0
    for rung in value:
        if not isinstance(rung, dict) or set(rung) != {"below_ppm", "credit_permille"}:
            return "rungs of below_ppm and credit_permille"
        below, credit = rung["below_ppm"], rung["credit_permille"]
        if any(isinstance(n, bool) or not isinstance(n, int) for n in (below, credit)):
            return "integers"
        if not (0 < below < last_below and last_credit < credit <= 1000):
            return "rungs that fall in below_ppm and rise in credit_permille, up to 1000"
        last_below, last_credit = below, credit
    return ""


def _worse(term: str, before: Any, after: Any) -> bool:
    if term in ("availability_ppm", "protected_run_s", "throughput_floor_permille"):
        return bool(after < before)
    if term in ("checkpoint_grace_s", "degradation_rank"):
        return bool(after < before)
    if term in ("priority_band", "provision_target_s"):
        return bool(after > before)
    if term == "preemptible":
        return bool(after and not before)
    if term == "isolation":
        return ISOLATIONS.index(after) < ISOLATIONS.index(before)
    if term == "preemption":
        return PREEMPTIONS.index(after) > PREEMPTIONS.index(before)
    return bool(_credit(after) < _credit(before))


def _credit(ladder: Sequence[Mapping[str, int]]) -> int:
    """The share of a month that one would be credited at the worst, in permille."""
    return max((rung["credit_permille"] for rung in ladder), default=0)


def preview(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    tenants: Sequence[str],
    leases: Sequence[Lease],
) -> Preview:
    """Whom a change of terms touches, which terms change, and which leases would fall short."""
    changes = tuple(
        Change(term, before[term], after[term], _worse(term, before[term], after[term]))
        for term in TERMS
        if before[term] != after[term]
    )
    promised = ISOLATIONS.index(after["isolation"])
    kept = tuple(sorted(leases, key=lambda lease: lease.id))
    broken = tuple(
        lease.id
        for lease in kept
        if lease.isolation not in ISOLATIONS or ISOLATIONS.index(lease.isolation) < promised
    )
    return Preview(tuple(sorted(tenants)), changes, kept, broken)
