"""Who are they, and how much is theirs?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants import states
from tenants.models.catalogue import ResourceClass, Sku, SlaTier
from tenants.models.cohort import Cohort


class Tenant(Stateful):
    """A customer: the unit of isolation, entitlement and billing."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "id"

    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60, unique=True)
    state = states.TENANT.field()
    tier = models.ForeignKey(SlaTier, on_delete=models.PROTECT)
    state_reason = models.TextField(blank=True)
    cohort = models.ForeignKey(Cohort, null=True, on_delete=models.PROTECT, related_name="tenants")
    catalogue = models.CharField(
        max_length=8,
        default="all",
        db_default="all",
        choices=[("all", "every published SKU"), ("listed", "only the SKUs listed")],
        help_text="Which SKUs the tenant may ask for.",
    )
    suspension = models.CharField(
        max_length=8,
        default="keep",
        db_default="keep",
        choices=[("keep", "what runs goes on"), ("release", "what runs is released")],
        help_text="What happens to running work when the tenant is suspended.",
    )

    approve = states.TENANT.move("approve")
    reject = states.TENANT.move("reject")
    suspend = states.TENANT.move("suspend")
    resume = states.TENANT.move("resume")
    begin_delete = states.TENANT.move("begin_delete")
    finish_delete = states.TENANT.move("finish_delete")

    def __str__(self) -> str:
        return self.slug


class Project(Base):
    """A tenant's own division; allocations belong to one."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="projects")
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60)
    deleted_at = models.DateTimeField(null=True, help_text="Kept as a row for what refers to it.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "slug"],
                name="project_slug_once_per_tenant",
                condition=Q(deleted_at__isnull=True),
                violation_error_message="A project of this name exists already.",
            )
        ]

    def __str__(self) -> str:
        return self.slug


class Entitlement(Base):
    """A SKU that a tenant with a listed catalogue may ask for."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="entitlements")
    sku = models.ForeignKey(Sku, on_delete=models.CASCADE)
    until = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "sku"], name="entitled_once")
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} may ask for {self.sku_id}"


class TenantCaps(Base):
    """Limits beside the envelopes; empty means no limit. Amounts in millionths a month."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="caps")
    allocations = models.PositiveIntegerField(null=True, help_text="Live allocations at once.")
    slots_per_request = models.PositiveSmallIntegerField(null=True)
    waiting = models.PositiveIntegerField(null=True, help_text="Requests that may wait at once.")
    best_band = models.PositiveSmallIntegerField(
        null=True, help_text="The most urgent priority band that may be asked for."
    )
    shapes = ArrayField(models.CharField(max_length=16), default=list, blank=True)
    zones = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    spend_soft_micro = models.BigIntegerField(null=True)
    spend_hard_micro = models.BigIntegerField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural = "tenant caps"

    def __str__(self) -> str:
        return f"caps of {self.tenant_id}"


class Envelope(Base):
    """What a tenant may hold of one resource class: the version in force."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="envelopes")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    nominal_milli = models.BigIntegerField()
    borrow_milli = models.BigIntegerField(
        default=0, db_default=0, help_text="How much beyond nominal."
    )
    lend_milli = models.BigIntegerField(
        null=True, help_text="How much of the nominal is lent when unused; empty: all."
    )
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "resource_class"], name="one_envelope_per_class"
            ),
            models.CheckConstraint(condition=Q(nominal_milli__gte=0), name="nominal_not_negative"),
            models.CheckConstraint(
                condition=Q(borrow_milli__gte=0)
                & (Q(lend_milli__isnull=True) | Q(lend_milli__gte=0)),
                name="borrow_and_lend_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.resource_class_id}: {self.nominal_milli}"


class QuotaCounter(models.Model):
    """What a tenant holds of one class now, against the limit in force.

    Changed only with the claims it counts, in one transaction; audited equal to them.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="counters")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    limit_milli = models.BigIntegerField(default=0)
    used_milli = models.BigIntegerField(default=0)
    grandfathered_milli = models.BigIntegerField(default=0)
    borrow_milli = models.BigIntegerField(
        default=0,
        db_default=0,
        help_text="Beyond the limit, while the cohort has it; open bursts included.",
    )
    guaranteed_milli = models.BigIntegerField(
        default=0, db_default=0, help_text="The part of the limit that is never lent."
    )
    cohort = models.ForeignKey(
        Cohort,
        null=True,
        on_delete=models.PROTECT,
        help_text="The tenant's cohort; here so that it is read under this row's lock.",
    )
    drain_at = models.DateTimeField(
        null=True, help_text="When what is held beyond the limit begins to be released."
    )
    drain_told_at = models.DateTimeField(
        null=True, help_text="When it was last said how much has to go."
    )
    admitting = models.BooleanField(
        default=True,
        help_text="False while the tenant is not active; read under this row's lock, so that "
        "a suspension and a placement beside it are in one order or the other.",
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "resource_class"], name="one_counter_per_class"
            ),
            models.CheckConstraint(
                condition=Q(used_milli__gte=0)
                & Q(grandfathered_milli__gte=0)
                & Q(
                    used_milli__lte=F("limit_milli") + F("borrow_milli") + F("grandfathered_milli")
                ),
                name="used_within_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.resource_class_id}: {self.used_milli}/{self.limit_milli}"
