"""May a tenant come, go, or hold more?  The same gates in the same order, over other facts.

A change takes no capacity, so most gates have nothing to weigh and say so. In place of
capacity the last gate is the approval: a signup and a wish for more quota wait for an
operator's word, while a deletion is its asker's own to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from admission.domain.decide import GATES, Gate, Judge, Verdict, ruled
from admission.domain.facts import Quota, digest_of, quota_seen

SIGNUP: Final = "tenant.signup"
DELETION: Final = "tenant.delete"
INCREASE: Final = "quota.increase"
KINDS: Final = {SIGNUP: "signup", DELETION: "deletion", INCREASE: "increase"}
APPROVAL: Final = "approval"
WAITS: Final = "waiting_for_approval"
REFUSED: Final = "approval_refused"

_STATES: Final = {
    SIGNUP: ("", "pending"),
    DELETION: ("active", "suspended"),
    INCREASE: ("pending", "active", "suspended"),
}
"""In which states of the tenant each may happen; before a signup there is none."""


@dataclass(frozen=True, slots=True)
class Word:
    """What an operator said about a change that needs one.

    ``milli`` is the amount that an increase is granted, where it is not what was asked.
    """

    granted: bool
    who: str
    reason: str = ""
    milli: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Everything the gates look at, read in one transaction.

    ``asked_milli`` and ``before_milli`` are an increase's, and ``granted_milli`` what an
    operator is about to grant, which is what rules judge then; ``open_wish`` names one of the
    same class that is open already; ``email_domain`` is a signup's.
    """

    action: str
    actor: str
    may: bool
    tenant: str = ""
    tenant_state: str = ""
    tier: str = ""
    cohort: str = ""
    resource_class: str = ""
    asked_milli: int = 0
    granted_milli: int | None = None
    before_milli: int = 0
    open_wish: str = ""
    email_domain: str = ""
    quota: Quota | None = None
    word: Word | None = None
    hour: int = 0
    weekday: int = 1
    policy_version: str = ""

    @property
    def weighed_milli(self) -> int:
        """The amount that is judged: what is granted, before that what is asked."""
        return self.asked_milli if self.granted_milli is None else self.granted_milli

    def digest(self) -> str:
        """SHA-256 over the canonical facts, so that a decision can be replayed."""
        return digest_of(self, self.__slots__)

    def seen(self) -> dict[str, Any]:
        """The map that policy rules see: the same names as for any other action."""
        return {
            "action": self.action,
            "tenant": {
                "slug": self.tenant,
                "state": self.tenant_state,
                "tier": self.tier,
                "cohort": self.cohort,
            },
            "request": {
                "sku": "",
                "shape": "",
                "family": "",
                "pool": "",
                "slots": 0,
                "replicas": 0,
                "amount_milli": 0,
                "wait": True,
                "zones": [],
                "image": "",
                "band": 0,
                "kind": KINDS[self.action],
                "resource_class": self.resource_class,
                "asked_milli": self.weighed_milli,
                "email_domain": self.email_domain,
                "storage": [],
                "neighbours": "",
            },
            "quota": quota_seen(self.quota),
            "time": {"hour": self.hour, "weekday": self.weekday},
        }


def _identity(change: Change) -> Gate:
    if not change.may:
        return Gate(
            "identity", False, "permission_denied", "The role or the token does not allow it."
        )
    return Gate("identity", True, detail=f"{change.actor} may ask for this.")


def _tenant_state(change: Change) -> Gate:
    state, facts = change.tenant_state, {"tenant_state": change.tenant_state}
    if state in _STATES[change.action]:
        detail = f"The tenant is {state}." if state else "There is no tenant yet."
        return Gate("tenant_state", True, detail=detail, facts=facts if state else {})
    code = "tenant_not_active" if change.action == INCREASE else "transition_refused"
    may = ", ".join(s for s in _STATES[change.action] if s)
    return Gate(
        "tenant_state",
        False,
        code,
        f"The tenant is {state}; this begins while it is {may}.",
        facts,
    )


def _quota(change: Change) -> Gate:
    if change.action != INCREASE:
        return Gate("quota", True, detail="It takes no quota.")
    numbers: dict[str, Any] = {
        "resource_class": change.resource_class,
        "asked_milli": change.asked_milli,
        "before_milli": change.before_milli,
    }
    if change.open_wish:
        return Gate(
            "quota",
            False,
            "increase_open_already",
            f"{change.resource_class} has an open wish.",
            {**numbers, "increase": change.open_wish},
        )
    detail = f"{change.asked_milli} asked, {change.before_milli} granted before."
    if change.granted_milli is not None:
        numbers["granted_milli"] = change.granted_milli
        detail = f"{detail} {change.granted_milli} is to be granted."
    return Gate("quota", True, detail=detail, facts=numbers)


def _tier(change: Change) -> Gate:
    return Gate("tier", True, detail=f"Tier {change.tier}." if change.tier else "No tier yet.")


_NOTHING: Final = {
    "entitlement": "Nothing that is sold is asked for.",
    "sharing": "Nothing is shared.",
    "isolation": "Nothing is placed.",
    "locality": "Nothing is placed.",
}


def _approval(change: Change) -> Gate:
    if change.action == DELETION:
        return Gate(APPROVAL, True, detail="Whoever may ask for it decides it.")
    word = change.word
    if word is None:
        return Gate(APPROVAL, False, WAITS, "An operator has to approve it.", waits=True)
    facts = {"by": word.who, "reason": word.reason}
    if word.granted:
        return Gate(APPROVAL, True, detail=f"{word.who} approved it.", facts=facts)
    return Gate(APPROVAL, False, REFUSED, f"{word.who} refused it: {word.reason}", facts)


_WEIGHED: Final[dict[str, Callable[[Change], Gate]]] = {
    "identity": _identity,
    "tenant_state": _tenant_state,
    "quota": _quota,
    "tier": _tier,
    APPROVAL: _approval,
}


def decide_change(change: Change, *, judge: Judge | None = None) -> Verdict:
    """Pass the gates in order and stop at the first that refuses; ``judge`` asks the rules."""
    passed: list[Gate] = []
    for name in (*GATES, APPROVAL):
        passed.append(_gate(name, change, judge))
        if not passed[-1].passed:
            break
    return Verdict(tuple(passed))


def _gate(name: str, change: Change, judge: Judge | None) -> Gate:
    if name == "policy":
        answer = judge(change.seen()) if judge is not None else None
        return (
            Gate("policy", True, detail="No rule forbids it.") if answer is None else ruled(answer)
        )
    weighed = _WEIGHED.get(name)
    return weighed(change) if weighed else Gate(name, True, detail=_NOTHING[name])
