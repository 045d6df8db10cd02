"""How is a span of a node's capacity line stored?  As PostgreSQL's int4multirange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

UNITS_PER_SLOT = 1000
"""A node's line: slot k covers [k·1000, (k+1)·1000)."""

WHOLE_NODE = "{[0,2147483647)}"


def slot_span(index: int) -> str:
    """The literal span of one slot, in units."""
    return f"{{[{index * UNITS_PER_SLOT},{(index + 1) * UNITS_PER_SLOT})}}"


if TYPE_CHECKING:
    _Field = models.Field[str, str]
else:
    _Field = models.Field


class SpanField(_Field):
    """A multirange column, written and read as its text literal."""

    def db_type(self, connection: Any) -> str:
        return "int4multirange"

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        return "%s::int4multirange"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        return "{" + ",".join(f"[{r.lower},{r.upper})" for r in value) + "}"
