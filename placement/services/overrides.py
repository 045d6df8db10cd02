"""Who may let blocked capacity be used again without proof?  Two people, in the open.

An override is about claims whose cleanup is blocked and about traces that a host reported:
of a whole allocation, or of one slot. Both come through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.errors import (
    HeldWithItsNode,
    NotBlocked,
    NotTheAsker,
    OverrideIncomplete,
    SecondPersonNeeded,
)
from placement.models import Allocation, Claim, CleanupOverride, Node, Slot, SlotResidue
from placement.services.cleanup import (
    cancel_tasks,
    claim_finish,
    live_claims,
    locked_allocation,
    release_finish,
)
from placement.services.nodes import locked, need_reason, recount
from placement.states import AllocationState, ClaimState, ResidueState
from tenants.errors import PersonNeeded
from tenants.services.access import person_id_of
from tenants.services.operators import operators_lately
from tenants.services.second_factor import given_lately_or_refuse


@dataclass(frozen=True, slots=True)
class Blocks:
    """What keeps capacity blocked: claims without proof, and traces that were found."""

    claims: Sequence[Claim] = ()
    residues: Sequence[SlotResidue] = ()

    def asked(self) -> list[CleanupOverride]:
        """The overrides that were asked for of these, and not approved yet."""
        of_claims = CleanupOverride.objects.filter(claim__in=self.claims)
        of_residues = CleanupOverride.objects.filter(residue__in=self.residues)
        rows = (of_claims | of_residues).filter(approved_at__isnull=True)
        return list(rows.select_related("claim", "residue").order_by("created_at", "id"))


def single_operator() -> bool:
    """Whether the platform has a single operator: then one person may do both, and it shows.

    Whoever may ask counts, since two of whom only one may approve can do it between them; also
    who could until lately, so that nobody comes to be alone by taking the others' roles. Those
    who may only look do not count.
    """
    return operators_lately("cleanup:write") < 2


def approval_rule() -> str:
    """Whose approval counts now, in words for whoever asks."""
    if single_operator():
        return (
            "You are the platform's only operator, so you may approve what you asked for "
            "yourself; the record says so for ever."
        )
    return "Another operator than the one who asked has to approve it."


def _of_allocation(row: Allocation) -> Blocks:
    blocked = row.state == AllocationState.CLEANUP_BLOCKED
    found = SlotResidue.objects.filter(
        node_id=row.node_id, state=ResidueState.FOUND, left_by=str(row.pk)
    )
    blocks = Blocks(live_claims(row) if blocked else (), list(found.order_by("id")))
    if not blocks.claims and not blocks.residues:
        raise NotBlocked(f"The allocation is {row.state}.", state=row.state)
    return blocks


def _locked_slot(slot_id: UUID) -> tuple[Node, Slot]:
    """The slot, read after its node is locked."""
    seen = Slot.objects.filter(pk=slot_id).first()
    if seen is None:
        raise errors.NotFound
    return locked(seen.node_id), Slot.objects.get(pk=slot_id)


def _of_slot(node: Node, slot: Slot) -> Blocks:
    found = SlotResidue.objects.filter(node=node, slot=slot, state=ResidueState.FOUND)
    held = Claim.objects.filter(node_num=node.num, state=ClaimState.CLEANUP_BLOCKED)
    blocks = Blocks(list(held.filter(slot=slot)), list(found.order_by("id")))
    if blocks.claims or blocks.residues:
        return blocks
    whole = held.filter(slot_index__lt=0).first()
    if whole is not None:
        raise HeldWithItsNode(
            f"{node.name} is held as a whole by allocation {whole.allocation_id}.",
            allocation=str(whole.allocation_id),
        )
    raise NotBlocked(f"Slot {slot.index} of {node.name} is not blocked.", slot_index=slot.index)


def _signed(actor: Actor) -> dict[str, str]:
    """The actor with the id of the person behind it: two names of one person are one person."""
    return {**actor.as_json(), "person": person_id_of(actor)}


def _ask(blocks: Blocks, reason: str, actor: Actor) -> list[CleanupOverride]:
    if not person_id_of(actor):
        raise PersonNeeded
    said = {"reason": reason, "asked_by": _signed(actor)}
    things: list[tuple[str, Claim | SlotResidue]] = [
        *(("claim", claim) for claim in blocks.claims),
        *(("residue", residue) for residue in blocks.residues),
    ]
    return [
        CleanupOverride.objects.get_or_create(**{name: thing}, defaults=said)[0]
        for name, thing in things
    ]


def _approve(asked: Sequence[CleanupOverride], actor: Actor) -> bool:
    """Approve as the second person of each; whether one person was both, being alone."""
    alone, approver = single_operator(), person_id_of(actor)
    if not approver:
        raise PersonNeeded
    own = [row for row in asked if row.asked_by.get("person", "") == approver]
    if own and not alone:
        raise SecondPersonNeeded(asked_by=own[0].asked_by.get("name", ""))
    for row in asked:
        row.approved_by = {**_signed(actor), "alone": alone and row in own}
        row.approved_at = clock.db_now()
        row.save(update_fields=["approved_by", "approved_at"])
    return alone and bool(own)


def _drop(asked: Sequence[CleanupOverride], how: str, actor: Actor) -> dict[str, object]:
    """Take back what was asked for, as its asker (``withdraw``) or another person (``refuse``).

    Returns what the event keeps. The rows go, so that it may be asked for anew.
    """
    person = person_id_of(actor)
    if not person:
        raise PersonNeeded
    own = [row for row in asked if row.asked_by.get("person", "") == person]
    if how == "withdraw":
        if not own:
            raise NotTheAsker(asked_by=asked[0].asked_by.get("name", ""))
        asked = own
    elif own:
        raise SecondPersonNeeded(
            "You asked for it yourself: withdraw it, or let another operator refuse it.",
            asked_by=own[0].asked_by.get("name", ""),
        )
    facts: dict[str, object] = {
        "asked_by": asked[0].asked_by,
        "asked_because": asked[0].reason,
        "parts": len(asked),
    }
    CleanupOverride.objects.filter(pk__in=[row.pk for row in asked]).delete()
    return facts


def _accept(asked: Iterable[CleanupOverride], reason: str, actor: Actor) -> None:
    """The approved traces block no more."""
    for row in asked:
        if row.residue is not None:
            advance(row.residue, "override", actor=actor, reason=reason)


@transaction.atomic
def override_request(*, allocation_id: UUID, reason: str, actor: Actor) -> list[CleanupOverride]:
    """Ask to reuse all that an allocation left blocked, without proof; another has to approve."""
    why = need_reason(reason)
    row = locked_allocation(allocation_id)
    out = _ask(_of_allocation(row), why, actor)
    events.record(kind="placement.allocation.override_ask", subject=row, actor=actor, reason=why)
    return out


@transaction.atomic
def override_approve(*, allocation_id: UUID, reason: str, actor: Actor) -> Allocation:
    """Approve an override as a second person; the claims end, marked as overridden.

    Who the two are is told by their accounts, whatever token or name they use. A platform
    with a single operator lets that one do both, which every record of it says. Whoever has
    a second factor has to have given it lately.
    """
    given_lately_or_refuse(actor)
    why = need_reason(reason)
    row = locked_allocation(allocation_id)
    blocks = _of_allocation(row)
    asked = blocks.asked()
    if not asked:
        raise errors.NotFound("Nobody has asked for an override of this cleanup.")
    unasked = {claim.pk for claim in blocks.claims} - {one.claim_id for one in asked}
    if unasked:
        raise OverrideIncomplete(
            f"An override was asked for {len(asked)} of its slots; {len(unasked)} are not named.",
            unasked=len(unasked),
        )
    alone = _approve(asked, actor)
    events.record(
        kind="placement.allocation.override_approve",
        subject=row,
        actor=actor,
        reason=why,
        facts={"alone": alone, "asked_by": asked[0].asked_by},
    )
    _accept(asked, why, actor)
    if row.state == AllocationState.CLEANUP_BLOCKED:
        cancel_tasks(row, actor)
        return release_finish(allocation_id=row.pk, actor=actor, reason=f"override: {why}")
    recount(locked(row.node_id))
    return row


def _dropped(
    blocks: Blocks, subject: Allocation | Slot, how: str, why: str, actor: Actor, **facts: Any
) -> None:
    """Take back what was asked for, with the subject's event. Raises NotFound where nothing was."""
    asked, what = blocks.asked(), "slot" if isinstance(subject, Slot) else "allocation"
    if not asked:
        raise errors.NotFound(f"Nobody has asked for an override of this {what}.")
    events.record(
        kind=f"placement.{what}.override_{how}",
        subject=subject,
        actor=actor,
        reason=why,
        facts={**_drop(asked, how, actor), **facts},
    )


