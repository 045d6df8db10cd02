"""Is a machine that outlived its allocation seen, and it alone released, a few times at most?"""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from gpuaas.kernel import clock
from gpuaas.kernel.models import Event
from nodeagent.protocol import FailRequest, ObservedDevices, ObservedReport, ObservedVm, VmState
from placement.domain.drift import KINDS
from placement.models import Allocation, CleanupProof, Drift, NodeTask
from placement.services import observed, tasks
from placement.services.allocations import allocation_release
from placement.services.drift import drift_reconcile
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def sees(host: Host, *claims: str) -> None:
    """The host reports machines of these claims."""
    host.seq += 1
    vms = tuple(
        ObservedVm(claim, f"gpuaas-{number}", VmState.RUNNING, (number,))
        for number, claim in enumerate(claims)
    )
    report = ObservedReport(host.boot, host.seq, 0, vms, ObservedDevices(), ())
    observed.node_observed(node=host.fresh(), message=report)
    drift_reconcile(node_ids=[host.node.pk])


def ended(world: TenantWorld, host: Host, ago_s: int = 120) -> Allocation:
    """An allocation that was leased, used and released with proof, some time ago."""
    ticket = world.order(slots=1)
    host.work()
    assert ticket.allocation is not None
    allocation_release(allocation_id=ticket.allocation.pk, reason="", actor=world.actor)
    host.work()
    long_ago = clock.db_now() - timedelta(seconds=ago_s)
    Allocation.objects.filter(pk=ticket.allocation.pk).update(released_at=long_ago)
    NodeTask.objects.filter(allocation=ticket.allocation).update(
        created_at=long_ago - timedelta(seconds=60)
    )
    row = Allocation.objects.get(pk=ticket.allocation.pk)
    assert row.state == "released"
    return row


@pytest.fixture
def host() -> Host:
    """A host."""
    a_catalogue()
    return a_host()


def test_the_machine_of_an_ended_allocation_is_released_and_no_other(host: Host) -> None:
    acme = a_tenant("acme")
    gone = ended(acme, host)
    living = acme.order(slots=1).allocation
    assert living is not None
    host.work()
    proofs = CleanupProof.objects.count()
    sees(host, str(gone.pk), str(living.pk), str(uuid4()), "not-a-uuid-at-all")
    said = host.fresh().conditions
    assert {c["code"] for c in said} == {"unknown_vm"}
    # Each blocks the slots that it bears the name of, and nothing else.
    assert sorted(c["slots"] for c in said) == [[0], [2], [3]]
    assert host.fresh().schedulable
    (task,) = host.lease()
    given = NodeTask.objects.get(allocation=gone, kind="slice.vm_provision")
    assert (task.kind, task.allocation_id) == ("slice.vm_release", gone.pk)
    assert task.params["slots"] == given.params["slots"]
    sees(host, str(gone.pk), str(living.pk))
    assert NodeTask.objects.filter(state__in=["pending", "leased"]).count() == 1
    host.complete(task)
    assert CleanupProof.objects.count() == proofs
    assert Allocation.objects.get(pk=living.pk).state == "active"
    sees(host, str(living.pk))
    assert host.fresh().conditions == []
    event = Event.objects.get(kind="placement.allocation.orphan")
    assert event.facts["try"] == 1


def test_an_orphan_that_does_not_go_is_not_asked_about_for_ever(host: Host) -> None:
    gone = ended(a_tenant("acme"), host)
    most = KINDS["released_but_present"].most
    for _ in range(most + 3):
        Drift.objects.update(next_try_at=clock.db_now())
        sees(host, str(gone.pk))
        for task in host.lease():
            answer = FailRequest(task.lease_epoch, host.boot, "device_in_use", "", retryable=False)
            tasks.task_fail(node=host.fresh(), task_id=task.pk, message=answer)
    orders = Event.objects.filter(kind="placement.allocation.orphan")
    assert orders.count() == most
    assert Drift.objects.get(kind="released_but_present").state == "escalated"
    assert {c["code"] for c in host.fresh().conditions} == {"unknown_vm"}


def test_a_report_that_crossed_the_release_orders_nothing(host: Host) -> None:
    gone = ended(a_tenant("acme"), host, ago_s=5)
    sees(host, str(gone.pk))
    assert host.lease() == []


def test_another_hosts_allocation_is_not_released_here(host: Host) -> None:
    gone = ended(a_tenant("acme"), host)
    other = a_host("host-2")
    sees(other, str(gone.pk))
    assert other.lease() == []
    assert {c["code"] for c in other.fresh().conditions} == {"unknown_vm"}
