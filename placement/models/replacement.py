"""Which card of a node is being replaced by another, and which was there before?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from gpuaas.kernel.models import Stateful
from placement import states
from placement.models.inventory import Slot
from placement.models.node import Node


class CardReplacement(Stateful):
    """One card that an operator says was replaced; the old one's facts are kept for good."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="replacements")
    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="replaced")
    slot_index = models.PositiveSmallIntegerField()
    old_uuid = models.CharField(max_length=80)
    old_device = models.JSONField(default=dict)
    new_uuid = models.CharField(max_length=80, blank=True)
    new_slot = models.ForeignKey(
        Slot, null=True, on_delete=models.CASCADE, related_name="replacement_of"
    )
    reason = models.CharField(max_length=500)
    declared_by = models.JSONField(default=dict)
    state = states.REPLACEMENT.field()

    approve = states.REPLACEMENT.move("approve")
    cancel = states.REPLACEMENT.move("cancel")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["slot"],
                name="one_open_replacement",
                condition=models.Q(state="declared"),
            )
        ]

    def __str__(self) -> str:
        return f"slot {self.slot_index} of {self.node_id}: {self.state}"
