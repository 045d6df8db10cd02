"""How is maintenance of nodes planned, announced, begun and ended?

A window is of one node; one act plans as many as it names. From the declared time before it on,
nothing without an end is placed there, and nothing at any time that would last into it: that is
folded into two columns of the node, under its lock and with a new generation, so that whoever
decided on the old ones loses. While it is active the window owns a drain of its node; a drain of
an operator's stays whatever the window does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from gpuaas.kernel import clock, errors, events, ids, sweeping
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.errors import FieldError, InvalidRequest
from gpuaas.kernel.transitions import advance
from placement.domain.capacity import BURN_IN_RUNS
from placement.domain.maintenance import wrong_times
from placement.errors import WindowOverlaps
from placement.models import MaintenanceWindow, Node, NodeDrain, Pool
from placement.models.maintenance import OPEN, NoticeKind
from placement.models.node import Health
from placement.selectors.nodes import facts_of
from placement.services.nodes import locked, need_reason, recount
from placement.services.notices import window_told
from placement.states import NodeState, WindowState

PART = system("maintenance")
WINDOW: Final = "window"
"""The kind of owner of a drain that a window began."""
MOST_NODES = 1000
BATCH = 100


@dataclass(frozen=True, slots=True)
class Selector:
    """Which nodes: by name, or all that are in the pool, zone and rack that are given."""

    nodes: tuple[str, ...] = ()
    pool: str = ""
    zone: str = ""
    rack: str = ""


def nodes_of(selector: Selector) -> list[Node]:
    """The nodes of a selector now, by number. Raises InvalidRequest naming the field."""
    places = {
        "pool__name": selector.pool,
        "zone": selector.zone,
        "rack": selector.rack,
    }
    bound = {name: value for name, value in places.items() if value}
    if bool(selector.nodes) == bool(bound):
        raise _wrong("nodes", "required", "name nodes, or a pool, zone or rack")
    rows = Node.objects.exclude(state=NodeState.RETIRED).select_related("pool").order_by("num")
    if selector.nodes:
        found = list(rows.filter(name__in=selector.nodes))
        missing = sorted(set(selector.nodes) - {node.name for node in found})
        if missing:
            raise _wrong("nodes", "unknown", f"no node {missing[0]}")
    else:
        found = list(rows.filter(**bound))
        if not found:
            first = next(iter(bound)).partition("__")[0]
            raise _wrong(first, "unknown", "no node is there")
    if len(found) > MOST_NODES:
        raise _wrong("nodes", "too_many", f"at most {MOST_NODES} in one plan")
    return found


def _wrong(field: str, code: str, text: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {text}.", errors=(FieldError(f"/{field}", code, text),))


def window_checked(selector: Selector, starts_at: datetime, ends_at: datetime) -> list[Node]:
    """The nodes of a plan whose times make sense and overlap no other window. Writes nothing.

    Raises InvalidRequest or WindowOverlaps naming the field.
    """
    wrong = wrong_times(starts_at, ends_at, clock.db_now())
    if wrong is not None:
        raise _wrong(wrong[0], "out_of_range", wrong[1])
    found = nodes_of(selector)
    for node in found:
        _free_of_others(node, starts_at, ends_at)
    return found


def _free_of_others(node: Node, starts_at: datetime, ends_at: datetime) -> None:
    other = (
        MaintenanceWindow.objects.filter(OPEN, node=node)
        .filter(starts_at__lt=ends_at, ends_at__gt=starts_at)
        .order_by("starts_at")
        .first()
    )
    if other is not None:
        field = "starts_at" if other.starts_at <= starts_at else "ends_at"
        raise WindowOverlaps(
            f"{node.name} has a window from {other.starts_at:%Y-%m-%d %H:%M} to "
            f"{other.ends_at:%Y-%m-%d %H:%M} UTC.",
            errors=(FieldError(f"/{field}", "overlaps", f"with a window of {node.name}"),),
            window=str(other.pk),
            node=node.name,
        )


@transaction.atomic
def window_plan(
    *,
    selector: Selector,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    actor: Actor,
    announce: bool = False,
) -> list[MaintenanceWindow]:
    """Plan a window of each node; with ``announce`` their tenants are told at once.

    All or none: an overlap with another window of any of the nodes refuses the plan.
    """
    why = need_reason(reason)
    plan = ids.new_id()
    made = []
    for seen in window_checked(selector, starts_at, ends_at):
        node = locked(seen.pk)
        _free_of_others(node, starts_at, ends_at)
        row = MaintenanceWindow.objects.create(
            node=node,
            plan=plan,
            starts_at=starts_at,
            ends_at=ends_at,
            reason=why,
            owner=actor.as_json(),
        )
        events.record(
            kind="placement.maintenancewindow.plan",
            subject=row,
            actor=actor,
            after={"state": row.state, "starts_at": starts_at, "ends_at": ends_at},
            reason=why,
            facts={"node": node.name, "plan": str(plan)},
        )
        window_fold(node)
        made.append(_announced(row, actor, why) if announce else row)
    return made


def window_fold(node: Node) -> None:
    """Fold the node's next window into it; its row is locked. A change is a new generation."""
    following = MaintenanceWindow.objects.filter(OPEN, node=node).order_by("starts_at").first()
    free_until = open_until = None
    if following is not None:
        lead_s = Pool.objects.values_list("notice_lead_s", flat=True).get(pk=node.pool_id)
        free_until = following.starts_at
        open_until = free_until - timedelta(seconds=lead_s)
    if (node.free_until, node.open_until) == (free_until, open_until):
        return
    node.free_until, node.open_until = free_until, open_until
    node.generation += 1
    node.save(update_fields=["free_until", "open_until", "generation"])


