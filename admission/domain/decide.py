"""May this happen?  Ordered gates over facts; the same facts always give the same verdict.

Capacity is not asked about here: authority comes first, and placement adds the last gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from admission.domain.facts import Facts, Holding, Quota
from admission.domain.locality import Conflict, Near, Wish, missing_storage, near, wishes
from admission.domain.policy import Answer
from admission.domain.sharing import OWN_TENANT
from admission.domain.sharing import RANK as ISOLATION_RANK
from tenants.domain.caps import Ask as CapsAsk
from tenants.domain.caps import first_breach

__all__ = ["Facts", "Gate", "Holding", "Quota", "Verdict", "decide"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate's answer: the code is empty when it let the request through.

    ``waits``: what refuses may end by itself or by somebody's act, so a request may wait.
    """

    gate: str
    passed: bool
    code: str = ""
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    waits: bool = False

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
            waits=facts.tenant_state == "suspended",
        )
    return Gate("tenant_state", True, detail="The tenant is active.")


def _gone(facts: Facts) -> dict[str, str]:
    """What nobody has said yet of the tenant, its tier or the pool, each in a sentence."""
    tier = f"The tier {facts.tier} has no"
    parts = (
        ("pool", f"There is no pool {facts.pool!r}.", not facts.pool_known),
        (
            "envelope",
            f"The tenant has no envelope for {facts.resource_class}.",
            facts.quota is None,
        ),
        ("priority_class", f"{tier} priority class.", facts.band is None),
        ("isolation", f"{tier} isolation level.", facts.tier_isolation not in ISOLATION_RANK),
        ("preemption_policy", f"{tier} preemption policy.", not facts.preemption),
    )
    return {name: words for name, words, gone in parts if gone}


def _entitlement(facts: Facts) -> Gate:
    if facts.sku_state != "published":
        return Gate(
            "entitlement",
            False,
            "sku_not_published",
            f"{facts.sku} is {facts.sku_state}.",
            {"sku_state": facts.sku_state},
        )
    if not facts.entitled:
        return Gate(
            "entitlement",
            False,
            "entitlement_missing",
            f"{facts.sku} is not among the SKUs that the tenant may ask for.",
            {"sku": facts.sku},
        )
    gone = _gone(facts)
    if gone:
        # Without its pool nothing would ever look at it again; the rest an operator adds.
        return Gate(
            "entitlement",
            False,
            "authority_incomplete",
            " ".join(gone.values()),
            {
                "missing": list(gone),
                "resource_class": facts.resource_class,
                "tier": facts.tier,
                "pool": facts.pool,
            },
            waits=facts.pool_known,
        )
    return Gate("entitlement", True, detail=f"{facts.sku} is sold, and the tenant may hold it.")


