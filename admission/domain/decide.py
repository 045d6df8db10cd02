"""May this happen?  Ordered gates over facts; the same facts always give the same verdict.

Capacity is not asked about here: authority comes first, and placement adds the last gate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
ISOLATION_RANK = {"shared": 0, "mig": 1, "gpu": 2, "vm": 3, "node": 4, "cluster": 5}


@dataclass(frozen=True, slots=True)
class Quota:
    """What the tenant may hold and holds of the class, in milli-units."""

    limit_milli: int
    used_milli: int
    grandfathered_milli: int = 0
    admitting: bool = True
    version: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the gates look at, read in one snapshot."""

    actor: str
    may_write: bool
    tenant_state: str
    project_known: bool
    sku: str
    sku_state: str
    shape: str
    slots_min: int
    slots_max: int
    slots_asked: int
    amount_milli: int
    resource_class: str
    quota: Quota | None
    tier: str
    tier_asked: str
    tier_isolation: str
    sku_isolation: str
    band: int | None
    image: str
    image_known: bool
    keys_unknown: tuple[str, ...] = ()

    def digest(self) -> str:
        """SHA-256 over the canonical facts, so that a decision can be replayed."""
        seen = {name: getattr(self, name) for name in self.__slots__}
        if self.quota is not None:
            seen["quota"] = {name: getattr(self.quota, name) for name in self.quota.__slots__}
        return hashlib.sha256(_canonical(seen).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate's answer: the code is empty when it let the request through."""

    gate: str
    passed: bool
    code: str = ""
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As it is stored in the decision."""
        return {
            "gate": self.gate,
            "passed": self.passed,
            "code": self.code,
            "detail": self.detail,
            "facts": self.facts,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gates passed so far, and the one that refused, if any."""

    gates: tuple[Gate, ...]

    @property
    def refusal(self) -> Gate | None:
        """The gate that refused."""
        return next((gate for gate in self.gates if not gate.passed), None)


def _identity(facts: Facts) -> Gate:
    if not facts.may_write:
        return Gate(
            "identity", False, "permission_denied", "The role or the token does not allow it."
        )
    if not facts.project_known:
        return Gate("identity", False, "not_found", "The tenant has no such project.")
    return Gate("identity", True, detail=f"{facts.actor} may ask for this.")


_TENANT_CODES = {"pending": "tenant_pending", "suspended": "tenant_suspended"}


def _tenant_state(facts: Facts) -> Gate:
    if facts.tenant_state != "active":
        code = _TENANT_CODES.get(facts.tenant_state, "tenant_not_active")
        return Gate(
            "tenant_state",
            False,
            code,
            f"The tenant is {facts.tenant_state}.",
            {"tenant_state": facts.tenant_state},
        )
    return Gate("tenant_state", True, detail="The tenant is active.")


def _entitlement(facts: Facts) -> Gate:
    if facts.sku_state != "published":
        return Gate(
            "entitlement",
            False,
            "sku_not_published",
            f"{facts.sku} is {facts.sku_state}.",
            {"sku_state": facts.sku_state},
        )
    if facts.quota is None:
        return Gate(
            "entitlement",
            False,
            "authority_incomplete",
            f"The tenant has no envelope for {facts.resource_class}.",
            {"missing": "envelope", "resource_class": facts.resource_class},
        )
    if facts.band is None:
        return Gate(
            "entitlement",
            False,
            "authority_incomplete",
            f"The tier {facts.tier} has no priority class.",
            {"missing": "priority_class", "tier": facts.tier},
        )
    return Gate("entitlement", True, detail=f"{facts.sku} is sold, and the tenant may hold it.")


def _policy(facts: Facts) -> Gate:
    size = facts.slots_asked
    numbers = {"asked": size, "min": facts.slots_min, "max": facts.slots_max}
    if facts.shape == "gpu_slice" and not facts.slots_min <= size <= facts.slots_max:
        return Gate(
            "policy",
            False,
            "slots_out_of_range",
            f"{size} slots asked; {facts.sku} is sold with {facts.slots_min} to {facts.slots_max}.",
            numbers,
        )
    if not facts.image_known:
        return Gate(
            "policy",
            False,
            "image_unknown",
            f"No image {facts.image!r} starts a {facts.shape}.",
            {"image": facts.image},
        )
    if facts.keys_unknown:
        return Gate(
            "policy",
            False,
            "ssh_key_missing",
            "Some keys are not the tenant's.",
            {"ssh_keys": list(facts.keys_unknown)},
        )
    return Gate("policy", True, detail="Size, image and keys are allowed.", facts=numbers)


def _quota(facts: Facts) -> Gate:
    assert facts.quota is not None
    quota = facts.quota
    limit = quota.limit_milli + quota.grandfathered_milli
    left = max(0, limit - quota.used_milli)
    numbers = {
        "resource_class": facts.resource_class,
        "asked_milli": facts.amount_milli,
        "used_milli": quota.used_milli,
        "limit_milli": quota.limit_milli,
        "free_milli": left,
        "never": facts.amount_milli > quota.limit_milli,
    }
    if quota.used_milli + facts.amount_milli > limit:
        return Gate(
            "quota",
            False,
            "envelope_exceeded",
            f"{facts.amount_milli / 1000:g} {facts.resource_class} asked, "
            f"{quota.used_milli / 1000:g} held of {quota.limit_milli / 1000:g}: "
            f"{left / 1000:g} left.",
            numbers,
        )
    return Gate(
        "quota",
        True,
        detail=f"{left / 1000:g} {facts.resource_class} left before this.",
        facts=numbers,
    )


def _tier(facts: Facts) -> Gate:
    if facts.tier_asked and facts.tier_asked != facts.tier:
        return Gate(
            "tier",
            False,
            "tier_not_allowed",
            f"{facts.tier_asked!r} asked; the tenant's tier is {facts.tier!r}.",
            {"asked": facts.tier_asked, "tier": facts.tier},
        )
    return Gate("tier", True, detail=f"Tier {facts.tier}, band {facts.band}.")


def _isolation(facts: Facts) -> Gate:
    promised = ISOLATION_RANK.get(facts.tier_isolation, 0)
    given = ISOLATION_RANK.get(facts.sku_isolation, 0)
    numbers = {"promised": facts.tier_isolation, "given": facts.sku_isolation}
    if given < promised:
        return Gate(
            "isolation",
            False,
            "isolation_not_offered",
            f"The tier promises {facts.tier_isolation}, the SKU gives {facts.sku_isolation}.",
            numbers,
        )
    return Gate("isolation", True, detail=f"The SKU gives {facts.sku_isolation}.", facts=numbers)


def _locality(facts: Facts) -> Gate:
    return Gate("locality", True, detail="The request names no data to stay near.")


GATES: tuple[Callable[[Facts], Gate], ...] = (
    _identity,
    _tenant_state,
    _entitlement,
    _policy,
    _quota,
    _tier,
    _isolation,
    _locality,
)
"""The Execution Authority Boundary, in order; capacity comes after all of these."""


def decide(facts: Facts, gates: Iterable[Callable[[Facts], Gate]] = GATES) -> Verdict:
    """Pass the gates in order and stop at the first that refuses."""
    passed: list[Gate] = []
    for gate in gates:
        answer = gate(facts)
        passed.append(answer)
        if not answer.passed:
            break
    return Verdict(tuple(passed))
