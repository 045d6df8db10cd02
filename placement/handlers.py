"""On this event, placement does that."""

from __future__ import annotations

from uuid import UUID

from gpuaas.kernel import events
from gpuaas.kernel.models import Event
from placement.models import Allocation
from placement.services.endings import deleting_release, excess_drain, suspended_release
from placement.services.queue import cycle_run


def capacity_freed(event: Event) -> None:
    """Somebody may have waited for what an allocation gave back."""
    if event.subject_id is None:
        return
    row = Allocation.objects.select_related("node__pool").filter(pk=event.subject_id).first()
    if row is not None:
        cycle_run(row.node.pool.name)


def tenant_suspended(event: Event) -> None:
    """Its policy may be to release what it holds."""
    if event.subject_id is not None:
        suspended_release(event.subject_id)


def tenant_deleting(event: Event) -> None:
    """What it holds is released, and what waits is withdrawn."""
    if event.subject_id is not None:
        deleting_release(event.subject_id)


def excess_due(event: Event) -> None:
    """The delay after a lowered envelope is over."""
    if event.subject_id is not None:
        excess_drain(event.subject_id, UUID(event.facts["class_id"]))


ON = {
    "placement.allocation.finish": capacity_freed,
    "tenants.tenant.suspend": tenant_suspended,
    "tenants.tenant.begin_delete": tenant_deleting,
    "tenants.quota.drain": excess_due,
}

events.subscribe("placement", ON)
