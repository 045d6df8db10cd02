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
from django.db import connection

from gpuaas.kernel import scope

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


def rows(sql: LiteralString, params: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement, in the caller's transaction (or in one of its own).

    Placeholders are those of Django's cursors. JSON comes back as text. Raises what Django's
    own cursors raise.
    """
    text, names = _numbered(sql)
    values = [params[name] for name in names] if isinstance(params, Mapping) else list(params)
    connection.ensure_connection()
    scope.settle()
    connection.validate_no_broken_transaction()
    direct: psycopg.Connection[tuple[Any, ...]] = connection.connection
    with connection.wrap_database_errors, psycopg.RawCursor(direct) as cursor:
        return cursor.execute(text, values, prepare=True).fetchall()
