"""What waits for an operator's word: tenants, wishes for quota, overrides; and which ends go on?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from admission.services import tenancies, wishes
from gpuaas.console.actions import Offered, override_offer, tenant_actions
from gpuaas.console.acts import Act, ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.amounts import Units
from gpuaas.ui.frame import Crumb
from gpuaas.ui.search import uuid_of
from placement.models import Allocation, CleanupOverride, CleanupProof, Node
from placement.selectors import deliverable_milli
from placement.services import cleanup, overrides
from placement.states import LIVE, ClaimState, ResidueState
from tenants.models import QuotaIncrease, Tenant
from tenants.selectors import increase_list
from tenants.services.access import person_id_of
from tenants.services.increases import IncreaseView, increase_view
from tenants.states import IncreaseState, TenantState

SHOWN = 100
Sent = Mapping[tuple[str, UUID], forms.Form]
GRANT = Offered("grant-wish", "Grant", "The envelope is set to this amount at once.", main=True)
REFUSE = Offered(
    "refuse-wish", "Refuse", "Nothing changes for the tenant; it reads your reason.", risk=True
)

RETRY = Offered(
    "retry-cleanup",
    "Try the cleanup again instead",
    "The host does every cleanup step anew and proves each. The override stays asked for.",
)

NO_OVERRIDE = Offered(
    "refuse", "Refuse the override", "The capacity stays blocked; who asked reads your reason."
)
WITHDRAW = Offered("withdraw", "Withdraw it", "You ask no longer; the capacity stays blocked.")
ANSWERS = ("approve-override", "approve-slot-override", "refuse-override", "refuse-slot-override")
CLEANUP = ("withdraw-override", "withdraw-slot-override", RETRY.name)


class GrantForm(ReasonForm):
    """What is granted, if not what was asked."""

    nominal_granted_milli = Units(
        label="Units granted", required=False, least=1, help_text="Empty: what was asked."
    )


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish with the numbers it is decided by."""

    row: QuotaIncrease
    view: IncreaseView
    acts: list[Act]


@dataclass(frozen=True, slots=True)
class Pending:
    """A tenant that waits, with who asked."""

    row: Tenant
    owners: list[str]
    acts: list[Act]


@dataclass(frozen=True, slots=True)
class Override:
    """Blocked capacity that somebody wants to reuse without proof.

    ``mine``: who reads this asked for it, and is not alone, so another has to approve.
    """

    asked: CleanupOverride
    allocation: Allocation | None
    slots: list[int]
    missing: list[str]
    mine: bool
    acts: list[Act]

    def add(self, slot: int, missing: list[str]) -> None:
        """Another slot that the same answer is about."""
        if slot not in self.slots:
            self.slots.append(slot)
        self.missing.extend(words for words in missing if words not in self.missing)

    @property
    def node(self) -> Node:
        """Where it is."""
        part = self.asked.claim or self.asked.residue
        assert part is not None
        return part.node


def _form(name: str, pk: UUID, sent: Sent) -> forms.Form:
    kind = GrantForm if name == GRANT.name else ReasonForm
    return sent.get((name, pk)) or kind(auto_id=f"{name}-{pk}-%s")


def _act(offer: Offered, pk: UUID, sent: Sent) -> Act:
    url = reverse("console:approval-act", args=[offer.name, pk])
    return Act(offer, url, _form(offer.name, pk, sent))


