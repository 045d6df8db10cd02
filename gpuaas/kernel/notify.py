"""Who is told when something changed?  Topics over PostgreSQL's NOTIFY, and parked waiters.

``publish`` belongs to the writing transaction: waiters hear of it when it commits, never
when it is rolled back. ``hub`` is this process's one listener.
"""

from __future__ import annotations

from django.db import connection

from gpuaas.kernel.hub import CHANNEL, Hub

hub = Hub()


def publish(*topics: str) -> None:
    """Tell every process that these topics changed, when the current transaction commits.

    A topic is short text (``run:<id>``); PostgreSQL drops repeats within a transaction.
    """
    if not topics:
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, t) FROM unnest(%s::text[]) t", [CHANNEL, list(topics)])
