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


def part_of(rows: QuerySet[M], cursor: str, limit: int) -> Part[M]:
    """At most ``limit`` rows after ``cursor``, newest first. Raises InvalidRequest."""
    rows = rows.order_by("-created_at", "-id")
    if cursor:
        at, last = _read(cursor)
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, id__lt=last))
    items = list(rows[: limit + 1])
    following = ""
    if len(items) > limit:
        items = items[:limit]
        following = f"{items[-1].created_at.isoformat()}~{items[-1].pk.hex}"
    return Part(items, following)


def _read(cursor: str) -> tuple[datetime, UUID]:
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