class Inbox(ConsolePage):
    """The inbox."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Approvals"),)

    def show(self, sent: Sent, status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        return self.page(
            "console/approvals.html",
            status=status,
            pending=self.pending(sent),
            wishes=self.wishes(sent),
            overrides=self.overrides(sent),
            deleting=list(self.deleting()[:SHOWN]),
        )

    def pending(self, sent: Sent) -> list[Pending]:
        """Tenants that signed up."""
        rows = Tenant.objects.filter(state=TenantState.PENDING).order_by("created_at")
        return [
            Pending(
                row,
                [member.user.email for member in row.members.all()],
                [
                    _act(replace(offer, name=f"{offer.name}-tenant"), row.pk, sent)
                    for offer in tenant_actions(TenantState.PENDING, 0)
                ],
            )
            for row in rows.prefetch_related("members__user")[:SHOWN]
        ]

    def wishes(self, sent: Sent) -> list[Wish]:
        """Wishes for quota, each beside what the fleet can deliver."""
        rows = list(increase_list(state=IncreaseState.ASKED)[:SHOWN])
        room = {kind: deliverable_milli(kind) for kind in {row.resource_class_id for row in rows}}
        return [
            Wish(
                row,
                increase_view(row, deliverable_milli=room[row.resource_class_id]),
                [_act(GRANT, row.pk, sent), _act(REFUSE, row.pk, sent)],
            )
            for row in rows
        ]

    def overrides(self, sent: Sent) -> list[Override]:
        """Overrides that were asked for, with what is not proved."""
        rule, me = overrides.approval_rule(), person_id_of(self.actor)
        alone = overrides.single_operator()
        found: dict[tuple[str, UUID], Override] = {}
        for asked in overrides_asked()[:SHOWN]:
            key, missing = _whole(asked), _missing(asked)
            slot = _slot_of(asked)
            if key in found:
                found[key].add(slot, missing)
                continue
            offer = override_offer(str(asked.asked_by.get("name") or "somebody"), rule)
            mine = asked.asked_by.get("person", "") == me
            acts = (
                []
                if mine and not alone
                else [_act(replace(offer, name=f"approve-{key[0]}"), key[1], sent)]
            )
            drop = WITHDRAW if mine else NO_OVERRIDE
            acts.append(_act(replace(drop, name=f"{drop.name}-{key[0]}"), key[1], sent))
            if key[0] == "override" and asked.claim is not None:
                acts.append(_act(RETRY, key[1], sent))
            found[key] = Override(asked, _left_by(asked), [slot], missing, mine and not alone, acts)
        return list(found.values())

    def deleting(self) -> QuerySet[Tenant]:
        """Tenants on their way out, with the live claims they still wait for."""
        live = Q(allocations__claims__state__in=LIVE)
        rows = Tenant.objects.filter(state=TenantState.DELETING).annotate(
            own=Count("allocations__claims", filter=live & Q(allocations__claims__holder="tenant")),
            blocked=Count(
                "allocations__claims", filter=live & ~Q(allocations__claims__holder="tenant")
            ),
        )
        return rows.order_by("state_since")


def overrides_asked() -> QuerySet[CleanupOverride]:
    """Overrides that wait for another operator's word, the oldest first."""
    rows = CleanupOverride.objects.filter(approved_at__isnull=True).filter(
        Q(claim__state=ClaimState.CLEANUP_BLOCKED) | Q(residue__state=ResidueState.FOUND)
    )
    return rows.select_related(
        "claim__allocation__tenant", "claim__node", "residue__node", "residue__slot"
    ).order_by("created_at", "id")


def _whole(asked: CleanupOverride) -> tuple[str, UUID]:
    """What one answer would be about: all that an allocation left, or one slot."""
    left_by = _left_by(asked)
    part = asked.claim or asked.residue
    assert part is not None
    slot_id = part.slot_id
    unasked = left_by and left_by.claims.filter(state__in=LIVE, override=None).exists()
    if left_by is not None and (slot_id is None or not unasked):
        return "override", left_by.pk
    assert slot_id is not None
    return "slot-override", slot_id


def _left_by(asked: CleanupOverride) -> Allocation | None:
    """The allocation that left it, where that is known."""
    if asked.claim is not None:
        return asked.claim.allocation
    assert asked.residue is not None
    pk = uuid_of(asked.residue.left_by)
    rows = Allocation.objects.select_related("tenant").filter(node=asked.residue.node)
    return rows.filter(pk=pk).first() if pk else None


