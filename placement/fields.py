"""How are a span of a node's capacity line and a stretch of time told to PostgreSQL?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.postgres.fields import DateTimeRangeField
from django.db import models
from django.db.models import Func

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


class Stretch(Func):
    """The time from one column to another; the end does not belong to it."""

    function = "TSTZRANGE"
    output_field = DateTimeRangeField()
