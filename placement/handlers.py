"""On this event, placement does that; and before a SKU is made it is asked."""

from __future__ import annotations

from gpuaas.kernel import events
from gpuaas.kernel.actor import system
from gpuaas.kernel.models import Event
from placement.models import Allocation
from placement.services.defrag_steps import progress_signal
from placement.services.endings import deleting_release, excess_drain, suspended_release
from placement.services.moves import workload_moved, workload_not_moved
from placement.services.notices import notice_mail
from placement.services.queue import cycle_run, cycle_sweep
from placement.services.stock import stock_there_or_refuse
from placement.services.workloads import workload_settle
from tenants import shelf

PART = system("workloads")


def _allocation_of(event: Event) -> Allocation | None:
    """The allocation that an event is about, with its node and pool; None when it is gone."""
    if event.subject_id is None:
        return None
    return Allocation.objects.select_related("node__pool").filter(pk=event.subject_id).first()


def capacity_freed(event: Event) -> None:
    """Somebody may have waited for what an allocation gave back, or moved to it in vain."""
    row = _allocation_of(event)
    if row is None:
        return
    if row.workload_id is not None:
        workload_not_moved(request_id=row.request_id, actor=PART)
        workload_moved(request_id=row.request_id, actor=PART)
        workload_settle(workload_id=row.workload_id, actor=PART)
    # Last: it locks counters, after which nobody waits for nodes, and the releases above do.
    cycle_run(row.node.pool.name)
    progress_signal(row.node.pool_id)


def capacity_active(event: Event) -> None:
    """A workload that moves gives up its old places when the new ones work."""
    row = _allocation_of(event)
    if row is not None and row.workload_id is not None:
        workload_moved(request_id=row.request_id, actor=PART)
        progress_signal(row.node.pool_id)


def capacity_blocked(event: Event) -> None:
    """A new place that came to nothing and cannot be cleaned ends its workload's move as well."""
    row = _allocation_of(event)
    if row is None:
        return
    if row.workload_id is not None:
        workload_not_moved(request_id=row.request_id, actor=PART)
    progress_signal(row.node.pool_id)


def room_made(event: Event) -> None:
    """Work was moved away from a host: who has waited for the room is looked at."""
    cycle_run(event.facts["pool"])


def authority_changed(event: Event) -> None:
    """What somebody waited for may have ended: a limit, a suspension, a window, a rule."""
    cycle_sweep()


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
        excess_drain(event.subject_id)


def notice_given(event: Event) -> None:
    """What a tenant was told goes out by mail as well."""
    if event.subject_id is not None:
        notice_mail(event.subject_id)


REASONS_END = (
    "tenants.tenant.resume",
    "tenants.envelope.apply",
    "tenants.envelope.set",
    "tenants.projectquota.set",
    "tenants.burstrule.open",
    "tenants.caps.set",
    "tenants.cohort.change",
    "admission.policyrule.retire",
)
"""Events after which a request that waited for authority may be placed."""
ON = {
    "placement.allocation.finish": capacity_freed,
    "placement.allocation.activate": capacity_active,
    "placement.allocation.block": capacity_blocked,
    "placement.defragmentation.end": room_made,
    "placement.notice.give": notice_given,
    **dict.fromkeys(REASONS_END, authority_changed),
    "tenants.tenant.suspend": tenant_suspended,
    "tenants.tenant.begin_delete": tenant_deleting,
    "tenants.quota.drain": excess_due,
}

events.subscribe("placement", ON)
shelf.asked_of(stock_there_or_refuse)
