"""What stands on a node, until when, and may it be moved?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from placement.domain.maintenance import Occupant
from placement.models import Allocation
from placement.states import AllocationState

STANDING = (
    AllocationState.PLACED,
    AllocationState.PROVISIONING,
    AllocationState.ACTIVE,
    AllocationState.PREEMPTING,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """An allocation that stands, with what is known of its end."""

    allocation: Allocation
    occupant: Occupant


def ends_at_of(row: Allocation) -> datetime | None:
    """When an allocation ends by itself; None where it lasts until somebody releases it.

    Counted from when it was placed, by the time that its request asked for.
    """
    lasts = row.request.spec.get("max_duration_s")
    return row.created_at + timedelta(seconds=int(lasts)) if lasts else None


def occupants_of(node_id: UUID) -> list[Standing]:
    """What stands on a node, the oldest first. What is being released goes by itself."""
    rows = Allocation.objects.filter(node_id=node_id, state__in=STANDING)
    rows = rows.select_related("request", "workload", "tenant", "sku", "project")
    return [standing_of(row) for row in rows.order_by("created_at", "pk")]


def standing_of(row: Allocation) -> Standing:
    """An allocation with what is known of its end; it may move where its workload says so."""
    movable = row.workload is not None and row.workload.spec.get("movable") is True
    return Standing(row, Occupant(row.pk, ends_at_of(row), movable))
