"""How does a host come into the inventory, change its standing, and leave?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F

from gpuaas.kernel import clock, errors, events, ids, notify
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.transitions import advance
from placement.domain.capacity import schedulable
from placement.domain.terms import BadVersion, version_of
from placement.errors import DrainNotYours, NodeStateRefused, ReasonMissing
from placement.models import (
    Claim,
    JoinToken,
    Node,
    NodeCredential,
    NodeDrain,
    NodeFamily,
    NodeTask,
    Pool,
    Slot,
)
from placement.models.maintenance import NoticeKind
from placement.models.node import Intended
from placement.selectors.nodes import facts_of
from placement.services.counting import count_cuts, count_free
from placement.services.notices import drain_told
from placement.states import LIVE, NodeState, SlotState, TaskState
from tenants.errors import NameTaken

DISCOVERY_S = 600


def need_reason(reason: str) -> str:
    """The trimmed reason, or ReasonMissing."""
    kept = reason.strip()
    if not kept:
        raise ReasonMissing(errors=(errors.FieldError("/reason", "required", "say why"),))
    return kept[:500]


def locked(node_id: UUID) -> Node:
    """The node's row, locked: before any claim is made or ended."""
    node = Node.objects.select_for_update(no_key=True).filter(pk=node_id).first()
    if node is None:
        raise errors.NotFound
    return node


def looks_void(tenants: Sequence[UUID]) -> None:
    """Void the looks at hosts that any of these tenants is on, as any change there does."""
    held = Claim.objects.filter(tenant_id__in=tenants, state__in=LIVE).values("node_num")
    rows = Node.objects.select_for_update(no_key=True).filter(num__in=held).order_by("num")
    nums = [node.num for node in rows.only("num")]
    Node.objects.filter(num__in=nums).update(generation=F("generation") + 1)


def refold(node: Node) -> Node:
    """Fold state, drain, health and evidence into ``schedulable`` and ``takes``; the row is locked.

    The generation rises with every change, so that a decision on the old facts is void.
    """
    facts = facts_of([node.pk])[node.pk]
    may = schedulable(facts)
    if (may, facts.takes) != (node.schedulable, node.takes):
        node.schedulable, node.takes = may, facts.takes
        node.generation += 1
        node.save(update_fields=["schedulable", "takes", "generation"])
        count_cuts(node)
    notify.publish(f"node:{node.pk}")
    return node


def recount(node: Node) -> Node:
    """Recount free capacity from slots, drains and claims, then fold; the row is locked."""
    count_free(node)
    return refold(node)


def versions_seen(node: Node, *, driver: str | None, runtime: str | None) -> None:
    """Keep what a host says of its driver and runtime; the row is locked. Silence changes nothing.

    The generation stays: a change may as well be told a moment after a claim.
    """
    found = {"driver": version_parts(driver), "runtime": version_parts(runtime)}
    changed = {f: parts for f, parts in found.items() if parts and parts != getattr(node, f)}
    if not changed:
        return
    before = {field: getattr(node, field) for field in changed}
    for field, parts in changed.items():
        setattr(node, field, parts)
    node.save(update_fields=list(changed))
    events.record(
        kind="placement.node.versions",
        subject=node,
        actor=system("telemetry"),
        before=before,
        after=changed,
    )


def version_parts(text: str | None) -> list[int] | None:
    """A version as numbers; None for one that is not numbers, which is unknown."""
    try:
        return list(version_of(text)) or None if text else None
    except BadVersion:
        return None


def refused_name(noun: str, name: str, row: Pool | NodeFamily | None) -> errors.InvalidRequest:
    """What is said of a pool or family that is not there, or not any more."""
    code, why = ("unknown", f"no {noun} of this name")
    said = f"There is no {noun} {name!r}."
    if row is not None:
        code, why = ("retired", f"retired on {row.retired_at:%Y-%m-%d}")
        said = f"The {noun} {name!r} is retired."
    return errors.InvalidRequest(said, errors=(errors.FieldError(f"/{noun}", code, why),))


@transaction.atomic
def node_create(
    *,
    name: str,
    actor: Actor,
    pool: str = "default",
    intended: str = Intended.ANY,
    zone: str = "",
    block: str = "",
    rack: str = "",
) -> Node:
    """Announce a host by name, before it joins."""
    found = Pool.objects.select_for_update(no_key=True).filter(name=pool).first()
    if found is None or found.retired_at is not None:
        raise refused_name("pool", pool, found)
    try:
        with transaction.atomic():
            node = Node.objects.create(
                name=name,
                pool=found,
                intended=Intended(intended),
                zone=zone,
                block=block,
                rack=rack,
            )
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            f"A node {name!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a node has this name"),),
        ) from taken
    events.record(
        kind="placement.node.create",
        subject=node,
        actor=actor,
        after={"name": name, "pool": pool, "intended": str(intended)},
    )
    return node


def discovery_order(node: Node) -> NodeTask:
    """Ask the host what it is made of; one open discovery is enough."""
    known = NodeTask.objects.filter(
        node=node,
        kind="slice.topology_discover",
        state__in=[TaskState.PENDING, TaskState.LEASED],
    ).first()
    return known or NodeTask.objects.create(
        id=ids.new_id(),
        node=node,
        kind="slice.topology_discover",
        params={},
        deadline_at=clock.db_now() + timedelta(seconds=DISCOVERY_S),
    )


@transaction.atomic
def node_discover(*, node_id: UUID, actor: Actor, reason: str = "") -> NodeTask:
    """Run a discovery again. Approved slots never change silently by it."""
    node = locked(node_id)
    if node.state in (NodeState.ENROLLING, NodeState.RETIRED):
        raise NodeStateRefused(f"{node.name} is {node.state}.", state=node.state)
    events.record(kind="placement.node.discover", subject=node, actor=actor, reason=reason)
    return discovery_order(node)


