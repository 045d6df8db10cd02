"""May automation act upon this node, or has it done enough to its pool for now?

Whatever is done to nodes without a person asks here first, in the transaction in which it acts:

    node = locked(node_id)
    if breaker_allows(node=node, kind="quarantine", reason="xid_79", actor=PART):
        advance(node, "quarantine", actor=PART, reason="xid_79")

A refusal is an answer and no error: the wish is kept once, shown, counted, and asked for again by
whoever has it, so that it happens when there is room or once an operator lets it go on. A
rejection stands for one window. Wishes that nobody has any more lapse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from gpuaas.kernel import clock, errors, events, sweeping
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.transitions import advance
from placement.domain.breaker import Limits, Ruling, ruling
from placement.errors import BREAKER_HELD
from placement.models import AutomaticAction, BreakerRule, Node, Pool
from placement.services.nodes import need_reason
from placement.states import OPEN_AUTOMATIC, AutomaticState, NodeState

PART = system("breaker")
BATCH: Final = 200


def _rule(pool_id: UUID) -> BreakerRule:
    """The pool's limits, locked."""
    BreakerRule.objects.get_or_create(pool_id=pool_id)
    return BreakerRule.objects.select_for_update(no_key=True).get(pool_id=pool_id)


def _ruling(node: Node, rule: BreakerRule) -> Ruling:
    limits = Limits(rule.percent, rule.floor, rule.window_s)
    since = clock.db_now() - timedelta(seconds=limits.window_s)
    acted = AutomaticAction.objects.filter(
        pool_id=node.pool_id, state=AutomaticState.TAKEN, state_since__gte=since
    ).values_list("node_id", flat=True)
    fleet = Node.objects.filter(pool_id=node.pool_id)
    total = fleet.exclude(state__in=[NodeState.RETIRED, NodeState.ENROLLING]).count()
    return ruling(node.pk, acted.distinct(), total=total, limits=limits)


@transaction.atomic
def breaker_allows(
    *,
    node: Node,
    kind: str,
    reason: str,
    actor: Actor,
    about: str = "",
    facts: Mapping[str, Any] | None = None,
) -> bool:
    """Whether automation may do ``kind`` to ``node`` (or to the part ``about`` of it) now.

    To be called with the node locked, in the transaction that then acts, and of one node a
    transaction: the pool's rule is locked until it ends. True is used up by the call and counts as
    an action upon the node. False: held, or rejected by an operator; ask again when you look again.
    """
    rule = _rule(node.pool_id)
    verdict = _ruling(node, rule)
    now = clock.db_now()
    row = AutomaticAction.objects.filter(
        node=node, kind=kind, about=about, state__in=OPEN_AUTOMATIC
    ).first()
    if row is not None and row.state == AutomaticState.REJECTED:
        over = row.state_since < now - timedelta(seconds=rule.window_s)
        if not over:
            _asked(row)
            return False
        advance(row, "lapse", actor=PART, reason="the rejection is over")
        row = None
    let_go = row is not None and row.state == AutomaticState.ALLOWED
    numbers = {**(facts or {}), **verdict.as_json()}
    if verdict.allowed or let_go:
        row = row or _held(node, kind, about, reason, numbers)
        advance(row, "take", actor=actor, reason=reason, facts=numbers)
        return True
    if row is not None:
        _asked(row)
        return False
    row = _held(node, kind, about, reason, numbers)
    events.record(
        kind="placement.automaticaction.hold",
        subject=row,
        actor=actor,
        after={"state": row.state},
        reason=BREAKER_HELD.code,
        facts={"node": node.name, "action": kind, "about": about, "asked_by": reason, **numbers},
    )
    return False


def _held(
    node: Node, kind: str, about: str, reason: str, facts: Mapping[str, Any]
) -> AutomaticAction:
    return AutomaticAction.objects.create(
        pool_id=node.pool_id,
        node=node,
        kind=kind,
        about=about,
        reason=reason[:64],
        facts=dict(facts),
        asked_at=clock.db_now(),
    )


def _asked(row: AutomaticAction) -> None:
    AutomaticAction.objects.filter(pk=row.pk).update(asked_at=clock.db_now(), asked=F("asked") + 1)


def _decide(action_id: UUID, edge: str, reason: str, actor: Actor) -> AutomaticAction:
    why = need_reason(reason)
    row = AutomaticAction.objects.filter(pk=action_id).first()
    if row is None:
        raise errors.NotFound
    changes = {"decided_by": actor.as_json(), "decided_at": clock.db_now(), "decision": why}
    return advance(row, edge, actor=actor, reason=why, changes=changes)


@transaction.atomic
def held_allow(*, action_id: UUID, reason: str, actor: Actor) -> AutomaticAction:
    """Let a held action go on: it happens when it is next asked for, whatever the share."""
    return _decide(action_id, "allow", reason, actor)


@transaction.atomic
def held_reject(*, action_id: UUID, reason: str, actor: Actor) -> AutomaticAction:
    """Do not let a held action happen, for one window of its pool."""
    return _decide(action_id, "reject", reason, actor)


@transaction.atomic
def breaker_set(
    *, pool: str, percent: int, floor: int, window_s: int, reason: str, actor: Actor
) -> BreakerRule:
    """Set a pool's limits. ``percent`` of its nodes, ``floor`` at least, in ``window_s`` seconds.

    A floor of 0 with 0 percent holds everything.
    """
    why = need_reason(reason)
    found = Pool.objects.filter(name=pool).first()
    if found is None:
        raise errors.NotFound
    given = {"percent": percent, "floor": floor, "window_s": window_s}
    bounds = {"percent": (0, 100), "floor": (0, 1000), "window_s": (60, 30 * 86_400)}
    wrong = tuple(
        errors.FieldError(f"/{name}", "out_of_range", f"{low} to {high}")
        for name, (low, high) in bounds.items()
        if not low <= given[name] <= high
    )
    if wrong:
        raise errors.InvalidRequest(errors=wrong)
    rule = _rule(found.pk)
    before = {name: getattr(rule, name) for name in given}
    for name, value in given.items():
        setattr(rule, name, value)
    rule.version += 1
    rule.save(update_fields=[*given, "version"])
    events.record(
        kind="placement.breakerrule.set",
        subject=rule,
        actor=actor,
        before=before,
        after=given,
        reason=why,
    )
    return rule


def held_sweep() -> int:
    """Let go of wishes that nobody had for a whole window of their pool; how many."""
    return sweeping.each("placement.held", _asked_no_longer, _lapse)


def _asked_no_longer(resting: Collection[UUID]) -> list[UUID]:
    now = clock.db_now()
    found: list[UUID] = []
    for pool_id, window_s in BreakerRule.objects.values_list("pool_id", "window_s"):
        old = AutomaticAction.objects.filter(
            pool_id=pool_id,
            state__in=OPEN_AUTOMATIC,
            asked_at__lt=now - timedelta(seconds=window_s),
        ).exclude(pk__in=resting)
        found += old.order_by("asked_at").values_list("pk", flat=True)[:BATCH]
    return found


def _lapse(action_id: UUID) -> None:
    row = AutomaticAction.objects.get(pk=action_id)
    advance(row, "lapse", actor=PART, reason="asked for no longer")
