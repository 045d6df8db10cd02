"""How is a list read page by page?  By an opaque cursor, signed and bound to list and filters."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db.models import Model, Q, QuerySet

from gpuaas.api import errors

M = TypeVar("M", bound=Model)
DEFAULT_LIMIT = 50
MAX_LIMIT = 1000
NEWEST = ("-created_at", "-id")
OLDEST = ("created_at", "id")
_signer = Signer(salt="gpuaas.api.cursor")


def page(
    rows: QuerySet[M],
    *,
    query: Mapping[str, Any],
    name: str,
    order: Sequence[str] = NEWEST,
    render: Callable[[list[M]], Iterable[Any]],
) -> dict[str, Any]:
    """One page ``{items, next}`` of a queryset.

    ``order`` names the sort fields, all rising or all falling, unique together. ``query`` is
    the validated query string; its cursor is good only for the same ``name`` and filters; what
    ``fields.Dated`` takes is heeded here. ``render`` makes the items of the page's rows.
    Raises CursorInvalid.
    """
    bound = _bound(query, name)
    limit = limit_of(query)
    cursor = str(query.get("cursor") or "")
    if query.get("ordering") == "created_at":
        order = OLDEST
    for word, bound_by in (("created_after", "gt"), ("created_before", "lt")):
        if query.get(word):
            rows = rows.filter(**{f"created_at__{bound_by}": query[word]})
    rows = rows.order_by(*order)
    if cursor:
        rows = rows.filter(_after(order, _open(cursor, bound, len(order))))
    found = list(rows[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    following = _seal([_value(found[-1], field) for field in order], bound) if more else ""
    return {"items": list(render(found)), "next": following}


def part(items: Sequence[Any], *, query: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One page ``{items, next}`` of a list that is made whole; all of it unless a limit is given.

    Raises CursorInvalid.
    """
    bound = _bound(query, name)
    cursor = str(query.get("cursor") or "")
    first = int(_open(cursor, bound, 1)[0]) if cursor else 0
    end = first + limit_of(query) if query.get("limit") else len(items)
    following = _seal([str(end)], bound) if end < len(items) else ""
    return {"items": list(items[first:end]), "next": following}


def _bound(query: Mapping[str, Any], name: str) -> str:
    """What a cursor is good for: this list with these filters."""
    filters = {key: value for key, value in query.items() if key not in {"limit", "cursor"}}
    return json.dumps([name, filters], sort_keys=True, default=str)


def limit_of(query: Mapping[str, Any]) -> int:
    """How many items a page has, by the validated query string."""
    return min(int(query.get("limit") or DEFAULT_LIMIT), MAX_LIMIT)


def position_of(query: Mapping[str, Any], *, name: str) -> tuple[datetime, UUID] | None:
    """The moment and id that a page of a merged list comes after. Raises CursorInvalid."""
    cursor = str(query.get("cursor") or "")
    if not cursor:
        return None
    at, last = _open(cursor, name, 2)
    return datetime.fromisoformat(at), UUID(last)


def cursor_at(position: tuple[datetime, UUID] | None, *, name: str) -> str:
    """The cursor of a moment and id in a merged list; empty at the end."""
    return "" if position is None else _seal([position[0].isoformat(), str(position[1])], name)


def _value(row: Model, field: str) -> str:
    value = getattr(row, field.lstrip("-"))
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _after(order: Sequence[str], values: Sequence[str]) -> Q:
    """Rows that come after the values, as a keyset condition."""
    condition = Q()
    equal = Q()
    for field, value in zip(order, values, strict=True):
        name = field.lstrip("-")
        beyond = f"{name}__lt" if field.startswith("-") else f"{name}__gt"
        condition |= equal & Q(**{beyond: value})
        equal &= Q(**{name: value})
    return condition


def _seal(values: list[str], bound: str) -> str:
    text = json.dumps(values)
    signature = _signer.signature(f"{bound}\n{text}")
    packed = json.dumps([values, signature]).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _open(cursor: str, bound: str, length: int) -> list[str]:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        values, signature = json.loads(raw)
        _signer.unsign(f"{bound}\n{json.dumps(values)}:{signature}")
    except (ValueError, TypeError, RecursionError, BadSignature):
        # Whoever nests deeply enough exhausts the reader before it can call the text malformed.
        raise errors.CursorInvalid from None
    if len(values) != length:
        raise errors.CursorInvalid
    return [str(value) for value in values]


def is_id(text: str) -> UUID | None:
    """The UUID that a path segment spells, or None."""
    try:
        return UUID(text)
    except ValueError:
        return None
