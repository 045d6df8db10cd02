"""What binds placement beside sizes, and by which weights is room valued?  Data, in versions."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Base
from placement.domain.terms import OWN, Alone


def _version(help_text: str) -> ArrayField[list[int], list[int]]:
    return ArrayField(models.IntegerField(), default=list, blank=True, help_text=help_text)


class PlacementTerms(Base):
    """What is promised or demanded of every placement of one SKU, tier or pool.

    One row each; what it said before is in its events.
    """

    about = models.CharField(
        max_length=80, unique=True, help_text="sku:NAME, tier:NAME or pool:NAME."
    )
    alone = models.PositiveSmallIntegerField(
        default=Alone.SHARES,
        choices=[(int(x), x.name.lower()) for x in Alone],
        help_text="What is shared with no other tenant.",
    )
    own = models.CharField(
        max_length=5,
        blank=True,
        choices=[(x, x) for x in OWN if x],
        help_text="Only with, or only apart from, what the tenant holds already.",
    )
    driver_min = _version("Least driver version.")
    driver_below = _version("First driver version that is too new.")
    runtime_min = _version("Least runtime version.")
    tenants = models.JSONField(default=list, help_text="Ids of the tenants that a pool is for.")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural = "placement terms"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(tenants=[]) | Q(about__startswith="pool:"),
                name="only_pools_are_dedicated",
            )
        ]

    def __str__(self) -> str:
        return self.about


class Separation(Base):
    """Tenants that are never placed on one host, by an operator's word.

    What it said before is in its events, as is that it was removed.
    """

    name = models.SlugField(max_length=60, unique=True)
    tenants = models.JSONField(help_text="Ids of the tenants, at least two, in order.")
    reason = models.TextField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(tenants__1__isnull=False), name="a_separation_is_of_two_or_more"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Scoring(Base):
    """The weights of the placement score, in thousandths; the highest number is in force."""

    number = models.PositiveIntegerField(unique=True)
    gap = models.PositiveIntegerField(default=10_000)
    fragment = models.PositiveIntegerField(default=1_000)
    stranded = models.PositiveIntegerField(default=200)
    broken = models.PositiveIntegerField(default=300)
    reason = models.TextField()
    set_by = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"weights {self.number}"
