"""Does the plan of a drain say what then really happens?"""

from __future__ import annotations

import pytest

from gpuaas.kernel import outbox
from gpuaas.kernel.errors import InvalidRequest
from placement.domain.leaving import in_words
from placement.errors import NotMovable
from placement.models import Allocation, Claim, Node, NodeDrain, Notice
from placement.services import nodes
from placement.services.drain_plan import drain_moves, drain_plan
from tests.admission.test_workloads import run_it, the_workload, used
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_plan_names_each_fate_and_the_moves_go_where_it_said() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=32)
    here = a_host("n1")
    movable = [the_workload(run_it(acme, replicas=1, name=f"job-{k}", slots=2)) for k in range(2)]
    for row in movable:
        row.spec = {**row.spec, "movable": True}
        row.save(update_fields=["spec"])
    stays = acme.order(slots=3)
    ends = acme.order(max_duration_s=3600)
    hosts = [here, a_host("n2", slots_count=8), a_host("n3")]
    for host in hosts:
        host.work()
    counted = Claim.objects.count(), Node.objects.get(name="n2").generation
    plan = drain_plan(node_id=here.node.pk, actor=OPERATOR)
    assert (Claim.objects.count(), Node.objects.get(name="n2").generation) == counted
    by_name = {one.name: one for one in plan.leaving}
    assert plan.counts() == {"ends": 1, "moves": 2, "stays": 1, "no_room": 0}
    assert "1 going by itself, 2 that may be moved, 1 staying" in in_words(plan)
    assert by_name[Allocation.objects.get(request_id=ends.request_id).name].ends_at is not None
    foreseen = {one.name: one.to for one in plan.leaving if one.fate == "moves"}
    assert set(foreseen.values()) <= {"n2", "n3"}

    with pytest.raises(NotMovable):
        drain_moves(node_id=here.node.pk, reason="too early", actor=OPERATOR)
    nodes.node_drain(node_id=here.node.pk, reason="fan", actor=OPERATOR)
    moved = drain_moves(node_id=here.node.pk, reason="fan", actor=OPERATOR)
    assert [one.code for one in moved] == ["", ""]
    came = {
        row.workload.name: row.node.name
        for row in Allocation.objects.filter(state="placed").select_related("workload", "node")
        if row.workload is not None
    }
    assert came == {
        Allocation.objects.get(name=name).workload.name: to  # type: ignore[union-attr]  # has one
        for name, to in foreseen.items()
    }
    for _ in range(3):
        for host in hosts:
            host.work()
        outbox.sweep()
    left = Allocation.objects.filter(node=here.node, state="active").values_list("pk", flat=True)
    assert set(left) == {stays.allocation_id, ends.allocation_id}
    again = drain_plan(node_id=here.node.pk, actor=OPERATOR)
    assert again.counts()["moves"] == 0


def test_a_set_moves_as_a_whole_and_the_plan_names_hosts_that_hold_all_of_it() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=64)
    hosts = [a_host(f"n{k}") for k in range(5)]
    for host, rack in zip(hosts, ("r1", "r1", "r2", "r3", "r3"), strict=True):
        Node.objects.filter(pk=host.node.pk).update(zone="z", block="b", rack=rack)
    row = the_workload(run_it(acme, replicas=4, slots=4, together="rack", movable=True))
    for host in hosts:
        host.work()
    node = Allocation.objects.filter(workload=row).order_by("node__num")[0].node
    own_rack = set(Node.objects.filter(rack=node.rack).values_list("name", flat=True))
    plan = drain_plan(node_id=node.pk, actor=OPERATOR)
    foreseen = [one.to for one in plan.leaving if one.fate == "moves"]
    assert [one.code for one in plan.leaving] == ["", ""]
    nodes.node_drain(node_id=node.pk, reason="fan", actor=OPERATOR)
    assert [one.code for one in drain_moves(node_id=node.pk, reason="fan", actor=OPERATOR)] == [""]
    came = Allocation.objects.filter(workload=row, state="placed").values_list("node__name")
    assert len(came) == 4
    assert set(foreseen) <= {name for (name,) in came}
    assert not set(foreseen) & own_rack


