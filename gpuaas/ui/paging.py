"""How is a long list cut into pages that stay true while it grows?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from gpuaas.kernel.errors import FieldError, InvalidRequest
from gpuaas.kernel.models import Base

M = TypeVar("M", bound=Base)


@dataclass(frozen=True, slots=True)
class Part(Generic[M]):
    """One page of a list, newest first; ``next`` is the cursor of the one after it."""

    items: list[M]
    next: str


def part_of(rows: QuerySet[M], cursor: str, limit: int, *, by_id: bool = False) -> Part[M]:
    """At most ``limit`` rows after ``cursor``, newest first. Raises InvalidRequest.

    ``by_id`` is for lists over all tenants of rows that become many: ids rise with time, and of
    them there is an index.
    """
    rows = rows.order_by("-id") if by_id else rows.order_by("-created_at", "-id")
    if cursor:
        at, last = position_of(cursor)
        # The bound without an "or" is what an index can begin at.
        after = Q(created_at__lt=at) | Q(created_at=at, id__lt=last)
        rows = rows.filter(id__lt=last) if by_id else rows.filter(after, created_at__lte=at)
    items = list(rows[: limit + 1])
    following = ""
    if len(items) > limit:
        items = items[:limit]
        following = cursor_at((items[-1].created_at, items[-1].pk))
    return Part(items, following)


def cursor_at(position: tuple[datetime, UUID] | None) -> str:
    """The cursor of a moment and id; empty at the end."""
    return "" if position is None else f"{position[0].isoformat()}~{position[1].hex}"


def position_of(cursor: str) -> tuple[datetime, UUID]:
    """The moment and id that a cursor stands for. Raises InvalidRequest."""
    try:
        at, last = cursor.split("~")
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise ValueError("a moment without a zone")
        return moment, UUID(last)
    except ValueError as bad:
        raise InvalidRequest(
            "The cursor is not one of ours.",
            errors=(FieldError("/cursor", "bad_format", "follow the link to the next page"),),
        ) from bad
