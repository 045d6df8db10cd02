"""Are hosts what is wanted of them, and what is done where they are not?

Level-triggered: each look compares what is so now, whatever was missed before. It runs by a tick
of the database, so that a lost broker costs nothing but the nudge that follows a report. Each
host, each row and each repair stands alone: one that breaks stops no other.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from gpuaas.kernel import clock, errors, nudges, on_the_spot
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.transitions import advance
from placement.domain.drift import KINDS, Compared, Difference, back_off_s, compare
from placement.drift_errors import DriftNotAcceptable, DriftNotRemovable
from placement.measures import RECONCILE
from placement.models import Drift, Node
from placement.models.drift import DriftOutcome
from placement.services.breaker import breaker_allows
from placement.services.cleanup import release_begin
from placement.services.nodes import locked, need_reason
from placement.services.repairs import REPAIRS
from placement.snapshots.drift import facts_from, rows_of
from placement.states import STANDING_DRIFT, AllocationState, DriftState, NodeState, Outcome

log = logging.getLogger(__name__)

PART = system("reconcile")
BATCH: Final = 200
REPAIRS_A_LOOK: Final = 50
LOOK_TASK: Final = "placement.drift_look"
HELD_S: Final = 60
"""When a repair that the breaker holds is asked for again."""

Found = dict[tuple[UUID, str, str], Difference]


def drift_sweep() -> int:
    """Look at every host; returns how many repairs were tried."""
    ids = Node.objects.exclude(state__in=[NodeState.RETIRED, NodeState.ENROLLING])
    with on_the_spot.timed(RECONCILE) as took:
        took.labels = ()
        return drift_reconcile(node_ids=list(ids.order_by("num").values_list("pk", flat=True)))


def drift_nudge(node_id: UUID) -> None:
    """After a commit, hint at a look at one host. Costs the caller no statement."""
    transaction.on_commit(lambda: nudges.send(LOOK_TASK, str(node_id)))


def drift_reconcile(*, node_ids: Sequence[UUID]) -> int:
    """Compare these hosts, keep what differs, end what differs no more, and try what is due."""
    for start in range(0, len(node_ids), BATCH):
        _look(node_ids[start : start + BATCH])
    return _repair_due(node_ids)


def _compared(node_ids: Iterable[UUID], now: datetime) -> dict[UUID, Compared]:
    """What differs on each host; one that cannot be compared is a difference of its own."""
    found = {}
    for row in rows_of(node_ids, now):
        try:
            found[row[0]] = compare(facts_from(row))
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            log.exception("node %s cannot be compared", row[0])
            said = f"{type(broken).__name__}: {broken}"[:300]
            only = Difference("not_comparable", "node", said)
            found[row[0]] = Compared((only,), frozenset({only.kind}))
    return found


def _look(node_ids: Sequence[UUID]) -> None:
    now = clock.db_now()
    compared = _compared(node_ids, now)
    found: Found = {
        (node, one.subject, one.kind): one
        for node, result in compared.items()
        for one in result.differences
    }
    rows = list(
        Drift.objects.filter(node_id__in=node_ids).exclude(state=DriftState.CLOSED).order_by("id")
    )
    known = {(row.node_id, row.subject, row.kind): row for row in rows}
    _keep_new({key: one for key, one in found.items() if key not in known}, now)
    _seen_again([row.pk for key, row in known.items() if key in found], now)
    for key, row in known.items():
        one = found.get(key)
        if one is None:
            result = compared.get(row.node_id)
            if result is None or row.kind in result.judged:
                _alone(row, _end, now)
        elif one.detail != row.detail and not one.kind.endswith(("stale", "stuck", "present")):
            Drift.objects.filter(pk=row.pk).update(detail=one.detail, slots=list(one.slots))
    for row in Drift.objects.filter(node_id__in=node_ids, state=DriftState.SEEN):
        if (now - row.created_at).total_seconds() >= KINDS[row.kind].grace_s:
            _alone(row, _count, now)


@transaction.atomic
def _seen_again(ids: Collection[UUID], now: datetime) -> None:
    """Count those that still are. Locked in one order, so that two looks never wait in a circle."""
    rows = Drift.objects.filter(pk__in=ids).exclude(state=DriftState.CLOSED)
    held = rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True)
    Drift.objects.filter(pk__in=list(held)).update(last_seen_at=now, seen=F("seen") + 1)


def _alone(row: Drift, act: object, now: datetime) -> None:
    """One row by itself: what breaks it is logged and stops no other."""
    try:
        with transaction.atomic():
            act(row, now)  # type: ignore[operator]  # one of the two below
    except errors.ConcurrentUpdate:
        return  # Another worker was there first.
    except Exception:
        log.exception("drift %s cannot be moved", row.pk)


def _keep_new(found: Found, now: datetime) -> None:
    Drift.objects.bulk_create(
        [
            Drift(
                node_id=node,
                allocation_id=UUID(one.allocation) if one.allocation else None,
                kind=kind,
                subject=subject,
                slots=list(one.slots),
                severity=KINDS[kind].severity,
                actor=KINDS[kind].actor,
                detail=one.detail[:1000],
                created_at=now,
                last_seen_at=now,
            )
            for (node, subject, kind), one in found.items()
        ],
        ignore_conflicts=True,
    )


def _count(row: Drift, now: datetime) -> None:
    due = now if KINDS[row.kind].repair else None
    facts = {"kind": row.kind, "subject": row.subject, "slots": row.slots, "detail": row.detail}
    advance(row, "count", actor=PART, reason=row.code, changes={"next_try_at": due}, facts=facts)


def _end(row: Drift, now: datetime) -> None:
    if row.state == DriftState.SEEN:
        # It passed within its grace: never counted, so nothing to tell.
        row.delete()
        return
    outcome = DriftOutcome.REPAIRED if row.attempts else DriftOutcome.ENDED
    if row.state == DriftState.ACCEPTED:
        outcome = DriftOutcome.ACCEPTED
    changes = {"outcome": outcome, "closed_at": now, "next_try_at": None}
    advance(row, "close", actor=PART, reason=str(outcome), changes=changes)


def _repair_due(node_ids: Sequence[UUID]) -> int:
    """Try what is due, those that wait longest first, and a bounded number of them."""
    due = Drift.objects.filter(
        node_id__in=node_ids, state=DriftState.OPEN, next_try_at__lte=clock.db_now()
    )
    tried = 0
    for row in list(due.order_by("next_try_at", "pk")[:REPAIRS_A_LOOK]):
        try:
            tried += _try(row)
        except errors.ConcurrentUpdate:
            continue  # Another worker was there first.
        except Exception as broken:
            log.exception("the repair of drift %s broke", row.pk)
            _later(row, row.attempts + 1, f"{type(broken).__name__}: {broken}")
            tried += 1
    return tried


@transaction.atomic
def _try(seen: Drift) -> bool:
    """One try, if the difference still is under the node's lock and the breaker allows it."""
    node = locked(seen.node_id)
    row = Drift.objects.select_for_update(no_key=True).filter(pk=seen.pk).first()
    if row is None or row.state != DriftState.OPEN or row.attempts != seen.attempts:
        return False
    now = clock.db_now()
    result = _compared([node.pk], now).get(node.pk)
    still = result is not None and any(
        (one.subject, one.kind) == (row.subject, row.kind) for one in result.differences
    )
    if not still:
        return False
    kind = KINDS[row.kind]
    if row.attempts >= kind.most:
        said = {"attempts": row.attempts, "trouble": row.trouble}
        changes = {"actor": "operator", "next_try_at": None}
        advance(row, "escalate", actor=PART, reason=row.code, changes=changes, facts=said)
        return False
    if kind.upon_host and not breaker_allows(
        node=node, kind=f"repair_{kind.repair}", reason=row.code, actor=PART, about=row.subject[:80]
    ):
        _later(row, row.attempts, "held by the breaker", wait_s=HELD_S)
        return False
    done = REPAIRS[kind.repair](row, node)
    _later(
        row,
        row.attempts + done,
        "" if done else "work on it is under way",
        wait_s=0 if done else HELD_S,
    )
    return True


