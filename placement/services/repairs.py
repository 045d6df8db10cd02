"""How is one difference repaired?  Each by a service that exists for it, and by nothing more.

The node is locked and the difference was seen again under that lock. A repair that waits for
work under way returns False and costs no try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from gpuaas.kernel import events, workflow
from gpuaas.kernel.actor import system
from placement.domain.drift import (
    DISCOVER,
    END_UNMADE,
    FOLLOW_ADDRESS,
    HAND_OVER,
    REBIND,
    RELEASE_ORPHAN,
    WAKE_RUN,
)
from placement.models import Allocation, Claim, Drift, Node, NodeTask
from placement.services.cleanup import release_begin, release_block
from placement.services.nodes import discovery_order
from placement.services.orphans import orphan_order
from placement.states import LIVE, AllocationState, Outcome

PART = system("reconcile")


def _allocation(row: Drift) -> Allocation:
    assert row.allocation_id is not None
    return Allocation.objects.select_for_update(no_key=True).get(pk=row.allocation_id)


def _orphan(row: Drift, node: Node) -> bool:
    return orphan_order(_allocation(row), row.detail[:120])


def _discover(row: Drift, node: Node) -> bool:
    discovery_order(node)
    return True


def _machine(row: Drift, node: Node) -> Mapping[str, object]:
    """What the last report says of the allocation's machine."""
    said = (one for one in node.observed["vms"] if one.get("claim_ref") == str(row.allocation_id))
    return next(said)


def _follow(row: Drift, node: Node) -> bool:
    """Show the tenant the address at which its machine answers now."""
    allocation, address = _allocation(row), _machine(row, node).get("address")
    if not isinstance(address, dict) or allocation.connection is None:
        return True
    before = allocation.connection
    host, port, user = address["host"], address["port"], address["user"]
    command = f"ssh -p {port} {user}@{host}"
    allocation.connection = {**before, **address, "command": command}
    allocation.version += 1
    allocation.save(update_fields=["connection", "version"])
    events.record(
        kind="placement.allocation.address",
        subject=allocation,
        actor=PART,
        before={"host": before.get("host"), "port": before.get("port")},
        after={"host": host, "port": port},
        reason=row.code,
    )
    return True


def _rebind(row: Drift, node: Node) -> bool:
    """Bind the claims to the boot in which their machine was seen to run."""
    allocation = _allocation(row)
    claims = Claim.objects.filter(allocation=allocation, state__in=LIVE)
    boots = sorted(set(claims.values_list("boot_id", flat=True)))
    claims.update(boot_id=node.boot_id)
    events.record(
        kind="placement.allocation.rebound",
        subject=allocation,
        actor=PART,
        reason=row.code,
        facts={"boots": boots, "boot_id": node.boot_id},
    )
    return True


def _wake(row: Drift, node: Node) -> bool:
    task = NodeTask.objects.get(pk=UUID(row.subject.removeprefix("task:")))
    if task.run_id is not None:
        workflow.signal(task.run_id)
    return True


def _end_unmade(row: Drift, node: Node) -> bool:
    allocation = _allocation(row)
    if allocation.state not in (AllocationState.PLACED, AllocationState.PROVISIONING):
        return False
    release_begin(
        allocation_id=allocation.pk,
        outcome=Outcome.FAILED,
        code="provision_failed",
        detail="nothing was at work on it any more",
        actor=PART,
    )
    return True


def _hand_over(row: Drift, node: Node) -> bool:
    allocation = _allocation(row)
    if allocation.state != AllocationState.RELEASING:
        return False
    said = "nothing was at work on its release any more; retry the cleanup"
    release_block(allocation_id=allocation.pk, detail=said, actor=PART)
    return True


REPAIRS: Final[Mapping[str, Callable[[Drift, Node], bool]]] = {
    RELEASE_ORPHAN: _orphan,
    DISCOVER: _discover,
    FOLLOW_ADDRESS: _follow,
    REBIND: _rebind,
    WAKE_RUN: _wake,
    END_UNMADE: _end_unmade,
    HAND_OVER: _hand_over,
}
"""By the names of ``domain.drift``."""
