"""Who are they, and how much is theirs?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants import states
from tenants.models.catalogue import ResourceClass, SlaTier


class Tenant(Stateful):
    """A customer: the unit of isolation, entitlement and billing."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "id"

    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60, unique=True)
    state = states.TENANT.field()
    tier = models.ForeignKey(SlaTier, on_delete=models.PROTECT)
    state_reason = models.TextField(blank=True)

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

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "slug"],
                name="project_slug_once_per_tenant",
                violation_error_message="A project of this name exists already.",
            )
        ]

    def __str__(self) -> str:
        return self.slug


class Envelope(Base):
    """What a tenant may hold of one resource class."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="envelopes")
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    nominal_milli = models.BigIntegerField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "resource_class"], name="one_envelope_per_class"
            ),
            models.CheckConstraint(condition=Q(nominal_milli__gte=0), name="nominal_not_negative"),
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
                & Q(used_milli__lte=F("limit_milli") + F("grandfathered_milli")),
                name="used_within_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.resource_class_id}: {self.used_milli}/{self.limit_milli}"
