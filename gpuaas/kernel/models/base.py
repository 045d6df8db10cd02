"""What do all remembered things share?"""

from __future__ import annotations

from typing import ClassVar, Literal
from uuid import UUID

from django.db import models
from django.db.models.functions import Now

from gpuaas.kernel import ids

Grant = Literal["none", "read", "append", "write"]


class Base(models.Model):
    """A row with a UUIDv7 key, and what the tenant role may do with its table.

    ``tenant_grant``: none (the tenant role cannot touch the table), read, append (read and
    insert), or write.
    ``tenant_column``: the column that row-level security compares; empty for tables
    that belong to nobody (catalogue, inventory).
    """

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.UUIDField(primary_key=True, default=ids.new_id, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        abstract = True


class Stateful(Base):
    """A row with a lifecycle: its state, since when, and a version for ETag."""

    state: str
    state_since = models.DateTimeField(db_default=Now())
    version = models.PositiveIntegerField(default=1)

    class Meta:
        abstract = True


def tenant_of(obj: models.Model | None) -> UUID | None:
    """The tenant that owns a row, read from the column its class names."""
    column = getattr(obj, "tenant_column", "")
    owner: UUID | None = getattr(obj, column, None) if column else None
    return owner