def _automatic(owner: Mapping[str, Any]) -> bool:
    """Whether a drain was set by automation, or by a window of maintenance, and not by a person."""
    return owner.get("kind") in ("system", "window")


def _slot_or_refuse(node: Node, slot_index: int | None) -> None:
    """A number that no slot has would be drained without effect: somebody meant another slot."""
    slots = Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED)
    known = sorted(slots.values_list("index", flat=True)) if slot_index is not None else []
    if slot_index is not None and slot_index not in known:
        raise errors.InvalidRequest.of(
            "slot_index", "unknown", f"{node.name} has {', '.join(map(str, known)) or 'no slots'}"
        )


@transaction.atomic
def node_drain(
    *, node_id: UUID, reason: str, actor: Actor, slot_index: int | None = None
) -> NodeDrain:
    """Take no new work on the node, or on one slot. What runs goes on. Repeating is one.

    A person takes over what automation has drained; automation leaves a person's drain as it is.
    """
    why = need_reason(reason)
    node = locked(node_id)
    drain = NodeDrain.objects.filter(
        node=node, slot_index=slot_index, ended_at__isnull=True
    ).first()
    owner = actor.as_json()
    if drain is None:
        _slot_or_refuse(node, slot_index)
        drain = NodeDrain.objects.create(node=node, slot_index=slot_index, owner=owner, reason=why)
        events.record(
            kind="placement.node.drain",
            subject=node,
            actor=actor,
            reason=why,
            facts={"slot_index": slot_index},
        )
        recount(node)
        drain_told(drain, NoticeKind.DRAIN, actor=actor)
    elif _automatic(drain.owner) and not _automatic(owner):
        before = {"owner": drain.owner, "reason": drain.reason}
        drain.owner, drain.reason = owner, why
        drain.save(update_fields=["owner", "reason"])
        events.record(
            kind="placement.node.drain_taken_over",
            subject=node,
            actor=actor,
            before=before,
            after={"owner": owner, "reason": why},
            reason=why,
            facts={"slot_index": slot_index},
        )
        drain_told(drain, NoticeKind.DRAIN, actor=actor)
    return drain


@transaction.atomic
def node_undrain(
    *, node_id: UUID, reason: str, actor: Actor, slot_index: int | None = None
) -> Node:
    """End a drain. Raises DrainNotYours when automation would end one that is not its own."""
    node = locked(node_id)
    drain = NodeDrain.objects.filter(
        node=node, slot_index=slot_index, ended_at__isnull=True
    ).first()
    if drain is not None:
        owner = actor.as_json()
        if _automatic(owner) and drain.owner != owner:
            raise DrainNotYours(owner=drain.owner.get("name", ""))
        drain.ended_at = clock.db_now()
        drain.save(update_fields=["ended_at"])
        drain_told(drain, NoticeKind.DRAIN_OVER, actor=actor)
        events.record(
            kind="placement.node.undrain",
            subject=node,
            actor=actor,
            reason=reason,
            facts={"slot_index": slot_index},
        )
    return recount(node)


def _move(edge: str, node_id: UUID, reason: str, actor: Actor, **facts: Any) -> Node:
    why = need_reason(reason)
    node = advance(locked(node_id), edge, actor=actor, reason=why, facts=facts)
    return recount(node)


@transaction.atomic
def node_maintain(*, node_id: UUID, reason: str, actor: Actor) -> Node:
    """ready → maintenance: no new work; what runs goes on."""
    return _move("maintain", node_id, reason, actor)


@transaction.atomic
def node_quarantine(*, node_id: UUID, reason: str, actor: Actor) -> Node:
    """→ quarantined: no new work until somebody restores it."""
    return _move("quarantine", node_id, reason, actor)


@transaction.atomic
def node_restore(*, node_id: UUID, reason: str, actor: Actor) -> Node:
    """maintenance or quarantined → ready; a host that was never approved, to where it was.

    It then waits for its approval, or, not yet discovered, for its discovery.
    """
    why = need_reason(reason)
    node = locked(node_id)
    edge = "restore"
    if node.state == NodeState.QUARANTINED:
        approved = Slot.objects.filter(node=node, approved_at__isnull=False).exists()
        if not approved:
            edge = "restore_verifying" if node.topology_at else "restore_inspecting"
    node = advance(node, edge, actor=actor, reason=why)
    if node.state == NodeState.INSPECTING:
        discovery_order(node)
    return recount(node)


@transaction.atomic
def node_retire(*, node_id: UUID, reason: str, actor: Actor) -> Node:
    """→ retired, only without live claims; its slots retire with it.

    Whoever speaks for it does so no longer, and nobody begins to: credentials and invitations end.
    """
    why = need_reason(reason)
    node = locked(node_id)
    held = Claim.objects.filter(node_num=node.num, state__in=LIVE).count()
    if held:
        raise NodeStateRefused(f"{node.name} holds {held} live claims.", claims=held)
    for slot in Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED):
        advance(slot, "retire", actor=actor, reason=why)
    now = clock.db_now()
    ended = {
        # Also what has run out: for some weeks it may still be renewed.
        "credentials": NodeCredential.objects.filter(node=node, revoked_at__isnull=True).update(
            revoked_at=now
        ),
        "invitations": JoinToken.objects.filter(
            node=node, used_at__isnull=True, expires_at__gt=now
        ).update(expires_at=now),
    }
    return recount(advance(node, "retire", actor=actor, reason=why, facts=ended))
