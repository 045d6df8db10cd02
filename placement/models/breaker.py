"""How much may automation do to a pool, what did it do, and what is held for a person?"""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from gpuaas.kernel.models import Base, Stateful
from placement import states
from placement.models.node import Node, Pool


class BreakerRule(Base):
    """The limits of one pool; what they were before is in its events.

    Its lock puts the actions upon a pool's nodes one behind the other. It is taken after the
    node's and before any claim's.
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="breaker")
    percent = models.PositiveSmallIntegerField(default=10, validators=[MaxValueValidator(100)])
    floor = models.PositiveSmallIntegerField(default=1)
    window_s = models.PositiveIntegerField(default=3600)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(percent__lte=100, window_s__gte=1), name="breaker_is_a_share"
            )
        ]

    def __str__(self) -> str:
        return f"{self.percent} % of {self.pool_id}, {self.floor} at least"


class AutomaticAction(Stateful):
    """One thing that automation did to a node, or wants to do and may not yet."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="automatic_actions")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="automatic_actions")
    kind = models.CharField(max_length=40, help_text="What is done: quarantine, repair, …")
    about = models.CharField(
        max_length=80, blank=True, help_text="Which part of the node, if not all of it."
    )
    state = states.AUTOMATIC.field()
    reason = models.CharField(max_length=64, help_text="The reason code that asks for it.")
    facts = models.JSONField(default=dict)
    asked_at = models.DateTimeField(db_default=Now(), help_text="When it was last asked for.")
    asked = models.PositiveIntegerField(default=1, db_default=1)
    decided_by = models.JSONField(null=True)
    decided_at = models.DateTimeField(null=True)
    decision = models.CharField(max_length=500, blank=True)

    take = states.AUTOMATIC.move("take")
    allow = states.AUTOMATIC.move("allow")
    reject = states.AUTOMATIC.move("reject")
    lapse = states.AUTOMATIC.move("lapse")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["pool", "state_since"], name="automatic_recent"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "kind", "about"],
                name="one_open_automatic_action",
                condition=Q(state__in=[str(state) for state in states.OPEN_AUTOMATIC]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.node_id} {self.state}"

    @property
    def code(self) -> str:
        """Why it waits; empty of one that was decided."""
        return "breaker_held" if self.state == states.AutomaticState.HELD else ""
