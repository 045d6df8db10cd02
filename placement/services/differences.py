"""How does an operator accept that a host is otherwise than approved?"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from gpuaas.kernel import clock, sweeping
from gpuaas.kernel.actor import Actor
from placement.domain.identity import FABRIC_CHANGED
from placement.models import Claim, IdentityDifference, Node, Slot
from placement.node_tasks import TopologyReport
from placement.services.fabric import DISCOVERY, fabric_take
from placement.services.health import health_refresh
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
    health_refresh(node)
    slot.refresh_from_db()
    return slot


def boots_sweep() -> int:
    """Look anew at hosts that booted since their last discovery; what is approved stays."""
    return sweeping.each(
        "placement.boots", _booted, lambda node_id: discovery_order(locked(node_id))
    )


def _booted(resting: Collection[UUID]) -> list[UUID]:
    rows = Node.objects.filter(state__in=_LOOKED_AT, identity__isnull=False).exclude(boot_id="")
    rows = rows.exclude(boot_id=F("identity__boot_id")).exclude(pk__in=resting)
    return list(rows.values_list("pk", flat=True)[:100])


def fabrics_sweep() -> int:
    """Let hosts whose claims have ended count in the domain that they are in now."""
    return sweeping.each("placement.fabrics", _free_to_change, _change)


def _waiting() -> QuerySet[IdentityDifference]:
    return IdentityDifference.objects.filter(
        code=FABRIC_CHANGED, ended_at__isnull=True, discovered__fabric__isnull=False
    )


def _free_to_change(resting: Collection[UUID]) -> list[UUID]:
    held = Claim.objects.filter(state__in=LIVE).values("node_num")
    free = _waiting().exclude(node__num__in=held).exclude(node_id__in=resting)
    return list(free.values_list("node_id", flat=True)[:100])


def _change(node_id: UUID) -> bool:
    node = locked(node_id)
    if fabric_take(node, TopologyReport.from_json(node.topology)) is not None:
        return False
    over = {"ended_at": clock.db_now(), "ended_by": DISCOVERY.as_json(), "resolution": "gone"}
    return _waiting().filter(node=node).update(**over) > 0
