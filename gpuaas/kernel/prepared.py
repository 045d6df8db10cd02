"""How does a hot statement reach the database without being planned anew each time?

Django's cursors put values into the text, so that the server parses and plans every call.
The few statements of the claim path are long and always the same: they are prepared once
per connection, and only their values travel. Their placeholders are numbered once per
process, since taking a long statement apart costs about as much as sending it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, LiteralString

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections

from gpuaas.kernel import scope

Row = tuple[Any, ...]
_KEPT = "cursors_of_prepared_statements"
_READS_ALL = (
    b"SELECT set_config('enable_sort', $1, true), set_config('enable_bitmapscan', $1, true)"
)
_PLACE = re.compile(r"%(?:\((?P<name>\w+)\)s|(?P<next>s)|(?P<sign>%))")


@lru_cache(maxsize=64)
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with $1, $2 … and the names they stand for (none for plain %s)."""
    names: list[str] = []
    plain = 0

    def number(found: re.Match[str]) -> str:
        nonlocal plain
        if found["sign"]:
            return "%"
        if found["next"]:
            plain += 1
            return f"${plain}"
        if found["name"] not in names:
            names.append(found["name"])
        return f"${names.index(found['name']) + 1}"

    text = _PLACE.sub(number, sql)
    if names and plain:
        raise ValueError("a statement has either named placeholders or plain ones")
    return text.encode(), tuple(names)


def rows(sql: LiteralString, params: Sequence[Any] | Mapping[str, Any]) -> list[Row]:
    """The rows of one statement, in the caller's transaction (or in one of its own).

    Placeholders are those of Django's cursors. JSON comes back as text. Raises what Django's
    own cursors raise.
    """
    text, names = _numbered(sql)
    values = [params[name] for name in names] if isinstance(params, Mapping) else list(params)
    # Looked up once: each look at Django's ``connection`` finds the thread's own anew.
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    scope.settle(database)
    database.validate_no_broken_transaction()
    with database.wrap_database_errors:
        return _cursor_on(database.connection, text).execute(text, values, prepare=True).fetchall()


def rows_in_index_order(sql: LiteralString, params: Sequence[Any] | Mapping[str, Any]) -> list[Row]:
    """As ``rows``, for a statement whose order one index gives and that needs a few rows of it: the
    planner may not collect all rows, or sort them, instead.

    It would where it takes a table for nearly empty, as it does from the moment a vacuum has met
    many rows that were not committed yet until they are counted again: then it reads all of them.
    The three statements travel together, as one transaction where the caller has none; the scope
    is settled before, since nothing of it may be lost with them. Errors as of ``rows``.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    scope.settle(database)
    with database.wrap_database_errors, database.connection.pipeline():
        _cursor_on(database.connection, _READS_ALL).execute(_READS_ALL, ["off"], prepare=True)
        found = rows(sql, params)
        _cursor_on(database.connection, _READS_ALL).execute(_READS_ALL, ["on"], prepare=True)
    return found


def _cursor_on(direct: psycopg.Connection[Row], text: bytes) -> psycopg.RawCursor[Row]:
    """A statement's own cursor on a connection. It keeps how each of its types is written and
    read, as long as it is given the same statement; to learn that anew for each of fifty columns
    costs as much as a short statement."""
    kept: dict[bytes, psycopg.RawCursor[Row]] = vars(direct).setdefault(_KEPT, {})
    cursor = kept.get(text)
    if cursor is None:
        cursor = kept[text] = psycopg.RawCursor(direct)
    return cursor
