"""What is forgotten, and when?  Events, their seals and ended runs are kept for good.

Apps say which of their rows are over (``register``), and an operator for how many days each kind
is kept (``retention_set``). What happened to a row stays told by its events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.sessions.models import Session
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, events, idempotency
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import RetentionRule
from gpuaas.kernel.models.events import Delivery
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.sweeping import raise_if_lost

log = logging.getLogger(__name__)

DELIVERIES_KEPT = timedelta(days=7)
"""How long a done delivery is kept: as long as a repeat may come late."""
BATCH = 10_000
DEFAULT_DAYS: Final = 90
LEAST_DAYS, MOST_DAYS = 31, 3650
"""At least as long as anything looks back: a breaker's window is 30 days at most."""

Over = Callable[[datetime], QuerySet[Any]]
"""The rows of a kind that were over before a moment, the oldest first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A kind of rows, and for how long they are kept once they are over."""

    name: str
    days: int
    default: bool


_kinds: dict[str, Over] = {}


def register(name: str, over: Over) -> None:
    """Make a kind of rows known that is forgotten some time after it is over, at import."""
    _kinds[name] = over


def retention_list() -> list[Kept]:
    """Every kind, with its days."""
    with platform_scope():
        said = dict(RetentionRule.objects.values_list("name", "days"))
    return [Kept(name, said.get(name, DEFAULT_DAYS), name not in said) for name in sorted(_kinds)]


@transaction.atomic
def retention_set(*, name: str, days: int, reason: str, actor: Actor) -> RetentionRule:
    """Keep rows of a kind for so many days after they are over. InvalidRequest names the field."""
    wrong = []
    if name not in _kinds:
        wrong.append(errors.FieldError("/name", "unknown", f"one of {', '.join(sorted(_kinds))}"))
    if not LEAST_DAYS <= days <= MOST_DAYS:
        wrong.append(errors.FieldError("/days", "out_of_range", f"{LEAST_DAYS} to {MOST_DAYS}"))
    if not reason.strip():
        wrong.append(errors.FieldError("/reason", "required", "say why"))
    if wrong:
        said = "; ".join(f"{one.pointer[1:]}: {one.detail}" for one in wrong)
        raise errors.InvalidRequest(f"{said}.", errors=tuple(wrong))
    with platform_scope():
        row = RetentionRule.objects.select_for_update().filter(name=name).first()
        before = None if row is None else {"days": row.days}
        row = row or RetentionRule(name=name, version=0)
        row.days, row.version = days, row.version + 1
        row.save()
        events.record(
            kind="kernel.retentionrule.set",
            subject=row,
            actor=actor,
            before=before,
            after={"name": name, "days": days},
            reason=reason.strip(),
        )
    return row


def over_now(kept: Kept) -> int:
    """How many rows of a kind are to go with the next sweeps."""
    with platform_scope():
        return _over(kept).count()


def sweep() -> dict[str, int]:
    """Remove what is over, a batch of each; returns how many rows of each went."""
    gone = {
        "idempotency_keys": idempotency.sweep(BATCH),
        "deliveries": _done_deliveries(),
        "sessions": _expired_sessions(),
    }
    for kept in retention_list():
        try:
            gone[kept.name] = _forgotten(kept)
        except (OperationalError, InterfaceError) as busy:
            raise_if_lost(busy)
            log.info("rows of %s stay for now: %s", kept.name, type(busy).__name__)
        except Exception:
            # Its rows stay; the other kinds have nothing to do with it.
            log.exception("rows of %s cannot be forgotten", kept.name)
    return gone


def _forgotten(kept: Kept) -> int:
    with platform_scope():
        return _removed(_over(kept))


def _over(kept: Kept) -> QuerySet[Any]:
    """The rows of a kind that have been over for its days."""
    return _kinds[kept.name](clock.db_now() - timedelta(days=kept.days))


def _removed(over: QuerySet[Any]) -> int:
    """Remove a batch of these rows; how many went."""
    rows = over.model._default_manager.filter(pk__in=over.values("pk")[:BATCH])
    gone: int = rows.delete()[0]
    return gone


def _done_deliveries() -> int:
    with platform_scope():
        over = Delivery.objects.filter(
            state="done", done_at__lt=clock.db_now() - DELIVERIES_KEPT
        ).order_by("done_at")
        return _removed(over)


def _expired_sessions() -> int:
    with platform_scope():
        return _removed(Session.objects.filter(expire_date__lt=clock.db_now()))
