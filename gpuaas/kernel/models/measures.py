"""What was counted and measured, and how far have the events been read for it?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from gpuaas.kernel.models.base import Grant


class MeasureTotal(models.Model):
    """What is kept of one series: as many rows as there are names and values of labels."""

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=80)
    labels = ArrayField(models.CharField(max_length=120))
    count = models.BigIntegerField()
    sum_us = models.BigIntegerField(help_text="Microseconds in all; 0 for a counter.")
    classes = ArrayField(
        models.BigIntegerField(), help_text="How many fell into each class; none for a counter."
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "labels"], name="one_total_of_a_series")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.labels}: {self.count}"


class MeasuresRead(models.Model):
    """Which seals are in the totals: one row, locked by whoever reads on."""

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    one = models.BooleanField(default=True, unique=True)
    seal = models.BigIntegerField(default=0, help_text="The last seal that is in the totals.")
    at = models.DateTimeField(help_text="Up to when events are in the totals.")

    class Meta:
        verbose_name_plural = "measures read"

    def __str__(self) -> str:
        return f"up to seal {self.seal}"
