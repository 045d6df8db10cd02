"""In what does a host differ from what is wanted, since when, and who acts upon it?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Stateful
from placement import states
from placement.domain.drift import ACTORS, KINDS, SEVERITIES
from placement.models.allocation import Allocation
from placement.models.node import Node


class DriftOutcome(models.TextChoices):
    """How a difference came to its end."""

    REPAIRED = "repaired"
    ENDED = "ended"
    ACCEPTED = "accepted"


class Drift(Stateful):
    """One difference, from when it was first seen until it is seen no more.

    ``seen``: it may still pass by itself. ``accepted``: an operator lets it stand, with a reason;
    it counts no more and is kept until it is gone. ``escalated``: the tries are used up.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="drifts", db_index=False)
    allocation = models.ForeignKey(
        Allocation, null=True, on_delete=models.CASCADE, related_name="drifts"
    )
    kind = models.CharField(max_length=32, choices=[(kind, kind) for kind in KINDS])
    subject = models.CharField(max_length=160)
    slots = ArrayField(models.SmallIntegerField(), default=list)
    severity = models.CharField(max_length=8, choices=[(one, one) for one in SEVERITIES])
    actor = models.CharField(max_length=10, choices=[(one, one) for one in ACTORS])
    state = states.DRIFT.field()
    detail = models.TextField()
    last_seen_at = models.DateTimeField()
    seen = models.PositiveIntegerField(default=1)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    trouble = models.CharField(max_length=200, blank=True, help_text="Why the last try failed.")
    outcome = models.CharField(max_length=10, choices=DriftOutcome.choices, blank=True)
    decided_by = models.JSONField(null=True)
    decision = models.CharField(max_length=500, blank=True)
    closed_at = models.DateTimeField(null=True)

    count = states.DRIFT.move("count")
    escalate = states.DRIFT.move("escalate")
    accept = states.DRIFT.move("accept")
    ask = states.DRIFT.move("ask")
    close = states.DRIFT.move("close")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["-created_at"], name="drift_recent"),
            models.Index(
                fields=["next_try_at"], name="drift_due", condition=Q(state=states.DriftState.OPEN)
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "subject", "kind"],
                name="one_open_drift",
                condition=~Q(state=states.DriftState.CLOSED),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject} on {self.node_id} {self.state}"

    @property
    def code(self) -> str:
        """The permanent reason code."""
        return f"drift_{self.kind}"
