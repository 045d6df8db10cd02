"""May work be moved to make room, within which budget, and what was moved?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from gpuaas.kernel.models import Base
from placement.models.inventory import Pool
from placement.models.node import Node


class DefragPolicy(Base):
    """Whether a pool's movable work may be moved, and how much at once. Without a row: never.

    The window is of hours of the day, UTC; from equal to until is the whole day.
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="defrag_policy")
    enabled = models.BooleanField(default=False, db_default=False)
    moves = models.PositiveSmallIntegerField(default=4, help_text="At most so many in one run.")
    lost_milli = models.PositiveIntegerField(
        default=8000, help_text="Lost work in thousandths of a GPU-hour, at most in one run."
    )
    from_hour = models.PositiveSmallIntegerField(default=0)
    until_hour = models.PositiveSmallIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural = "defragmentation policies"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(from_hour__lte=23, until_hour__lte=23), name="defrag_hours_of_a_day"
            )
        ]

    def __str__(self) -> str:
        return f"defragmentation of {self.pool_id}: {'on' if self.enabled else 'off'}"


class Defragmentation(Base):
    """One run of moves: what was planned, and what became of each move.

    While it has not ended its host takes no new work: the room is kept for what it is made for.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="defragmentations")
    host = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="defragmentations")
    sku = models.CharField(max_length=60)
    slots = models.PositiveSmallIntegerField(help_text="The size to make room for; 0: a host.")
    for_request = models.UUIDField(
        null=True, help_text="The waiting request that gets the room; null: whoever is first."
    )
    moves = models.JSONField(default=list)
    digest = models.CharField(max_length=64)
    reason = models.TextField()
    actor = models.JSONField(default=dict)
    run_id = models.UUIDField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, blank=True)
    code = models.CharField(max_length=64, blank=True)
    detail = models.TextField(blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pool"], name="one_defragmentation", condition=Q(ended_at__isnull=True)
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["host"], name="defrag_host", condition=Q(ended_at__isnull=True)),
            models.Index(F("created_at").desc(), name="defrag_newest"),
        ]

    def __str__(self) -> str:
        return f"defragmentation of {self.pool_id} for {self.slots} of {self.sku}"
