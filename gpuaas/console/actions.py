"""What may an operator do to a thing, and what will happen if they do?

Each action says its consequence, with the numbers of this moment, before it runs. Whether
it is offered follows from the lifecycle tables; the services decide again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from admission.services import tenancies
from gpuaas.kernel.actor import Actor
from placement import states
from placement.services import approvals, cleanup, nodes, overrides
from placement.states import AllocationState, NodeState
from tenants.services import tenancy
from tenants.states import TENANT


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """What a consequence is told with."""

    state: str
    live_claims: int
    free: int
    verified: int
    drained: bool
    fates: str = ""
    """What becomes of what stands there, in words."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One action as it is shown: what it is called, what it does, how risky it is."""

    name: str
    title: str
    consequence: str
    risk: bool = False
    main: bool = False
    asks_family: bool = False
    needs: str = ""
    """The action that the operator's role has to carry; empty: what the page's own forms ask."""


Run = Callable[[UUID, str, Actor], object]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def node_actions(numbers: NodeNumbers) -> list[Offered]:
    """What can be done to a node in this state, most likely first."""
    held = _count(numbers.live_claims, "live claim")
    stay = f"The {held} on it stay until they are released." if numbers.live_claims else ""
    none = "Nothing is claimed on it now." if not numbers.live_claims else stay
    edges = {name for name, e in states.NODE.edges.items() if numbers.state in e.sources}
    offered: list[Offered] = []
    if numbers.verified and numbers.state in (NodeState.VERIFYING, NodeState.READY):
        offered.append(
            Offered(
                "approve",
                "Approve the discovered slots",
                f"{_count(numbers.verified, 'slot')} can be leased from this moment on.",
                main=True,
                asks_family=True,
            )
        )
    if numbers.drained:
        offered.append(
            Offered(
                "undrain",
                "End the drain",
                f"New work may be placed on it again: {_count(numbers.free, 'free slot')}.",
                main=True,
            )
        )
    elif numbers.state != NodeState.RETIRED:
        told = numbers.fates if numbers.live_claims else ""
        words = " ".join(filter(None, (f"Nothing new is placed on it. {none}", told)))
        offered.append(Offered("drain", "Drain", words))
    if numbers.state not in (NodeState.ENROLLING, NodeState.RETIRED):
        offered.append(
            Offered(
                "discover",
                "Discover again",
                "The host reads its devices and reports them. Approved slots do not change; "
                "a difference is shown for you to decide.",
            )
        )
    if "restore" in edges:
        offered.append(
            Offered(
                "restore", "Put it back to work", "New work may be placed on it again.", main=True
            )
        )
    if "maintain" in edges:
        offered.append(
            Offered("maintain", "Begin maintenance", f"Nothing new is placed on it. {none}")
        )
    if "quarantine" in edges:
        offered.append(
            Offered(
                "quarantine",
                "Quarantine",
                f"Nothing new is placed on it until somebody puts it back to work. {none}",
                risk=True,
            )
        )
    if "retire" in edges and not numbers.live_claims:
        offered.append(
            Offered(
                "retire",
                "Retire",
                "It leaves the fleet for good and its slots with it. It cannot be undone.",
                risk=True,
            )
        )
    return offered


def node_run(name: str, family: str = "") -> Run | None:
    """The service behind a node's action, or None for a strange name."""

    def approve(pk: UUID, reason: str, actor: Actor) -> object:
        return approvals.node_approve(node_id=pk, reason=reason, actor=actor, family=family or None)

    simple: dict[str, Callable[..., object]] = {
        "drain": nodes.node_drain,
        "undrain": nodes.node_undrain,
        "discover": nodes.node_discover,
        "restore": nodes.node_restore,
        "maintain": nodes.node_maintain,
        "quarantine": nodes.node_quarantine,
        "retire": nodes.node_retire,
    }
    if name == "approve":
        return approve
    service = simple.get(name)
    if service is None:
        return None
    return lambda pk, reason, actor: service(node_id=pk, reason=reason, actor=actor)


