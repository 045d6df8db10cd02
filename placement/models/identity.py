"""Who was a host when it was last discovered, and what has become otherwise than approved?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Base
from placement.domain.identity import CODES, OUTCOMES
from placement.models.inventory import Slot
from placement.models.node import Node


class NodeIdentity(Base):
    """What a host called itself, and in which boot, when its last discovery came."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, related_name="identity")
    hostname = models.CharField(max_length=253)
    boot_id = models.CharField(max_length=64, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "node identities"

    def __str__(self) -> str:
        return f"{self.hostname} of {self.node_id}"


class IdentityDifference(Base):
    """One thing that a discovery saw otherwise than approved, until it is over.

    The approved slot does not change by it; ``outcome`` says what follows until somebody decides.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="differences", db_index=False
    )
    slot = models.ForeignKey(Slot, null=True, on_delete=models.CASCADE, related_name="differences")
    code = models.CharField(max_length=32, choices=[(code, code) for code in CODES])
    outcome = models.CharField(max_length=12, choices=[(one, one) for one in OUTCOMES])
    gpu_uuid = models.CharField(max_length=80, blank=True)
    detail = models.TextField()
    approved = models.JSONField(default=dict)
    discovered = models.JSONField(default=dict)
    seen_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.JSONField(null=True)
    resolution = models.CharField(max_length=12, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "slot", "code", "gpu_uuid"],
                name="one_open_difference",
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"{self.code} on {self.node_id}"
