"""What is forgotten, and when?  Events, their seals and ended runs are kept for good."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.sessions.models import Session

from gpuaas.kernel import clock, idempotency
from gpuaas.kernel.models.events import Delivery
from gpuaas.kernel.scope import platform_scope

DELIVERIES_KEPT = timedelta(days=7)
"""How long a done delivery is kept: as long as a repeat may come late."""
BATCH = 10_000


def sweep() -> dict[str, int]:
    """Remove what is over, a batch of each; returns how many rows of each went."""
    return {
        "idempotency_keys": idempotency.sweep(BATCH),
        "deliveries": _done_deliveries(),
        "sessions": _expired_sessions(),
    }


def _done_deliveries() -> int:
    with platform_scope():
        over = Delivery.objects.filter(
            state="done", done_at__lt=clock.db_now() - DELIVERIES_KEPT
        ).order_by("done_at")
        gone, _ = Delivery.objects.filter(pk__in=over.values("pk")[:BATCH]).delete()
    return gone


def _expired_sessions() -> int:
    with platform_scope():
        over = Session.objects.filter(expire_date__lt=clock.db_now())
        gone, _ = Session.objects.filter(pk__in=over.values("pk")[:BATCH]).delete()
    return gone