def _allocation_dropped(allocation_id: UUID, how: str, reason: str, actor: Actor) -> Allocation:
    why, row = need_reason(reason), locked_allocation(allocation_id)
    _dropped(_of_allocation(row), row, how, why, actor)
    return row


@transaction.atomic
def override_refuse(*, allocation_id: UUID, reason: str, actor: Actor) -> Allocation:
    """Refuse, as another person, what was asked for: the capacity stays blocked.

    Raises SecondPersonNeeded for whoever asked: that one withdraws.
    """
    return _allocation_dropped(allocation_id, "refuse", reason, actor)


@transaction.atomic
def override_withdraw(*, allocation_id: UUID, reason: str, actor: Actor) -> Allocation:
    """Ask no longer. Raises NotTheAsker for anybody else: those refuse."""
    return _allocation_dropped(allocation_id, "withdraw", reason, actor)


def _slot_dropped(slot_id: UUID, how: str, reason: str, actor: Actor) -> Slot:
    why = need_reason(reason)
    node, slot = _locked_slot(slot_id)
    facts = {"node": node.name, "slot_index": slot.index}
    _dropped(_of_slot(node, slot), slot, how, why, actor, **facts)
    return slot


@transaction.atomic
def slot_override_refuse(*, slot_id: UUID, reason: str, actor: Actor) -> Slot:
    """Refuse, as another person, the override of one slot; by the rule for allocations."""
    return _slot_dropped(slot_id, "refuse", reason, actor)


