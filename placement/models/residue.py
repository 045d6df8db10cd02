"""Which slots carry traces of an earlier tenant, as their hosts reported them?"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Stateful
from placement import states
from placement.models.inventory import Slot
from placement.models.node import Node

OPEN = Q(state__in=[str(state) for state in states.OPEN_RESIDUE])


class SlotResidue(Stateful):
    """Traces of one earlier tenant on one slot: an observation that blocks this slot alone.

    It is over when a report says of every part of the slot that it is clean. A report that
    does not speak of the slot changes nothing. Once overridden by two people, the same
    traces block no more; those of somebody else do.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="residues", db_index=False
    )
    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="residues")
    state = states.RESIDUE.field()
    left_by = models.CharField(
        max_length=64, blank=True, help_text="The allocation that left it, as the host names it."
    )
    detail = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True)

    override = states.RESIDUE.move("override")
    prove = states.RESIDUE.move("prove")

    class Meta:
        verbose_name_plural = "slot residues"
        indexes: ClassVar = [
            models.Index(fields=["node"], name="residue_open", condition=OPEN),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["slot", "left_by"], name="residue_once", condition=OPEN)
        ]

    def __str__(self) -> str:
        return f"residue on {self.slot_id} {self.state}"
