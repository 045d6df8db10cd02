"""How do the discovered slots of a host come to be approved, and the host with them?"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.errors import NodeStateRefused, NothingToApprove
from placement.models import Node, NodeFamily, Slot
from placement.services.capabilities import capabilities_approve
from placement.services.health import health_refresh
from placement.services.identities import one_slot_each_or_refuse
from placement.services.nodes import locked, recount, refused_name
from placement.services.slots import lay_out
from placement.services.stock import MOST_SLOTS
from placement.states import NodeState, SlotState


def _family(node: Node, slots: list[Slot], name: str | None) -> NodeFamily:
    if name:
        family = NodeFamily.objects.select_for_update(no_key=True).filter(name=name).first()
        if family is None or family.retired_at is not None:
            raise refused_name("family", name, family)
        if family.slots != len(slots):
            raise errors.InvalidRequest(
                f"{name} has {family.slots} slots, {node.name} has {len(slots)}.",
                errors=(errors.FieldError("/family", "does_not_match", "slot counts differ"),),
            )
        return family
    if node.family is not None and node.family.slots < len(slots):
        # Hosts are looked for by how much is free, up to what their family has.
        raise errors.InvalidRequest(
            f"{node.family.name} has {node.family.slots} slots, {node.name} has {len(slots)} now: "
            f"name a family of {len(slots)}.",
            errors=(errors.FieldError("/family", "does_not_match", "more slots than it has"),),
        )
    if node.family is not None:
        return node.family
    raise errors.InvalidRequest(
        "Say which family the node belongs to.",
        errors=(errors.FieldError("/family", "required", "name a node family"),),
    )


@transaction.atomic
def node_approve(
    *, node_id: UUID, actor: Actor, reason: str = "", family: str | None = None
) -> Node:
    """Approve the discovered slots and let the node take work of the shapes that it is fit for.

    It is promoted for what it is meant for as far as its evidence holds; what does not hold is
    told in the event and on the node. Verified candidates become approved slots; only those are
    ever scheduled. Raises DeviceInTwoSlots where one of them has a device that another has too.
    """
    node = locked(node_id)
    if node.state not in (NodeState.VERIFYING, NodeState.READY):
        raise NodeStateRefused(
            f"{node.name} is {node.state}; it is approved after a discovery.", state=node.state
        )
    waiting = list(Slot.objects.filter(node=node, state=SlotState.VERIFIED).order_by("index"))
    if not waiting:
        raise NothingToApprove
    one_slot_each_or_refuse(waiting)
    slots = list(Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED).order_by("index"))
    if slots[-1].index >= MOST_SLOTS:
        raise NodeStateRefused(
            f"{node.name} has {len(slots)} GPUs; a node has at most {MOST_SLOTS} slots.",
            state=node.state,
            slots=len(slots),
        )
    node.family = _family(node, slots, family)
    for slot in waiting:
        advance(
            slot,
            "approve",
            actor=actor,
            reason=reason,
            changes={"approved_by": actor.as_json(), "approved_at": clock.db_now()},
        )
    lay_out(node)
    node.save(update_fields=["family", "slot_count", "layout", "exclusive_mask"])
    said = capabilities_approve(node, actor=actor, reason=reason)
    if node.state == NodeState.VERIFYING:
        facts = {"slots": len(waiting), "capabilities": said}
        node = advance(node, "approve", actor=actor, reason=reason, facts=facts)
    # What the host has said of a device while it was no slot's counts from now on.
    health_refresh(node)
    return recount(node)
