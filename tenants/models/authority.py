"""How does what a tenant may hold change over time, and who agreed?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants import states
from tenants.models.catalogue import ResourceClass, SlaTier
from tenants.models.tenancy import Project, Tenant


class OnExcess(models.TextChoices):
    """What happens when an envelope is lowered below what is held."""

    GRANDFATHER = "grandfather"
    DRAIN = "drain"


class EnvelopeVersion(Base):
    """One version of an envelope, from a moment on; the one in force is the Envelope."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="envelope_versions")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    version = models.PositiveIntegerField()
    nominal_milli = models.BigIntegerField()
    borrow_milli = models.BigIntegerField(default=0)
    lend_milli = models.BigIntegerField(null=True)
    on_excess = models.CharField(
        max_length=12, choices=OnExcess.choices, default=OnExcess.GRANDFATHER
    )
    drain_after_s = models.PositiveIntegerField(default=86_400)
    effective_from = models.DateTimeField()
    applied_at = models.DateTimeField(null=True)
    cancelled_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    actor = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "resource_class", "version"], name="one_envelope_version"
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["effective_from"],
                name="envelope_due",
                condition=Q(applied_at__isnull=True, cancelled_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"v{self.version}: {self.nominal_milli} from {self.effective_from:%Y-%m-%d}"


class ProjectQuota(models.Model):
    """What a project holds of one class, and its own limit inside the tenant's, if it has one.

    The row is made by the project's first charge, so that use is known before a limit is set.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="quotas")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    limit_milli = models.BigIntegerField(null=True, help_text="Empty: only the tenant's limit.")
    used_milli = models.BigIntegerField(default=0, db_default=0)
    grandfathered_milli = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["project", "resource_class"], name="one_project_quota_per_class"
            ),
            models.CheckConstraint(
                condition=Q(used_milli__gte=0)
                & Q(grandfathered_milli__gte=0)
                & (
                    Q(limit_milli__isnull=True)
                    | Q(limit_milli__gte=0)
                    & Q(used_milli__lte=F("limit_milli") + F("grandfathered_milli"))
                ),
                name="project_within_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} {self.resource_class_id}: {self.used_milli}/{self.limit_milli}"


class BurstRule(Stateful):
    """When and how far a tenant may go beyond its borrowing limit, and what ends it.

    ``opens_at`` to ``closes_at`` is one window; with ``every_s`` it repeats (a week is
    604 800 s). ``on_close`` says what happens to what is held beyond the limit then.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="bursts")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    name = models.CharField(max_length=120)
    extra_milli = models.BigIntegerField()
    opens_at = models.DateTimeField()
    closes_at = models.DateTimeField()
    every_s = models.PositiveIntegerField(null=True)
    on_close = models.CharField(
        max_length=12, choices=OnExcess.choices, default=OnExcess.GRANDFATHER
    )
    state = states.BURST.field()

    open = states.BURST.move("open")
    close = states.BURST.move("close")
    end = states.BURST.move("end")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(extra_milli__gt=0) & Q(closes_at__gt=F("opens_at")),
                name="burst_makes_sense",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name}: +{self.extra_milli}"


class QuotaIncrease(Stateful):
    """A tenant's wish for a larger envelope, and what an operator decided."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="increases")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    nominal_before_milli = models.BigIntegerField()
    nominal_asked_milli = models.BigIntegerField()
    nominal_granted_milli = models.BigIntegerField(null=True)
    justification = models.TextField()
    asked_by = models.JSONField(default=dict)
    decided_by = models.JSONField(null=True)
    decided_at = models.DateTimeField(null=True)
    decision_reason = models.TextField(blank=True)
    state = states.INCREASE.field()

    approve = states.INCREASE.move("approve")
    refuse = states.INCREASE.move("refuse")
    withdraw = states.INCREASE.move("withdraw")

    def __str__(self) -> str:
        return f"{self.nominal_before_milli} → {self.nominal_asked_milli}: {self.state}"


class TierVersion(Base):
    """What a tier promised from a moment on; the tier's own row is the version in force."""

    tenant_grant: ClassVar[Grant] = "read"

    tier = models.ForeignKey(SlaTier, on_delete=models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    terms = models.JSONField()
    reason = models.TextField(blank=True)
    actor = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tier", "version"], name="one_tier_version")
        ]

    def __str__(self) -> str:
        return f"{self.tier_id} v{self.version}"


class TierAssignment(Base):
    """Which tier a tenant had from when, and what was shown before it was agreed."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="tier_assignments")
    tier = models.ForeignKey(SlaTier, on_delete=models.PROTECT)
    tier_version = models.PositiveIntegerField()
    version = models.PositiveIntegerField()
    preview = models.JSONField(default=dict)
    reason = models.TextField()
    actor = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "version"], name="one_tier_assignment")
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} → {self.tier_id}"


class DataSet(Base):
    """Where data has been committed: the noun behind data locality. A new row per version."""

    tenant_grant: ClassVar[Grant] = "write"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField()
    zones = models.JSONField(default=list)
    racks = models.JSONField(default=list)
    nodes = models.JSONField(default=list)
    storage = models.JSONField(default=list)
    required = models.BooleanField(default=True)
    declared_by = models.JSONField(default=dict)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "name", "version"], name="one_dataset_version"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"
