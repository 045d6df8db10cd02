"""What if a host still has the machine of an allocation that has ended?  It alone is released.

It can happen when a result came after its capacity had been given back without proof, or when a
host comes back with what it had. The report says so and the node takes nothing new meanwhile. The
order names that allocation with the devices it was given, is given a bounded number of times, and
no proof comes of it: there is no claim any more that it could end. Where another machine has one
of the devices, the host refuses. What was never ours is reported and never touched.
"""

from __future__ import annotations

from datetime import timedelta

from gpuaas.kernel import clock, events, ids
from gpuaas.kernel.actor import system
from placement.models import Allocation, NodeTask
from placement.states import TaskState

WATCH = system("watch")
RELEASE_S = 900


def orphan_order(row: Allocation, name: str) -> bool:
    """Order the release of the machine of an allocation that has ended; False when it is at work.

    How often is said by whoever asks (``domain.drift``).
    """
    ours = NodeTask.objects.filter(allocation=row)
    if ours.filter(state__in=[TaskState.PENDING, TaskState.LEASED]).exists():
        return False
    tries = ours.filter(kind__endswith="release", created_at__gt=row.released_at).count()
    given = ours.filter(kind__endswith="provision").order_by("created_at").first()
    if given is None:
        return False
    whole = row.slots == 0
    part = "devices" if whole else "slots"
    NodeTask.objects.create(
        id=ids.new_id(),
        node_id=row.node_id,
        kind="baremetal.release" if whole else "slice.vm_release",
        allocation=row,
        params={
            "allocation_id": str(row.pk),
            "attempt": row.attempt,
            part: given.params[part],
        },
        claim_attempt=row.attempt,
        deadline_at=clock.db_now() + timedelta(seconds=RELEASE_S),
    )
    events.record(
        kind="placement.allocation.orphan",
        subject=row,
        actor=WATCH,
        reason="machine_after_release",
        facts={"machine": name, "node": row.node.name, "try": tries + 1},
    )
    return True
