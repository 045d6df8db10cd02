"""Do replicas that wait, and that are told to go, follow what their workload is by now?"""

from __future__ import annotations

import pytest

from admission.models import AdmissionRequest
from gpuaas.kernel import outbox
from placement.models import Allocation, Claim, Node
from placement.services.allocations import allocation_release
from placement.services.queue import cycle_sweep
from placement.services.workloads import gpu_sharing, workload_placement, workload_scale
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import a_catalogue, a_host, a_tenant
from tests.placement.test_moves import Place
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)


def test_replicas_that_wait_go_where_their_workload_has_moved_meanwhile() -> None:
    place = Place()
    place.globex.order(slots=2, zones=("a",))
    more = workload_scale(workload_id=place.row.pk, replicas=8, wait=True, actor=place.acme.actor)
    assert more.request.code == "forbidden_by_locality"
    place.room()
    place.ask()
    place.settle()
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=more.request_id).state == "admitted"
    assert place.standing() == ["host-2"] * 8
    assert findings() == []


def test_replicas_that_wait_share_no_host_once_their_workload_may_not() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    row = the_workload(run_it(acme))
    held = [globex.order(slots=size).allocation_id for size in (5, 2)]
    host.work()
    more = workload_scale(workload_id=row.pk, replicas=2, wait=True, actor=acme.actor)
    assert more.request.state == "queued"
    gpu_sharing(workload_id=row.pk, mode="node", actor=acme.actor)
    for left, allocation in zip((["queued"], ["admitted"]), reversed(held), strict=True):
        assert allocation is not None
        allocation_release(allocation_id=allocation, reason="", actor=globex.actor)
        host.work()
        cycle_sweep()
        states = AdmissionRequest.objects.filter(pk=more.request_id)
        assert list(states.values_list("state", flat=True)) == left
    assert Claim.objects.get(allocation__request=more.request_id).alone == 2


def test_a_move_that_waits_keeps_its_own_zones_and_takes_the_sharing_of_now() -> None:
    place = Place()
    ticket = place.ask()
    gpu_sharing(workload_id=place.row.pk, mode="node", actor=place.acme.actor)
    place.room()
    request = AdmissionRequest.objects.get(pk=ticket.request_id)
    assert (request.state, request.spec["zones"]) == ("admitted", ["b"])
    assert Claim.objects.get(allocation__request=request).alone == 2
    place.settle()
    assert place.standing() == ["host-2"]


def test_scaling_down_to_what_stands_after_one_has_ended_releases_no_other() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    row = the_workload(run_it(acme, replicas=4))
    host.work()
    ended = row.allocations.order_by("pk").first()
    assert ended is not None
    allocation_release(allocation_id=ended.pk, reason="it is broken", actor=acme.actor)
    host.work()
    standing = Allocation.objects.filter(workload=row).exclude(state="released")
    workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor)
    host.work()
    outbox.sweep()
    assert standing.count() == 3
    workload_scale(workload_id=row.pk, replicas=4, actor=acme.actor)
    assert standing.count() == 4
    workload_scale(workload_id=row.pk, replicas=2, actor=acme.actor)
    host.work()
    assert standing.count() == 2
    assert findings() == []


def test_replicas_that_join_a_set_while_it_moves_stand_with_its_new_places() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    here, there = a_host("host-1"), a_host("host-2")
    for host, zone, rack in ((here, "b", "r2"), (there, "a", "r1")):
        Node.objects.filter(pk=host.node.pk).update(zone=zone, block="k", rack=rack)
    row = the_workload(run_it(acme, replicas=2, zones=("b",), together="rack"))
    here.work()
    Node.objects.filter(pk=here.node.pk).update(schedulable=False)
    workload_placement(workload_id=row.pk, zones=("a", "b"), actor=acme.actor)
    Node.objects.filter(pk=here.node.pk).update(schedulable=True)
    workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor)
    for _ in range(2):
        for host in (here, there):
            host.work()
        outbox.sweep()
    standing = Allocation.objects.filter(workload=row).exclude(state="released")
    assert [one.node.rack for one in standing] == ["r1"] * 3
    assert findings() == []