def _window_and_node(window_id: UUID) -> tuple[MaintenanceWindow, Node]:
    """A window under its node's lock. Raises NotFound."""
    seen = MaintenanceWindow.objects.filter(pk=window_id).first()
    if seen is None:
        raise errors.NotFound
    node = locked(seen.node_id)
    return MaintenanceWindow.objects.get(pk=window_id), node


def _announced(row: MaintenanceWindow, actor: Actor, reason: str) -> MaintenanceWindow:
    row = advance(row, "announce", actor=actor, reason=reason)
    window_told(row, NoticeKind.PLANNED, actor=actor)
    return row


@transaction.atomic
def window_announce(*, window_id: UUID, reason: str, actor: Actor) -> MaintenanceWindow:
    """Tell the tenants whom a planned window touches. Repeating is one."""
    why = need_reason(reason)
    row, _ = _window_and_node(window_id)
    if row.state == WindowState.ANNOUNCED:
        return row
    return _announced(row, actor, why)


@transaction.atomic
def window_cancel(*, window_id: UUID, reason: str, actor: Actor) -> MaintenanceWindow:
    """Give a window up, also one that has begun; who was told of it is told. Repeating is one."""
    why = need_reason(reason)
    row, node = _window_and_node(window_id)
    if row.state == WindowState.CANCELLED:
        return row
    row = advance(row, "cancel", actor=actor, reason=why)
    window_fold(node)
    _lift(row, node, actor)
    window_told(row, NoticeKind.CANCELLED, actor=actor)
    return row


@transaction.atomic
def window_start(*, window_id: UUID, actor: Actor, reason: str = "") -> MaintenanceWindow:
    """The node stops taking work, with the window as the drain's owner. Repeating is one.

    A drain that is there already stays its owner's.
    """
    row, node = _window_and_node(window_id)
    if row.state == WindowState.ACTIVE:
        return row
    drained = NodeDrain.objects.filter(
        node=node, slot_index__isnull=True, ended_at__isnull=True
    ).first()
    row = advance(
        row,
        "start",
        actor=actor,
        reason=reason,
        facts={"node": node.name, "drained_before_by": drained.owner if drained else None},
    )
    if drained is None:
        drain = NodeDrain.objects.create(node=node, owner=_owner(row), reason=row.reason)
        events.record(
            kind="placement.node.drain",
            subject=node,
            actor=actor,
            reason=row.reason,
            facts={"slot_index": None, "drain": str(drain.pk), "window": str(row.pk)},
        )
        recount(node)
    return row


def _owner(row: MaintenanceWindow) -> dict[str, str]:
    return {"kind": WINDOW, "id": str(row.pk), "name": "maintenance window"}


@transaction.atomic
def window_end(*, window_id: UUID, actor: Actor, reason: str = "") -> MaintenanceWindow:
    """End a window. Its drain is lifted if the node is otherwise well. Repeating is one."""
    row, node = _window_and_node(window_id)
    if row.state == WindowState.ENDED:
        return row
    kept = _why_kept(row, node)
    row = advance(
        row,
        "end",
        actor=actor,
        reason=reason,
        facts={"node": node.name, "drain_kept_because": kept},
    )
    window_fold(node)
    _lift(row, node, actor)
    return row


def _own_drain(row: MaintenanceWindow, node: Node) -> NodeDrain | None:
    return NodeDrain.objects.filter(
        node=node,
        slot_index__isnull=True,
        ended_at__isnull=True,
        owner__kind=WINDOW,
        owner__id=str(row.pk),
    ).first()


def _why_kept(row: MaintenanceWindow, node: Node) -> list[str]:
    """What keeps a window's drain from being lifted: the node's own troubles."""
    if _own_drain(row, node) is None:
        return []
    facts = facts_of([node.pk])[node.pk]
    found = list(facts.blocking_conditions)
    if facts.state != NodeState.READY:
        found.insert(0, facts.state)
    if facts.health != "ok" and not facts.blocking_conditions:
        found.append(f"health_{facts.health}")
    if facts.burning and BURN_IN_RUNS not in found:
        found.append(BURN_IN_RUNS)
    return found


