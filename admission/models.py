"""What was asked, and what was decided on which facts?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from admission import states
from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants.models import Project, ResourceClass, Sku, SlaTier, Tenant


class AdmissionRequest(Stateful):
    """One tenant action that is admitted, queued or refused, with reasons."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="requests")
    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    action = models.CharField(max_length=40, default="allocation.create")
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT)
    resource_class = models.ForeignKey(ResourceClass, on_delete=models.PROTECT)
    tier = models.ForeignKey(SlaTier, on_delete=models.PROTECT)
    pool = models.CharField(max_length=60)
    slots = models.PositiveSmallIntegerField(help_text="0 means the whole node.")
    amount_milli = models.BigIntegerField(help_text="Quota it takes when placed.")
    wait = models.BooleanField(default=False)
    band = models.PositiveSmallIntegerField(default=0)
    spec = models.JSONField(default=dict, help_text="Name, image, keys: what is not a rule.")
    state = states.REQUEST.field()
    code = models.CharField(max_length=64, blank=True, help_text="Why it waits or was refused.")
    detail = models.TextField(blank=True)
    allocation_id = models.UUIDField(null=True, help_text="What it became, once placed.")
    run_id = models.UUIDField(null=True)
    actor = models.JSONField(default=dict)
    queued_at = models.DateTimeField(null=True)

    queue = states.REQUEST.move("queue")
    admit = states.REQUEST.move("admit")
    deny = states.REQUEST.move("deny")
    withdraw = states.REQUEST.move("withdraw")
    expire = states.REQUEST.move("expire")

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["pool", "band", "queued_at", "id"],
                name="request_queue",
                condition=Q(state="queued"),
            ),
            models.Index(fields=["tenant", "-created_at"], name="request_tenant"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(amount_milli__gt=0), name="request_takes_quota")
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.state}"


class Decision(Base):
    """One verdict: the gates in order, the numbers compared, the digest of the facts seen."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    request = models.ForeignKey(
        AdmissionRequest, on_delete=models.PROTECT, related_name="decisions"
    )
    verdict = models.CharField(max_length=8, choices=[(x, x) for x in ("admit", "wait", "deny")])
    code = models.CharField(max_length=64, blank=True)
    gates = models.JSONField(help_text="[{gate, passed, code, detail, facts}] in order.")
    winner = models.JSONField(null=True)
    runner_up = models.JSONField(null=True)
    why = models.TextField(blank=True)
    envelope_version = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["request", "-created_at"], name="decision_of")]

    def __str__(self) -> str:
        return f"{self.verdict} {self.code}"
