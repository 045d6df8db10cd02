"""What is a host asked to do, and what came back?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from gpuaas.kernel.models import Base, Stateful
from placement import states
from placement.models.allocation import Allocation
from placement.models.node import Node

OPEN_BURN_IN = """(t.kind = 'node.burn_in' AND (t.state IN ('pending', 'leased')
    OR t.state = 'cancelled' AND t.ended_at IS NULL))"""
"""Of a task t: a burn-in that may have its host under load. One that was stopped has its end only
once the host has shown that the load is over."""


class NodeTask(Stateful):
    """One bounded, typed piece of work for one node, leased and fenced by an epoch."""

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="tasks")
    kind = models.CharField(max_length=40)
    allocation = models.ForeignKey(
        Allocation, null=True, on_delete=models.PROTECT, related_name="tasks"
    )
    state = states.TASK.field()
    params = models.JSONField(default=dict)
    claim_attempt = models.PositiveIntegerField(default=1)
    attempt = models.PositiveIntegerField(default=0, help_text="How often it was leased.")
    max_attempts = models.PositiveSmallIntegerField(default=5)
    lease_epoch = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    boot_id = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(db_default=Now())
    deadline_at = models.DateTimeField(null=True)
    step = models.CharField(max_length=60, blank=True)
    percent = models.PositiveSmallIntegerField(null=True)
    result = models.JSONField(null=True)
    evidence = models.JSONField(null=True)
    error = models.JSONField(null=True)
    run_id = models.UUIDField(null=True)
    ended_at = models.DateTimeField(null=True)

    lease = states.TASK.move("lease")
    lose = states.TASK.move("lose")
    succeed = states.TASK.move("succeed")
    fail = states.TASK.move("fail")
    cancel = states.TASK.move("cancel")

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["node", "due_at"],
                name="task_waiting",
                condition=Q(state__in=["pending", "leased"]),
            ),
            models.Index(fields=["lease_until"], name="task_lease", condition=Q(state="leased")),
            models.Index(
                fields=["node"],
                name="task_stopping",
                condition=Q(state="cancelled", ended_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"


class TaskObservation(Base):
    """A result that came too late to count: kept, and changing nothing."""

    task = models.ForeignKey(NodeTask, on_delete=models.CASCADE, related_name="observations")
    lease_epoch = models.BigIntegerField()
    boot_id = models.CharField(max_length=64)
    outcome = models.CharField(max_length=12)
    payload = models.JSONField()

    def __str__(self) -> str:
        return f"late {self.outcome} of {self.task_id}"
