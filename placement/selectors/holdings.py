"""What is still held, and keeps a project or a tenant from ending?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from placement.models import Allocation
from placement.states import AllocationState
from tenants.models import Sku

MOST = 50


@dataclass(frozen=True, slots=True)
class Held:
    """One allocation that has not ended with proof."""

    id: UUID
    name: str
    sku: Sku
    slots: int
    state: str
    project: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Holdings:
    """How many there are, and the oldest of them, at most ``MOST``."""

    count: int
    items: list[Held]

    def as_json(self) -> list[dict[str, str]]:
        """The items as the facts of an error."""
        return [{"id": str(one.id), "name": one.name, "state": one.state} for one in self.items]


def holdings_of(*, tenant_id: UUID, project_id: UUID | None = None) -> Holdings:
    """What a tenant, or one of its projects, holds: proof ends it, not the wish to release."""
    rows = Allocation.objects.filter(tenant_id=tenant_id).exclude(state=AllocationState.RELEASED)
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    found = rows.select_related("sku", "project").order_by("created_at", "pk")[: MOST + 1]
    items = [
        Held(row.pk, row.name, row.sku, row.slots, row.state, row.project.slug, row.created_at)
        for row in found
    ]
    return Holdings(len(items) if len(items) <= MOST else rows.count(), items[:MOST])
