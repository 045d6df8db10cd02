"""What is sold, and under which contract?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants import states


class ResourceClass(Base):
    """The dimension a quota counts, such as one slot of an H100 host."""

    tenant_grant: ClassVar[Grant] = "read"

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)

    class Meta:
        verbose_name_plural = "resource classes"

    def __str__(self) -> str:
        return self.name


class SlaTier(Base):
    """A contract: targets, priority band, preemptibility, isolation."""

    tenant_grant: ClassVar[Grant] = "read"

    name = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=120)
    priority_band = models.PositiveSmallIntegerField(help_text="0 goes first.")
    preemptible = models.BooleanField()
    protected_run_s = models.PositiveIntegerField(default=0)
    isolation = models.CharField(
        max_length=16,
        choices=[(x, x) for x in ("shared", "mig", "gpu", "vm", "node", "cluster")],
        default="vm",
    )
    availability_ppm = models.PositiveIntegerField(
        default=0, help_text="Promised availability in parts per million; 0 promises nothing."
    )
    provision_target_s = models.PositiveIntegerField(default=600)
    throughput_floor_permille = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Promised share of the expected throughput; 0 promises nothing.",
    )
    checkpoint_grace_s = models.PositiveIntegerField(default=0, db_default=0)
    degradation_rank = models.PositiveSmallIntegerField(
        default=100, db_default=100, help_text="Lower degrades first when something has to give."
    )
    preemption = models.CharField(
        max_length=16,
        default="never",
        db_default="never",
        choices=[(x, x) for x in ("never", "when_borrowing", "by_band")],
        help_text="When work of this tier may be preempted.",
    )
    credit_ladder = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        help_text="[{below_ppm, credit_permille}], steepest last.",
    )
    version = models.PositiveIntegerField(default=1, db_default=1)

    def __str__(self) -> str:
        return self.name


class Shape(models.TextChoices):
    """How capacity is cut."""

    BAREMETAL = "baremetal"
    GPU_SLICE = "gpu_slice"
    MIG = "mig"
    GPU_SHARE = "gpu_share"


PARTS = (Shape.MIG, Shape.GPU_SHARE)
"""The shapes that are a part of one GPU."""


def machine_of(shape: str) -> str:
    """The shape by which images are known: a part is given to a machine as a slice is."""
    return Shape.GPU_SLICE if shape in PARTS else shape


class Sku(Stateful):
    """A public product: a shape on a family of nodes in a pool, with limits and a price."""

    tenant_grant: ClassVar[Grant] = "read"

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    shape = models.CharField(max_length=16, choices=Shape.choices)
    family = models.SlugField(max_length=60, help_text="Node family, by its name.")
    pool = models.SlugField(max_length=60, default="default", help_text="Pool, by its name.")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    units_milli = models.PositiveIntegerField(
        default=1000,
        help_text="Quota for one slot (part, node), in thousandths of the class.",
    )
    slots_min = models.PositiveSmallIntegerField(default=1)
    slots_max = models.PositiveSmallIntegerField(default=8)
    exclusive_nic = models.BooleanField(
        default=False, help_text="Every slot must have a NIC that it shares with no other slot."
    )
    isolation = models.CharField(max_length=16, default="vm")
    part_profile = models.CharField(
        max_length=24,
        blank=True,
        default="",
        db_default="",
        help_text="The MIG profile that is sold, such as 1g.10gb.",
    )
    part_milli = models.PositiveSmallIntegerField(
        null=True, help_text="The share of a GPU that is sold, in thousandths."
    )
    part_memory_mib = models.PositiveIntegerField(
        null=True, help_text="The memory of a GPU that goes with the share, in MiB."
    )
    state = states.SKU.field()

    publish = states.SKU.move("publish")
    retire = states.SKU.move("retire")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(slots_min__gte=1, slots_min__lte=F("slots_max"), units_milli__gt=0),
                name="sku_sizes_make_sense",
            ),
            models.CheckConstraint(
                condition=(
                    Q(shape=Shape.MIG, part_milli__isnull=True, part_memory_mib__isnull=True)
                    & ~Q(part_profile="")
                )
                | Q(
                    shape=Shape.GPU_SHARE,
                    part_profile="",
                    part_milli__gte=1,
                    part_milli__lte=1000,
                    part_memory_mib__gte=1,
                )
                | (
                    ~Q(shape__in=PARTS)
                    & Q(
                        part_profile="",
                        part_milli__isnull=True,
                        part_memory_mib__isnull=True,
                    )
                ),
                name="sku_says_its_part",
            ),
            models.CheckConstraint(
                condition=~Q(shape__in=PARTS) | Q(slots_max=1, exclusive_nic=False),
                name="a_part_is_sold_alone",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class SkuPrice(Base):
    """What one slot (or one node) costs an hour, from a moment on."""

    tenant_grant: ClassVar[Grant] = "read"

    sku = models.ForeignKey(Sku, on_delete=models.CASCADE, related_name="prices")
    hour_micro = models.BigIntegerField(help_text="Millionths of the currency, per unit and hour.")
    currency = models.CharField(max_length=3, default="USD")
    effective_from = models.DateTimeField(db_default=Now())

    class Meta:
        ordering: ClassVar = ["-effective_from"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(hour_micro__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["sku", "effective_from"], name="one_price_at_a_time"),
        ]

    def __str__(self) -> str:
        return f"{self.hour_micro} µ{self.currency}/h"
