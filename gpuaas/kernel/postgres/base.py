"""Is a pooled connection still one when it is handed out?

The pool's own check costs a round trip each time, and waits twice as long after each dead
connection: a restart of PostgreSQL with four idle connections outlasts its time limit, and the
first requests after it fail though the database is back. Here the socket is looked at, which
costs nothing, and dead connections are discarded one after the other without a wait.
"""

from __future__ import annotations

import re
import select
from collections.abc import Sequence
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg._preparing import Prepare, PrepareManager
from psycopg.pq.abc import PGresult
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's PostgreSQL backend with a check of its own for pooled connections."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection that answers, from the pool where there is one."""
        connection = super().get_new_connection(conn_params)
        while self.pool is not None and not answers(connection):
            connection.close()
            self.pool.putconn(connection)
            connection = super().get_new_connection(conn_params)
        if not isinstance(connection._prepared, StandingStatements):
            threshold = connection.prepare_threshold
            connection._prepared = StandingStatements()
            connection.prepare_threshold = threshold
        return connection


class StandingStatements(PrepareManager):
    """What is prepared stays so when a transaction is rolled back.

    PostgreSQL keeps it. The driver lets go of it, since it may name what the rollback took away;
    ours names only what migrations made. Otherwise one bad request had every statement of the
    next ones planned anew, which costs more than they do.
    """

    _changes = re.compile(rb"^(?:DROP|ALTER|DISCARD ALL|DEALLOCATE ALL)\b").match

    def clear(self) -> bool:
        """Called after each rollback: nothing is to be let go."""
        return False

    def _should_discard(self, prep: Prepare, results: Sequence[PGresult], *_: Any) -> bool:
        """After a change of what statements may name, they are prepared anew."""
        if any(self._changes(result.command_status or b"") for result in results):
            return super().clear()
        return False


def answers(connection: psycopg.Connection[Any]) -> bool:
    """Whether an idle connection is alive.

    The server says nothing to an idle connection but its end or a notice, so only one with
    something to read is asked.
    """
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if not waiting.poll(0):
        return True
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.Error:
        return False
    return True
