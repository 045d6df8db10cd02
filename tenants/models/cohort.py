"""Who shares unused quota with whom?  A tree of cohorts, with a counter per class."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base
from tenants.models.catalogue import ResourceClass


class Cohort(Base):
    """A set of tenants, or of smaller cohorts, that lend to each other what is unused."""

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120, blank=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    depth = models.PositiveSmallIntegerField(
        default=0, help_text="0 for a root. Parents never change, so counters lock by depth."
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | ~Q(parent=F("id")), name="no_cohort_in_itself"
            )
        ]

    def __str__(self) -> str:
        return self.name


class CohortCounter(models.Model):
    """What a cohort's members share of one class, and have taken of it.

    ``quota_milli`` is the sum of what its children lend; ``used_milli`` the sum of what its
    children hold beyond what is kept for them alone; ``guaranteed_milli`` is the part that
    this cohort does not lend to its parent. Changed only with the claims it counts.
    """

    id = models.BigAutoField(primary_key=True)
    cohort = models.ForeignKey(Cohort, on_delete=models.CASCADE, related_name="counters")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    quota_milli = models.BigIntegerField(default=0)
    used_milli = models.BigIntegerField(default=0)
    guaranteed_milli = models.BigIntegerField(default=0)
    borrow_milli = models.BigIntegerField(
        null=True, help_text="How much the cohort may borrow from its parent; empty: no limit."
    )
    lend_milli = models.BigIntegerField(
        null=True, help_text="How much the cohort lends to its parent; empty: all."
    )
    grandfathered_milli = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cohort", "resource_class"], name="one_cohort_counter_per_class"
            ),
            models.CheckConstraint(
                condition=Q(used_milli__gte=0)
                & Q(quota_milli__gte=0)
                & Q(guaranteed_milli__gte=0)
                & Q(grandfathered_milli__gte=0),
                name="cohort_amounts_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cohort_id} {self.resource_class_id}: {self.used_milli}/{self.quota_milli}"
