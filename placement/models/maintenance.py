"""When is a node out of service by plan, and what was its tenants' allocations' notice of it?"""

from __future__ import annotations

from typing import ClassVar, Final

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from placement import states
from placement.fields import Stretch
from placement.models.allocation import Allocation
from placement.models.node import Node
from tenants.models import Tenant

OPEN = Q(state__in=[str(state) for state in states.OPEN_WINDOW])
SETTLE_S: Final = 60
"""Seconds between a look at free capacity and the row that is made of it, at most."""
OPEN_THEN: Final = f"""
   (n.free_until IS NULL OR CASE WHEN %(lasts)s::int IS NULL
         THEN n.open_until > statement_timestamp()
         ELSE n.free_until > statement_timestamp()
                             + make_interval(secs => %(lasts)s::int + {SETTLE_S}) END)
"""
"""Whether node ``n`` is free of maintenance while it lasts; NULL: nobody knows how long."""


class MaintenanceWindow(Stateful):
    """A stretch of time in which one node takes no work; those planned together share ``plan``."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="windows", db_index=False)
    plan = models.UUIDField(help_text="The same for all nodes that were planned in one act.")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    owner = models.JSONField(default=dict)
    state = states.WINDOW.field()

    announce = states.WINDOW.move("announce")
    start = states.WINDOW.move("start")
    end = states.WINDOW.move("end")
    cancel = states.WINDOW.move("cancel")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["starts_at"], name="window_open", condition=OPEN),
            models.Index(fields=["node", "-starts_at"], name="window_of_node"),
            models.Index(fields=["plan"], name="window_plan"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="window_ends_after_it_starts"
            ),
            ExclusionConstraint(
                name="no_overlapping_windows",
                expressions=[
                    ("node", RangeOperators.EQUAL),
                    (Stretch("starts_at", "ends_at"), RangeOperators.OVERLAPS),
                ],
                condition=OPEN,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} from {self.starts_at:%Y-%m-%d %H:%M}"


class NoticeKind(models.TextChoices):
    """What a tenant is told."""

    PLANNED = "maintenance_planned"
    SOON = "maintenance_soon"
    CANCELLED = "maintenance_cancelled"
    DRAIN = "drain"
    DRAIN_OVER = "drain_over"


class Notice(Base):
    """What a tenant was told about one of its allocations; ``key`` keeps it from being told twice.

    Its text names no host and none of the operator's own words.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, related_name="notices", db_index=False
    )
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=24, choices=NoticeKind.choices)
    key = models.CharField(max_length=120, unique=True)
    text = models.TextField()
    starts_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.JSONField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-created_at"], name="notice_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.allocation_id}"
