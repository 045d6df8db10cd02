"""How does a hot statement reach the database without being planned anew each time?

Django's cursors put values into the text, so that the server parses and plans every call.
The few statements of the claim path are long and always the same: they are prepared once
per connection, and only their values travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import psycopg
from django.db import connection


def rows(sql: LiteralString, params: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement, in the caller's transaction (or in one of its own).

    JSON comes back as text. Raises what Django's own cursors raise.
    """
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    direct: psycopg.Connection[tuple[Any, ...]] = connection.connection
    with connection.wrap_database_errors, psycopg.Cursor(direct) as cursor:
        return cursor.execute(sql, params, prepare=True).fetchall()