def test_a_set_for_which_no_rack_is_left_is_told_as_its_move_would_be() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=64)
    hosts = [a_host(f"n{k}") for k in range(4)]
    for host, rack in zip(hosts, ("r1", "r1", "r2", "r3"), strict=True):
        Node.objects.filter(pk=host.node.pk).update(zone="z", block="b", rack=rack)
    row = the_workload(run_it(acme, replicas=4, slots=4, together="rack", movable=True))
    for host in hosts:
        host.work()
    node = Allocation.objects.filter(workload=row)[0].node
    planned = {one.code for one in drain_plan(node_id=node.pk, actor=OPERATOR).leaving}
    nodes.node_drain(node_id=node.pk, reason="fan", actor=OPERATOR)
    [moved] = drain_moves(node_id=node.pk, reason="fan", actor=OPERATOR)
    assert planned == {moved.code} == {"forbidden_by_locality"}


def test_one_that_is_on_its_way_out_already_takes_no_place_of_its_own() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=64)
    here = a_host("n1")
    row = the_workload(run_it(acme, replicas=2, slots=2, movable=True))
    here.work()
    a_host("n2")
    going = Allocation.objects.filter(workload=row).order_by("-created_at", "-pk")[0]
    Allocation.objects.filter(pk=going.pk).update(state="preempting")
    plan = drain_plan(node_id=here.node.pk, actor=OPERATOR)
    assert [(one.fate, one.to, one.code) for one in plan.leaving] == [("moves", "n2", "")] * 2


def test_moving_off_a_node_twice_moves_once_but_what_came_there_meanwhile() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=64)
    here = a_host("n1")
    row = the_workload(run_it(acme, replicas=2, slots=2, movable=True))
    here.work()
    there, last = a_host("n2"), a_host("n3", slots_count=8)
    nodes.node_drain(node_id=here.node.pk, reason="fan", actor=OPERATOR)
    first = drain_moves(node_id=here.node.pk, reason="fan", actor=OPERATOR)
    assert drain_moves(node_id=here.node.pk, reason="fan", actor=OPERATOR) == first
    assert used(acme) == 8000, "the old places and the new ones, once"
    came = Allocation.objects.filter(workload=row, state="placed")
    assert {one.node_id for one in came} == {there.node.pk}
    nodes.node_drain(node_id=there.node.pk, reason="fan", actor=OPERATOR)
    [second] = drain_moves(node_id=there.node.pk, reason="fan", actor=OPERATOR)
    assert second.request_id not in (None, first[0].request_id)
    for _ in range(3):
        for host in (here, there, last):
            host.work()
        outbox.sweep()
    standing = Allocation.objects.filter(workload=row).exclude(state="released")
    assert {one.node_id for one in standing} == {last.node.pk}
    assert used(acme) == 4000


def test_what_fits_nowhere_says_why_with_code_and_numbers() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=10)
    here = a_host("n1")
    acme.order(slots=8)
    plan = drain_plan(node_id=here.node.pk, actor=OPERATOR)
    assert plan.leaving[0].code == "envelope_exceeded"
    other = a_tenant("globex", envelope_slots=64)
    a_host("n2")
    other.order(slots=6)
    second = Allocation.objects.get(tenant=other.tenant)
    plan = drain_plan(node_id=second.node_id, actor=OPERATOR)
    assert plan.leaving[0].code == "sku_unavailable"
    assert plan.leaving[0].facts["removed"]
    assert plan.counts()["no_room"] == 1


def test_a_drain_tells_the_tenants_on_the_node_or_slot_once_and_its_end_too() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    here = a_host("n1")
    acme.order(slots=1)
    globex.order(slots=1)
    index = Claim.objects.get(tenant=globex.tenant).slot_index
    for _ in range(2):
        nodes.node_drain(node_id=here.node.pk, reason="fan 3", actor=OPERATOR, slot_index=index)
    assert [n.tenant for n in Notice.objects.all()] == [globex.tenant]
    nodes.node_drain(node_id=here.node.pk, reason="fan 3", actor=OPERATOR)
    assert Notice.objects.filter(kind="drain").count() == 3
    for _ in range(2):
        nodes.node_undrain(node_id=here.node.pk, reason="done", actor=OPERATOR)
    assert Notice.objects.filter(kind="drain_over").count() == 2
    words = " ".join(Notice.objects.values_list("text", flat=True))
    assert "n1" not in words
    assert "fan 3" not in words


@pytest.mark.parametrize("index", [-1, 8, 61, 40_000])
def test_a_slot_that_the_host_has_not_is_not_drained(index: int) -> None:
    a_catalogue()
    here = a_host("n1")
    with pytest.raises(InvalidRequest) as refused:
        nodes.node_drain(node_id=here.node.pk, reason="fan", actor=OPERATOR, slot_index=index)
    assert refused.value.errors[0].pointer == "/slot_index"
    assert "n1 has 0, 1, 2" in refused.value.detail
    assert not NodeDrain.objects.exists()
