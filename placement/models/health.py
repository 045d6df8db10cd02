"""Which errors did GPUs show, and how is each device judged now?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Base
from placement.domain.health import CLASSES, HEALTHY
from placement.models.node import Node


class XidEvent(Base):
    """An error number that a driver told in one window of a host; the newest of each are kept.

    ``at`` is the host's own time. ``allocation`` had the GPU when it was told, as far as known.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="xids", db_index=False)
    gpu_uuid = models.CharField(max_length=120, blank=True)
    xid = models.BigIntegerField()
    count = models.BigIntegerField(default=1)
    at = models.DateTimeField()
    boot_id = models.CharField(max_length=64, blank=True)
    allocation = models.UUIDField(null=True)
    policy = models.CharField(max_length=16)

    class Meta:
        verbose_name = "XID event"
        indexes: ClassVar = [
            models.Index(fields=["node", "-created_at"], name="xid_of_node"),
        ]

    def __str__(self) -> str:
        return f"XID {self.xid} on {self.gpu_uuid or self.node_id}"


class DeviceHealth(Base):
    """How one GPU is judged: its class, why, and what follows; healthy ones need no row.

    ``lifted_at``: an operator set what was known until then aside.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="device_health", db_index=False
    )
    gpu_uuid = models.CharField(max_length=120)
    classification = models.CharField(
        max_length=10, choices=[(one, one) for one in CLASSES], default=HEALTHY
    )
    consequences = models.JSONField(default=list)
    findings = models.JSONField(default=list)
    since = models.DateTimeField()
    checked_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.JSONField(null=True)
    lift_reason = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name_plural = "device health"
        indexes: ClassVar = [
            models.Index(
                fields=["checked_at"], name="health_open", condition=~Q(classification="healthy")
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "gpu_uuid"], name="health_once")
        ]

    def __str__(self) -> str:
        return f"{self.gpu_uuid} {self.classification}"