def _slot_of(asked: CleanupOverride) -> int:
    if asked.residue is not None:
        return asked.residue.slot.index
    return asked.claim.slot_index if asked.claim else -1


def _missing(asked: CleanupOverride) -> list[str]:
    """What is not proved, in words."""
    if asked.residue is not None:
        return [f"traces were found: {asked.residue.detail}"]
    proofs = CleanupProof.objects.filter(claim=asked.claim).order_by("-attempt")
    latest = proofs.first()
    steps: list[dict[str, Any]] = latest.missing if latest else []
    words = [f"{step['step']}: {step['why']}".replace("_", " ") for step in steps]
    return words or ["no proof came at all"]


class Approvals(Inbox):
    """The page itself: the inbox."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Everything that waits, the oldest first."""
        return self.show({})


class Answer(Inbox):
    """Approve or reject one thing that waits; each kind of answer needs its own action."""

    def post(self, request: HttpRequest, action: str, pk: UUID) -> HttpResponse:
        """Do it with the reason given, or say what is wrong beside the field."""
        known = self.known()
        if action not in known:
            raise errors.NotFound
        if action not in CLEANUP:
            self.check_may("overrides:write" if action in ANSWERS else "tenants:write")
        kind = GrantForm if action == GRANT.name else ReasonForm
        form = kind(request.POST, auto_id=f"{action}-{pk}-%s")
        run, said = known[action]
        if not self.attempt(form, lambda given: run(pk, given)):
            self.tell(form)
            return self.show({(action, pk): form}, 400)
        messages.success(request, said)
        return redirect("console:approvals")

    def known(self) -> dict[str, tuple[Callable[[UUID, dict[str, Any]], object], str]]:
        """What can be answered, and what is said when it is done."""
        actor = self.actor
        return {
            "approve-tenant": (
                lambda pk, given: tenancies.tenant_approve(tenant_id=pk, actor=actor, **given),
                "Approved: it may lease what its envelopes allow.",
            ),
            "reject-tenant": (
                lambda pk, given: tenancies.tenant_reject(tenant_id=pk, actor=actor, **given),
                "Rejected; the reason is kept.",
            ),
            GRANT.name: (
                lambda pk, given: wishes.increase_approve(increase_id=pk, actor=actor, **given),
                "Granted; the envelope is set.",
            ),
            REFUSE.name: (
                lambda pk, given: wishes.increase_refuse(increase_id=pk, actor=actor, **given),
                "Refused; the tenant reads the reason.",
            ),
            "approve-override": (
                lambda pk, given: overrides.override_approve(
                    allocation_id=pk, actor=actor, **given
                ),
                "Overridden: the capacity is free again, marked as not proved.",
            ),
            "approve-slot-override": (
                lambda pk, given: overrides.slot_override_approve(slot_id=pk, actor=actor, **given),
                "Overridden: the slot is free again, marked as not proved.",
            ),
            "refuse-override": (
                lambda pk, given: overrides.override_refuse(allocation_id=pk, actor=actor, **given),
                "Refused: it stays blocked, and the reason is kept.",
            ),
            "refuse-slot-override": (
                lambda pk, given: overrides.slot_override_refuse(slot_id=pk, actor=actor, **given),
                "Refused: the slot stays blocked, and the reason is kept.",
            ),
            "withdraw-override": (
                lambda pk, given: overrides.override_withdraw(
                    allocation_id=pk, actor=actor, **given
                ),
                "Withdrawn: it stays blocked.",
            ),
            "withdraw-slot-override": (
                lambda pk, given: overrides.slot_override_withdraw(
                    slot_id=pk, actor=actor, **given
                ),
                "Withdrawn: the slot stays blocked.",
            ),
            RETRY.name: (
                lambda pk, given: cleanup.cleanup_retry(allocation_id=pk, actor=actor, **given),
                "The host cleans up again.",
            ),
        }
