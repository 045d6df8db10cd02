"""How does an operator accept that a host is otherwise than approved?"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import F

from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from placement.domain.identity import FABRIC_CHANGED
from placement.models import Claim, IdentityDifference, Node, Slot
from placement.node_tasks import TopologyReport
from placement.services.fabric import DISCOVERY, fabric_take
from placement.services.identity import accept, acceptable
from placement.services.nodes import discovery_order, locked, recount
from placement.services.slots import lay_out, slots_take
from placement.states import LIVE, NodeState, SlotState

_LOOKED_AT = (
    NodeState.VERIFYING,
    NodeState.READY,
    NodeState.MAINTENANCE,
    NodeState.QUARANTINED,
)


@transaction.atomic
def slot_accept(*, node_id: UUID, slot_index: int, reason: str, actor: Actor) -> Slot:
    """Accept what differs about a blocked slot, for this slot alone.

    The same GPU with other devices: the slot becomes what was discovered and is approved. The GPU
    gone: the slot retires, and a card in its place becomes a candidate that waits for its own
    approval. Nothing differs any more: the slot is approved again. Raises NotFound,
    DifferenceNotAcceptable or ReasonMissing.
    """
    node = locked(node_id)
    slot, rows = acceptable(node, slot_index)
    slot = accept(node, slot, rows, reason=reason, actor=actor)
    if slot.state == SlotState.RETIRED:
        slots_take(node, TopologyReport.from_json(node.topology), actor=actor, again=True)
    lay_out(node)
    node.save(update_fields=["slot_count", "layout", "exclusive_mask"])
    recount(node)
    return slot


def boots_sweep() -> int:
    """Look anew at hosts that booted since their last discovery; what is approved stays."""
    booted = (
        Node.objects.filter(state__in=_LOOKED_AT, identity__isnull=False)
        .exclude(boot_id="")
        .exclude(boot_id=F("identity__boot_id"))
        .values_list("pk", flat=True)[:100]
    )
    for node_id in list(booted):
        with transaction.atomic():
            discovery_order(locked(node_id))
    return len(booted)


def fabrics_sweep() -> int:
    """Let hosts whose claims have ended count in the domain that they are in now."""
    waiting = IdentityDifference.objects.filter(
        code=FABRIC_CHANGED, ended_at__isnull=True, discovered__fabric__isnull=False
    )
    held = Claim.objects.filter(state__in=LIVE).values("node_num")
    free = waiting.exclude(node__num__in=held).values_list("node_id", flat=True)[:100]
    changed = 0
    for node_id in list(free):
        with transaction.atomic():
            node = locked(node_id)
            if fabric_take(node, TopologyReport.from_json(node.topology)) is None:
                changed += waiting.filter(node=node).update(
                    ended_at=clock.db_now(), ended_by=DISCOVERY.as_json(), resolution="gone"
                )
    return changed
