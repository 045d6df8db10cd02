"""How does news reach its subscribers exactly as often as it must?

A delivery is claimed (its attempt committed first, so that a handler which kills its process
is counted), then handled and marked in one transaction: what a handler writes to the database
happens once. Handlers must still be idempotent, since an operator may ask for a repeat.
Deliveries of one subject come to one subscriber in the order of the events; different
subjects go in parallel. After ``ATTEMPTS`` a delivery is set aside and the next one follows.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, OuterRef, Q

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.events import subscribe
from gpuaas.kernel.models.events import Delivery
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.workflow import Backoff

__all__ = ["deliver", "requeue", "subscribe", "sweep"]

log = logging.getLogger(__name__)

ATTEMPTS = 8
LEASE_S = 10.0
"""How long a delivery rests after the process that handled it died."""
BATCH = 50
RETRY = Backoff(attempts=ATTEMPTS, first_s=1.0, factor=2.0, most_s=300.0)


def sweep(limit: int = 1000) -> int:
    """Deliver what is due, up to ``limit``; returns how many were handled or set aside."""
    return deliver(limit)


def deliver(limit: int = 1000) -> int:
    """Deliver what is due now. Database errors that end the connection are raised."""
    handled = 0
    while handled < limit:
        before = handled
        for delivery_id in _heads(min(BATCH, limit - handled)):
            following: int | None = delivery_id
            while following is not None and handled < limit:
                taken, following = _deliver_one(following)
                handled += taken
        if handled == before:
            break
    return handled


@transaction.atomic
def requeue(delivery_id: int, *, actor: Actor, reason: str) -> Delivery:
    """Give a delivery that was set aside its attempts again. NotFound: it was not."""
    with platform_scope():
        row = (
            Delivery.objects.select_for_update(no_key=True, of=("self",))
            .select_related("event")
            .filter(pk=delivery_id, state="failed")
            .first()
        )
        if row is None:
            raise errors.NotFound
        row.state = "pending"
        row.attempts = 0
        row.due_at = clock.db_now()
        row.save(update_fields=["state", "attempts", "due_at"])
        events.record(
            kind="kernel.delivery.requeue",
            actor=actor,
            tenant_id=row.event.tenant_id,
            before={"state": "failed"},
            after={"state": "pending"},
            reason=reason,
            facts={"delivery": row.pk, "subscriber": row.subscriber, "event": str(row.event.uid)},
        )
    transaction.on_commit(events.wake_outbox)
    return row


def _first_of_its_subject() -> Q:
    earlier = Delivery.objects.filter(
        state="pending",
        subject_id=OuterRef("subject_id"),
        subscriber=OuterRef("subscriber"),
        event_id__lt=OuterRef("event_id"),
    )
    return Q(subject_id__isnull=True) | Q(~Exists(earlier))


def _heads(limit: int) -> list[int]:
    due = Delivery.objects.filter(
        _first_of_its_subject(), state="pending", due_at__lte=clock.db_now()
    )
    return list(due.order_by("due_at", "pk").values_list("pk", flat=True)[:limit])


def _deliver_one(delivery_id: int) -> tuple[int, int | None]:
    """Handle one delivery: (1 if it was ours, the next of the same subject if it may follow)."""
    attempt = _claim(delivery_id)
    if attempt is None:
        return 0, None
    with transaction.atomic():
        # Waits: a rival's failed claim holds this row for a moment, and skipping it would leave
        # what is ours to rest for the whole lease.
        row = (
            Delivery.objects.select_for_update(no_key=True, of=("self",))
            .select_related("event")
            .filter(pk=delivery_id, state="pending", attempts=attempt)
            .first()
        )
        if row is None:
            return 0, None
        done = _handle(row)
        row.save(update_fields=["state", "attempts", "due_at", "done_at", "last_error"])
    return 1, _next_of(row) if done else None


@transaction.atomic
def _claim(delivery_id: int) -> int | None:
    now = clock.db_now()
    row = (
        Delivery.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .filter(_first_of_its_subject(), pk=delivery_id, state="pending", due_at__lte=now)
        .first()
    )
    if row is None:
        return None
    row.attempts += 1
    row.due_at = now + timedelta(seconds=LEASE_S)
    row.save(update_fields=["attempts", "due_at"])
    return row.attempts


def _handle(row: Delivery) -> bool:
    """Call the handler in a savepoint and note the outcome on ``row``. True: go on behind it."""
    handler = events.handler_of(row.subscriber, row.event.kind)
    now = clock.db_now()
    if row.attempts > ATTEMPTS:
        return _set_aside(row, "the process that handled it died every time")
    try:
        if handler is None:
            raise LookupError(f"{row.subscriber} does not handle {row.event.kind}")
        with transaction.atomic():
            handler(row.event)
    except Exception as error:
        if isinstance(error, DatabaseError | InterfaceError) and (
            connection.needs_rollback or not connection.is_usable()
        ):
            raise
        row.last_error = type(error).__name__
        if isinstance(error, OperationalError):
            # Deadlock or lock timeout: the database was busy, the handler did not fail.
            row.attempts -= 1
            row.due_at = now + timedelta(seconds=RETRY.first_s)
            return False
        log.exception("delivery %s of %s raised", row.pk, row.event.kind)
        if row.attempts >= ATTEMPTS:
            return _set_aside(row, row.last_error)
        row.due_at = now + timedelta(seconds=RETRY.delay_s(row.attempts))
        return False
    row.state = "done"
    row.done_at = now
    row.last_error = ""
    return True


def _set_aside(row: Delivery, why: str) -> bool:
    log.error("delivery %s of %s to %s is set aside", row.pk, row.event.kind, row.subscriber)
    row.state = "failed"
    row.last_error = why
    return True


def _next_of(row: Delivery) -> int | None:
    if row.subject_id is None:
        return None
    behind = Delivery.objects.filter(
        state="pending", subject_id=row.subject_id, subscriber=row.subscriber
    )
    return behind.order_by("event_id").values_list("pk", flat=True).first()
