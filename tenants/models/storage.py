"""Which storage does the platform offer, and from where is it reached?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from gpuaas.kernel.models import Base
from gpuaas.kernel.models.base import Grant


class Storage(Base):
    """A storage system of the platform's, as it was declared. A new row per version."""

    tenant_grant: ClassVar[Grant] = "read"

    name = models.CharField(max_length=120)
    kind = models.SlugField(max_length=40, help_text="What it is good for, such as parallel.")
    version = models.PositiveIntegerField()
    zones = models.JSONField(default=list, help_text="From where it is reached; empty: all.")
    declared_by = models.JSONField(default=dict)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "storage"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "version"], name="one_storage_version")
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version} ({self.kind})"