def _later(row: Drift, attempts: int, trouble: str, *, wait_s: int = 0) -> None:
    Drift.objects.filter(pk=row.pk).update(
        attempts=attempts,
        next_try_at=clock.db_now() + timedelta(seconds=wait_s or back_off_s(attempts)),
        trouble=trouble[:200],
    )


def _standing(drift_id: UUID) -> Drift:
    row = Drift.objects.select_related("allocation").filter(pk=drift_id).first()
    if row is None:
        raise errors.NotFound
    locked(row.node_id)
    return row


@transaction.atomic
def drift_accept(*, drift_id: UUID, reason: str, actor: Actor) -> Drift:
    """Let a difference stand: it counts no more, and is kept until it is gone.

    What it touches stays as it is: an unknown machine still keeps new work away. Raises
    DriftNotAcceptable for what has to be repaired or decided elsewhere.
    """
    why = need_reason(reason)
    row = _standing(drift_id)
    if not KINDS[row.kind].acceptable:
        raise DriftNotAcceptable(kind=row.kind)
    changes = {"decided_by": actor.as_json(), "decision": why, "next_try_at": None}
    return advance(row, "accept", actor=actor, reason=why, changes=changes)


@transaction.atomic
def drift_remove(*, drift_id: UUID, reason: str, actor: Actor) -> Drift:
    """Ask for what should not be there to be removed, or for what is lost to be given up.

    The machine of an ended allocation: its release is ordered again. An active allocation whose
    machine is lost: it is ended as failed, and its slots are cleaned and proven. Raises
    DriftNotRemovable for everything else: what was never ours is never removed by us.
    """
    why = need_reason(reason)
    row = _standing(drift_id)
    decided = {"decided_by": actor.as_json(), "decision": why}
    if row.state not in STANDING_DRIFT:
        raise DriftNotRemovable(f"The difference is {row.state}.", state=row.state)
    if row.kind == "released_but_present":
        changes = {**decided, "attempts": 0, "next_try_at": clock.db_now(), "actor": "platform"}
        if row.state == DriftState.ESCALATED:
            return advance(row, "ask", actor=actor, reason=why, changes=changes)
        Drift.objects.filter(pk=row.pk).update(**changes)
    elif row.kind == "vm_missing" and row.allocation is not None:
        if row.allocation.state != AllocationState.ACTIVE:
            raise DriftNotRemovable(f"The allocation is {row.allocation.state}.")
        release_begin(
            allocation_id=row.allocation.pk,
            outcome=Outcome.FAILED,
            code=row.code,
            detail=why,
            actor=actor,
        )
        Drift.objects.filter(pk=row.pk).update(**decided, attempts=1)
    else:
        raise DriftNotRemovable(kind=row.kind)
    return Drift.objects.get(pk=row.pk)