def _lift(row: MaintenanceWindow, node: Node, actor: Actor) -> bool:
    """Lift the window's own drain if the node is otherwise well; nobody else's, ever."""
    drain = _own_drain(row, node)
    if drain is None or _why_kept(row, node):
        return False
    drain.ended_at = clock.db_now()
    drain.save(update_fields=["ended_at"])
    events.record(
        kind="placement.node.undrain",
        subject=node,
        actor=actor,
        reason=row.reason,
        facts={"slot_index": None, "drain": str(drain.pk), "window": str(row.pk)},
    )
    recount(node)
    return True


@transaction.atomic
def pool_notice_set(*, pool: str, lead_s: int, again_s: int, reason: str, actor: Actor) -> Pool:
    """How long before maintenance nothing without an end is placed in a pool, and when its
    tenants are told again (seconds). Its nodes are folded anew."""
    why = need_reason(reason)
    for name, value in (("lead_s", lead_s), ("again_s", again_s)):
        if not 0 <= value <= 90 * 86_400:
            raise _wrong(name, "out_of_range", f"0 to {90 * 86_400} seconds")
    row = Pool.objects.select_for_update(no_key=True).filter(name=pool).first()
    if row is None:
        raise errors.NotFound
    before = {"lead_s": row.notice_lead_s, "again_s": row.notice_again_s}
    row.notice_lead_s, row.notice_again_s = lead_s, again_s
    row.save(update_fields=["notice_lead_s", "notice_again_s"])
    events.record(
        kind="placement.pool.notice",
        subject=row,
        actor=actor,
        before=before,
        after={"lead_s": lead_s, "again_s": again_s},
        reason=why,
    )
    windowed = Node.objects.filter(pool=row, free_until__isnull=False).order_by("num")
    for node_id in list(windowed.values_list("pk", flat=True)):
        window_fold(locked(node_id))
    return row


def maintenance_sweep() -> int:
    """Announce, begin and end what is due; tell who is to be told; lift what may be lifted.

    Each window in a transaction of its own: one that cannot go on holds up no other.
    """
    now = clock.db_now()
    rows = MaintenanceWindow.objects.select_related("node__pool").order_by("starts_at")
    # One that runs on is left out here: a thousand of them must not hide the next.
    running = Q(state=WindowState.ACTIVE, ends_at__gt=now) & ~Q(node__state=NodeState.RETIRED)
    found: dict[UUID, MaintenanceWindow] = {}

    def open_ones(resting: Collection[UUID]) -> list[UUID]:
        due = rows.filter(OPEN).exclude(running).exclude(pk__in=resting)
        found.update((row.pk, row) for row in due[: 10 * BATCH])
        return list(found)

    done = sweeping.each("placement.maintenance", open_ones, lambda id: _due(found[id], now))
    return done + sweeping.each("placement.maintenance_drains", _over_with_a_drain, _left_over)


def _over_with_a_drain(resting: Collection[UUID]) -> list[UUID]:
    """Windows that are over and whose drain may be lifted now, since their node is well again."""
    owned = NodeDrain.objects.filter(
        ended_at__isnull=True,
        slot_index__isnull=True,
        owner__kind=WINDOW,
        node__state=NodeState.READY,
        node__health=Health.OK,
    )
    ids = [UUID(kept) for kept in owned.values_list("owner__id", flat=True)]
    over = MaintenanceWindow.objects.filter(
        pk__in=ids, state__in=[WindowState.ENDED, WindowState.CANCELLED]
    )
    over = over.exclude(pk__in=resting).order_by("ends_at")
    return list(over.values_list("pk", flat=True)[:BATCH])


def _due(row: MaintenanceWindow, now: datetime) -> bool:
    """What time has come for, of one window."""
    pool = row.node.pool
    if row.node.state == NodeState.RETIRED:
        window_cancel(window_id=row.pk, reason="the node is retired", actor=PART)
        return True
    if row.state == WindowState.ACTIVE:
        if row.ends_at > now:
            return False
        window_end(window_id=row.pk, actor=PART, reason="its time is over")
        return True
    before_s = (row.starts_at - now).total_seconds()
    if row.state == WindowState.PLANNED:
        if before_s > pool.notice_lead_s:
            return False
        window_announce(window_id=row.pk, reason="as early as its pool declares", actor=PART)
        return True
    if before_s <= 0:
        window_start(window_id=row.pk, actor=PART, reason="its time has come")
        return True
    told = window_told(row, NoticeKind.PLANNED, actor=PART)
    if before_s <= pool.notice_again_s:
        told += window_told(row, NoticeKind.SOON, actor=PART)
    return told > 0


def _left_over(window_id: UUID) -> bool:
    """Lift the drain of a window that is over, once its node is well."""
    row, node = _window_and_node(window_id)
    if row.state not in (WindowState.ENDED, WindowState.CANCELLED):
        return False
    return _lift(row, node, PART)
