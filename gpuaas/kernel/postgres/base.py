"""Is a pooled connection still one when it is handed out?

The pool's own check costs a round trip each time, and waits twice as long after each dead
connection: a restart of PostgreSQL with four idle connections outlasts its time limit, and the
first requests after it fail though the database is back. Here the socket is looked at, which
costs nothing, and dead connections are discarded one after the other without a wait.
"""

from __future__ import annotations

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
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
        return connection


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
