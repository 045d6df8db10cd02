"""What happened, and who hears of it?  The audit log and the outbox are one write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import models, transaction

from gpuaas.kernel import ids, nudges
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models.base import tenant_of
from gpuaas.kernel.models.events import Delivery, Event
from gpuaas.kernel.plain import plain

Handler = Callable[[Event], None]
DELIVER_TASK = "gpuaas.kernel.deliver"

_subscribers: dict[str, dict[str, Handler]] = {}


def subscribe(subscriber: str, on: Mapping[str, Handler]) -> None:
    """Register an app's table of event kinds and what it does on each."""
    _subscribers[subscriber] = dict(on)


def subscribers_of(kind: str) -> list[str]:
    """Who gets a delivery of this kind of event."""
    return sorted(name for name, on in _subscribers.items() if kind in on)


def handler_of(subscriber: str, kind: str) -> Handler | None:
    """What a subscriber does on this kind of event."""
    return _subscribers.get(subscriber, {}).get(kind)


def wake_outbox() -> None:
    """Hint that deliveries wait. Never blocks; the sweep finds them anyway."""
    nudges.send(DELIVER_TASK)


def record(
    *,
    kind: str,
    actor: Actor,
    subject: models.Model | None = None,
    tenant_id: UUID | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Event:
    """Write one event in the caller's transaction, with a delivery per subscriber.

    ``kind`` is ``app.noun.edge``. The tenant is the subject's unless given.
    """
    event = Event.objects.create(
        uid=ids.new_id(),
        tenant_id=tenant_id or tenant_of(subject),
        kind=kind,
        subject_kind=subject._meta.label_lower if subject is not None else "",
        subject_id=subject.pk if subject is not None and isinstance(subject.pk, UUID) else None,
        actor=actor.as_json(),
        before=None if before is None else plain(before),
        after=None if after is None else plain(after),
        reason=reason,
        facts=plain(facts or {}),
        correlation=actor.request_id,
    )
    heard_by = subscribers_of(kind)
    if heard_by:
        Delivery.objects.bulk_create(
            [
                Delivery(event=event, subscriber=name, subject_id=event.subject_id)
                for name in heard_by
            ]
        )
        transaction.on_commit(wake_outbox)
    return event
