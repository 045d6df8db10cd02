"""Does the planner know that there are hosts?  Asked now and then, so that no look has to care."""

from __future__ import annotations

import logging

from django.db import connection

from gpuaas.kernel.scope import platform_scope

log = logging.getLogger(__name__)


def statistics_mend() -> int:
    """Count hosts and cut slots anew where the planner takes them for nearly none; how many tables
    that were.

    What it believes is right nearly always, and a look is one statement for which nothing else is
    asked: so this is done beside it.
    """
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute("SELECT placement_statistics_mend()")
        tables: list[str] = cursor.fetchone()[0]
    if tables:
        log.warning("the planner took %s for nearly empty: counted anew", ", ".join(tables))
    return len(tables)