@transaction.atomic
def slot_override_withdraw(*, slot_id: UUID, reason: str, actor: Actor) -> Slot:
    """Ask no longer for the override of one slot; by the rule for allocations."""
    return _slot_dropped(slot_id, "withdraw", reason, actor)


@transaction.atomic
def slot_override_request(*, slot_id: UUID, reason: str, actor: Actor) -> list[CleanupOverride]:
    """Ask to reuse one blocked slot without proof; another operator has to approve.

    Raises HeldWithItsNode where a whole-node claim holds it: that ends as a whole.
    """
    why = need_reason(reason)
    node, slot = _locked_slot(slot_id)
    out = _ask(_of_slot(node, slot), why, actor)
    events.record(
        kind="placement.slot.override_ask",
        subject=slot,
        actor=actor,
        reason=why,
        facts={"node": node.name, "slot_index": slot.index},
    )
    return out


@transaction.atomic
def slot_override_approve(*, slot_id: UUID, reason: str, actor: Actor) -> Slot:
    """Approve the override of one slot as a second person, by the rule for allocations.

    The allocation that was blocked there stays blocked on its other slots; with the last of
    them it is released.
    """
    given_lately_or_refuse(actor)
    why = need_reason(reason)
    node, slot = _locked_slot(slot_id)
    asked = _of_slot(node, slot).asked()
    if not asked:
        raise errors.NotFound("Nobody has asked for an override of this slot.")
    alone = _approve(asked, actor)
    events.record(
        kind="placement.slot.override_approve",
        subject=slot,
        actor=actor,
        reason=why,
        facts={
            "alone": alone,
            "asked_by": asked[0].asked_by,
            "node": node.name,
            "slot_index": slot.index,
        },
    )
    _accept(asked, why, actor)
    for one in asked:
        if one.claim is not None:
            _end(one.claim, f"override: {why}", actor)
    recount(locked(node.pk))
    return slot


def _end(claim: Claim, reason: str, actor: Actor) -> None:
    """End one claim of a blocked allocation, and the allocation with its last."""
    row = locked_allocation(claim.allocation_id)
    cancel_tasks(row, actor)
    if len(live_claims(row)) == 1:
        release_finish(allocation_id=row.pk, actor=actor, reason=reason)
    else:
        claim_finish(claim, actor=actor, reason=reason)