def tenant_actions(state: str, live: int) -> list[Offered]:
    """What can be done to a tenant in this state."""
    goes_on = f"{_count(live, 'allocation')} that it holds go on." if live else "It holds nothing."
    known = {
        "approve": Offered(
            "approve",
            "Approve",
            "It may lease what its envelopes allow, from this moment on.",
            main=True,
        ),
        "reject": Offered(
            "reject", "Reject", "It never gets anything. It cannot be undone.", risk=True
        ),
        "suspend": Offered("suspend", "Suspend", f"Nothing new starts. {goes_on}", risk=True),
        "resume": Offered("resume", "Resume", "It may lease again.", main=True),
    }
    return [offer for name, offer in known.items() if state in TENANT.edges[name].sources]


def tenant_run(name: str) -> Run | None:
    """The service behind a tenant's action."""
    services: dict[str, Callable[..., object]] = {
        "approve": tenancies.tenant_approve,
        "reject": tenancies.tenant_reject,
        "suspend": tenancy.tenant_suspend,
        "resume": tenancy.tenant_resume,
    }
    service = services.get(name)
    if service is None:
        return None
    return lambda pk, reason, actor: service(tenant_id=pk, reason=reason, actor=actor)


def allocation_actions(state: str, asked_by: str, *, rule: str, residue: int = 0) -> list[Offered]:
    """What can be done about what an allocation left blocked.

    ``asked_by`` asked for an override; ``rule`` says whose approval counts; ``residue`` counts
    the slots on which its traces were found after it was released.
    """
    if state != AllocationState.CLEANUP_BLOCKED:
        return override_offers(asked_by, rule) if residue else []
    return [
        Offered(
            "retry-cleanup",
            "Try the cleanup again",
            "The host does every cleanup step anew and proves each. The capacity stays blocked "
            "until the proof is complete.",
            main=True,
        ),
        *override_offers(asked_by, rule),
    ]


def override_offers(asked_by: str, rule: str) -> list[Offered]:
    """The next steps of an override: to ask for it; or to answer what ``asked_by`` asked for."""
    if not asked_by:
        return [override_offer(asked_by, rule)]
    return [
        override_offer(asked_by, rule),
        Offered(
            "refuse-override",
            "Refuse the override",
            f"{asked_by} asked for it and reads your reason. The capacity stays blocked.",
            needs="overrides:write",
        ),
        Offered(
            "withdraw-override",
            "Withdraw the override",
            f"Only {asked_by}, who asked for it, can. The capacity stays blocked.",
        ),
    ]


def override_offer(asked_by: str, rule: str) -> Offered:
    """The next step of an override: to ask for it, or to approve what ``asked_by`` asked for."""
    if asked_by:
        return Offered(
            "approve-override",
            "Approve the override",
            f"{asked_by} asked for it. The capacity is given to other tenants WITHOUT proof "
            "that the last tenant's traces are gone. Both names stay in the record. " + rule,
            risk=True,
            needs="overrides:write",
        )
    return Offered(
        "request-override",
        "Ask for an override",
        "Nothing happens until it is approved. Then the capacity is given to other "
        "tenants without proof. " + rule,
        risk=True,
    )


ANSWERS = frozenset({"approve-override", "refuse-override"})
"""Actions that answer what another asked for: they need ``overrides:write``."""


def allocation_run(name: str) -> Run | None:
    """The service behind an allocation's action."""
    services: dict[str, Callable[..., object]] = {
        "retry-cleanup": cleanup.cleanup_retry,
        "request-override": overrides.override_request,
        "approve-override": overrides.override_approve,
        "refuse-override": overrides.override_refuse,
        "withdraw-override": overrides.override_withdraw,
    }
    service = services.get(name)
    if service is None:
        return None
    return lambda pk, reason, actor: service(allocation_id=pk, reason=reason, actor=actor)


def slot_run(name: str) -> Run | None:
    """The service behind a blocked slot's action."""
    services: dict[str, Callable[..., object]] = {
        "request-override": overrides.slot_override_request,
        "approve-override": overrides.slot_override_approve,
        "refuse-override": overrides.slot_override_refuse,
        "withdraw-override": overrides.slot_override_withdraw,
    }
    service = services.get(name)
    if service is None:
        return None
    return lambda pk, reason, actor: service(slot_id=pk, reason=reason, actor=actor)
