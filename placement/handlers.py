"""On this event, placement does that."""

from __future__ import annotations

from gpuaas.kernel import events
from gpuaas.kernel.models import Event
from placement.models import Allocation
from placement.services.queue import cycle_run


def capacity_freed(event: Event) -> None:
    """Somebody may have waited for what an allocation gave back."""
    if event.subject_id is None:
        return
    row = Allocation.objects.select_related("node__pool").filter(pk=event.subject_id).first()
    if row is not None:
        cycle_run(row.node.pool.name)


ON = {
    "placement.allocation.finish": capacity_freed,
}

events.subscribe("placement", ON)
