"""What do hosts measure of themselves?  The last hour of each, and never more."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from gpuaas.kernel.models import Base
from placement.models.node import Node


class NodeTelemetry(Base):
    """Where a host's ring of windows stands."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, related_name="telemetry")
    place = models.PositiveSmallIntegerField(help_text="The ring's place of the last window.")
    boot_id = models.CharField(max_length=64)
    received_at = models.DateTimeField()
    lost = models.BigIntegerField(default=0, help_text="Windows that the host had to drop.")

    class Meta:
        verbose_name_plural = "node telemetry"

    def __str__(self) -> str:
        return f"telemetry of {self.node_id}"


class TelemetryWindow(Base):
    """One interval of one host, in one place of its ring; the next round overwrites it.

    The host's times are its own claim; ``received_at`` is ours.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="telemetry_windows", db_index=False
    )
    place = models.PositiveSmallIntegerField()
    boot_id = models.CharField(max_length=64)
    seq = models.BigIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    received_at = models.DateTimeField()
    body = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "place"], name="telemetry_ring")
        ]

    def __str__(self) -> str:
        return f"window {self.seq} of {self.node_id}"