def _order(facts: Facts) -> Gate | None:
    """What is wrong with the order itself, whatever any rule says."""
    size = facts.slots_asked
    if facts.shape != "baremetal" and not facts.slots_min <= size <= facts.slots_max:
        return Gate(
            "policy",
            False,
            "slots_out_of_range",
            f"{size} slots asked; {facts.sku} is sold with {facts.slots_min} to {facts.slots_max}.",
            {"asked": size, "min": facts.slots_min, "max": facts.slots_max},
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
    return None


Judge = Callable[[dict[str, Any]], Answer | None]
"""Asks the active rules about the facts."""


def _policy(facts: Facts, judge: Judge | None) -> Gate:
    wrong = _order(facts)
    if wrong is not None:
        return wrong
    answer = judge(facts.seen()) if judge is not None else None
    if answer is not None:
        return ruled(answer)
    sizes = {"asked": facts.slots_asked, "min": facts.slots_min, "max": facts.slots_max}
    return Gate("policy", True, detail="Size, image and keys are allowed.", facts=sizes)


def ruled(answer: Answer) -> Gate:
    """The gate of a rule that forbids, or that could not be evaluated."""
    numbers: dict[str, Any] = {"rule": answer.rule, "rule_version": answer.version}
    if answer.broken:
        return Gate(
            "policy",
            False,
            "policy_broken",
            f"The rule {answer.rule} v{answer.version} cannot be evaluated: {answer.detail}",
            numbers,
        )
    detail = f"{answer.detail} (rule {answer.rule} v{answer.version})"
    if answer.unblock:
        numbers["unblock"] = answer.unblock
    return Gate("policy", False, "policy_forbids", detail, numbers, waits=answer.windowed)


def _caps(facts: Facts) -> Gate | None:
    if facts.holding is None:
        return None
    holding = facts.holding
    ask = CapsAsk(
        shape=facts.shape,
        slots=facts.slots_asked,
        band=facts.asked_band,
        allocations=facts.replicas if facts.amount_milli else 0,
        live=holding.live,
        waiting=holding.waiting,
        zones=facts.zones,
        committed_micro=holding.committed_micro,
    )
    breach = first_breach(holding.caps, ask)
    if breach is None:
        return None
    numbers = {**breach.facts, "never": breach.never}
    return Gate("quota", False, breach.code, breach.detail, numbers, waits=not breach.never)


def _units(milli: int) -> str:
    return f"{milli / 1000:g}"


def _quota(facts: Facts) -> Gate:
    assert facts.quota is not None
    capped = _caps(facts)
    if capped is not None:
        return capped
    quota, asked = facts.quota, facts.amount_milli
    free = quota.free_milli
    never = asked > quota.most_milli
    numbers = {
        "resource_class": facts.resource_class,
        "asked_milli": asked,
        "used_milli": quota.used_milli,
        "limit_milli": quota.limit_milli,
        "borrow_milli": quota.borrow_milli,
        "free_milli": free,
        "never": never,
    }
    if asked > free:
        held = f"{_units(asked)} {facts.resource_class} asked"
        project = quota.project_free_milli
        if asked > quota.own_free_milli:
            code = "envelope_exceeded"
            may = quota.limit_milli + quota.borrow_milli
            detail = (
                f"{held}, {_units(quota.used_milli)} held of {_units(may)}: "
                f"{_units(quota.own_free_milli)} left."
            )
        elif project is not None and asked > project:
            code, detail = (
                "project_quota_exceeded",
                f"{held}; the project has {_units(project)} left.",
            )
        else:
            code = "cohort_exhausted"
            detail = f"{held}; the cohort {quota.cohort} has {_units(free)} left to lend."
        return Gate("quota", False, code, detail, numbers, waits=not never)
    return Gate(
        "quota",
        True,
        detail=f"{_units(free)} {facts.resource_class} left before this.",
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
    if facts.band_asked is not None and facts.band_asked < (facts.band or 0):
        return Gate(
            "tier",
            False,
            "band_not_allowed",
            f"Band {facts.band_asked} asked; the tier {facts.tier} begins at {facts.band}.",
            {"band": facts.band_asked, "best_band": facts.band},
        )
    return Gate("tier", True, detail=f"Tier {facts.tier}, band {facts.asked_band}.")


def _sharing(facts: Facts) -> Gate:
    if facts.headroom is not None and facts.headroom.code:
        numbers = facts.headroom.as_json()
        if facts.headroom.code == "gpu_memory_exceeded":
            detail = f"{facts.headroom.needed} bytes needed, {facts.headroom.available} available."
        elif facts.headroom.missing:
            detail = f"The model's {', '.join(facts.headroom.missing)} are not given."
        else:
            detail = f"How much memory the GPUs of {facts.family or facts.sku} have is not known."
        return Gate("sharing", False, facts.headroom.code, detail, numbers)
    if facts.sharing is not None and facts.sharing.code:
        return Gate("sharing", False, facts.sharing.code, facts.sharing.detail)
    if facts.headroom is not None:
        return Gate("sharing", True, detail="It fits.", facts=facts.headroom.as_json())
    if facts.sharing is not None:
        return Gate("sharing", True, detail=facts.sharing.detail)
    return Gate("sharing", True, detail="Nothing is shared.")


def _isolation(facts: Facts) -> Gate:
    promised = ISOLATION_RANK.get(facts.tier_isolation, 0)
    given = ISOLATION_RANK.get(facts.sku_isolation, 0)
    numbers = {"promised": facts.tier_isolation, "given": facts.sku_isolation}
    if facts.neighbours == OWN_TENANT:
        given = max(given, ISOLATION_RANK["node"])
        numbers["given"], numbers["neighbours"] = "node", facts.neighbours
    if given < promised:
        return Gate(
            "isolation",
            False,
            "isolation_not_offered",
            f"The tier promises {facts.tier_isolation}, the SKU gives {facts.sku_isolation}.",
            numbers,
        )
    if facts.neighbours == OWN_TENANT:
        detail = "Its node takes no other tenant's work while it is there."
        return Gate("isolation", True, detail=detail, facts=numbers)
    return Gate("isolation", True, detail=f"The SKU gives {facts.sku_isolation}.", facts=numbers)


def place_of(facts: Facts) -> Near | Conflict:
    """Where the request has to run."""
    return near(facts.zones, facts.data, facts.storage, facts.stores)


def wishes_of(facts: Facts) -> tuple[Wish, ...]:
    """Where the request would rather run, the best first."""
    return wishes(facts.zones, facts.data, facts.storage, facts.stores)


def _locality(facts: Facts) -> Gate:
    if facts.data_unknown:
        return Gate(
            "locality",
            False,
            "dataset_unknown",
            f"The tenant has no data set {facts.data_unknown[0]!r}.",
            {"datasets": list(facts.data_unknown)},
        )
    if not facts.zones and not facts.data and not facts.storage:
        return Gate("locality", True, detail="The request names no data to stay near.")
    seen = {
        "datasets": [f"{d.name} v{d.version}" for d in facts.data],
        "zones": list(facts.zones),
        **_storage_seen(facts),
    }
    gone = missing_storage(facts.storage, facts.data, facts.stores)
    if gone:
        detail = f"Nobody offers {', '.join(gone)}."
        return Gate(
            "locality", False, "storage_not_offered", detail, {**seen, "missing": list(gone)}
        )
    where = place_of(facts)
    if isinstance(where, Conflict):
        wants = "; ".join(f"{who}: {', '.join(names)}" for who, names in where.wants)
        return Gate(
            "locality", False, "locality_conflict", f"No {where.kind} for all: {wants}.", seen
        )
    detail = "It may run anywhere." if where.anywhere else "It runs where its data lies."
    rather = [d.name for d in facts.data if not d.required]
    if rather:
        detail = f"{detail} It goes near {', '.join(rather)} if there is room."
        seen["preferred"] = rather
    return Gate("locality", True, detail=detail, facts={**seen, **where.as_json()})


def _storage_seen(facts: Facts) -> dict[str, Any]:
    """The storage that was asked for, or on which the data lies; empty when there is none."""
    named = {name for d in facts.data for name in d.storage}
    if not facts.storage and not named:
        return {}
    used = [s for s in facts.stores if s.name in named or s.kind in facts.storage]
    told = [f"{s.name} v{s.version} ({s.kind}): {', '.join(s.zones) or 'every zone'}" for s in used]
    return {"storage": list(facts.storage), "stores": told}


BEFORE: tuple[Callable[[Facts], Gate], ...] = (_identity, _tenant_state, _entitlement)
AFTER: tuple[Callable[[Facts], Gate], ...] = (_quota, _tier, _sharing, _isolation, _locality)
"""The Execution Authority Boundary, in order: these, with the policy between; capacity last."""
GATES = (
    "identity",
    "tenant_state",
    "entitlement",
    "policy",
    "quota",
    "tier",
    "sharing",
    "isolation",
    "locality",
)
"""Their names, in the order that every decision keeps."""


def decide(facts: Facts, *, judge: Judge | None = None) -> Verdict:
    """Pass the gates in order and stop at the first that refuses; ``judge`` asks the rules."""
    gates: Iterable[Callable[[Facts], Gate]] = (*BEFORE, lambda f: _policy(f, judge), *AFTER)
    passed: list[Gate] = []
    for gate in gates:
        answer = gate(facts)
        passed.append(answer)
        if not answer.passed:
            break
    return Verdict(tuple(passed))
