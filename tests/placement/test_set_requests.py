"""Does a tenant's set come as close as it asks, and is it told how close, or why not?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from admission.models import AdmissionRequest, Decision
from gpuaas.kernel import clock
from gpuaas.kernel.errors import InvalidRequest, ProductError
from placement.domain.order import AllocationOrder
from placement.domain.sets import Closeness, beside, closest
from placement.models import Allocation, Node
from placement.selectors import request_explain
from placement.services.allocations import Plan, Ticket, allocation_plan
from placement.services.terms import terms_set
from placement.services.workload_changes import change_plan, scale_change
from placement.services.workloads import WorkloadOrder, workload_plan, workload_scale
from tenants.services.datasets import dataset_declare
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def racks(*names: str) -> TenantWorld:
    """A host of eight slots in each rack named, and a tenant."""
    a_catalogue()
    for k, rack in enumerate(names):
        a_host(f"host-{k}")
        Node.objects.filter(name=f"host-{k}").update(zone="z", block="b", rack=rack)
    return a_tenant("acme")


def where() -> list[tuple[str, str]]:
    """Rack and host of each live allocation."""
    rows = Allocation.objects.exclude(state="released").order_by("node__name")
    return list(rows.values_list("node__rack", "node__name"))


def refusal(world: TenantWorld, **wishes: Any) -> ProductError:
    """The error that a workload meets."""
    with pytest.raises(ProductError) as refused:
        run_it(world, **wishes)
    return refused.value


def plan_for(world: TenantWorld, **wishes: Any) -> Plan:
    """What a workload would meet."""
    order = WorkloadOrder(**{"kind": "job", "name": "", "sku": "h100.slice", "slots": 1, **wishes})
    return workload_plan(
        tenant_id=world.tenant.pk, project_id=world.project.pk, order=order, actor=world.actor
    )


def racks_of(ticket: Ticket) -> list[str]:
    """The rack of each allocation of a ticket's workload."""
    mine = Allocation.objects.filter(workload=the_workload(ticket))
    return sorted(mine.values_list("node__rack", flat=True))


def test_a_set_that_must_be_together_is_within_one_rack_and_its_decision_says_so() -> None:
    acme = racks("r1", "r2", "r2", "r3", "r3", "r3")
    ticket = run_it(acme, replicas=3, slots=4, together="rack")
    assert {rack for rack, _ in where()} == {"r2"}
    told = request_explain(ticket.request_id, operator=True)
    facts = told["gates"][-1]["facts"]
    assert (facts["level_met"], facts["members"], facts["nodes"]) == ("rack", 3, 2)
    assert [one["rank"] for one in told["compared"]] == ["chosen", "second"]
    assert "zone z, block b, rack r2" in told["compared"][0]["words"]
    assert "rack r3" in told["compared"][1]["words"]


def test_a_tenant_reads_how_close_its_set_came_and_no_name_of_a_rack_or_host() -> None:
    acme = racks("r1", "r1")
    ticket = run_it(acme, replicas=4, slots=4, together="rack", close="fabric")
    told = request_explain(ticket.request_id)
    assert told["compared"][0]["words"] == (
        "4 members on 2 nodes, within one rack; asked: together rack, close fabric"
    )
    assert "r1" not in str({**told, "digest": ""}).replace("gpu", "")
    assert "host-" not in str(told)


def test_a_set_with_room_elsewhere_is_refused_for_its_place_with_the_counts_by_part() -> None:
    acme = racks("r1", "r2", "r2", "r3")
    error = refusal(acme, replicas=5, slots=4, together="rack")
    assert error.code == "forbidden_by_locality"
    assert error.facts["replicas_fitting"] == 4
    assert error.facts["free_anywhere_for"] == 8
    assert (error.facts["parts"], error.facts["parts_by_members"]) == (3, {"4": 1, "2": 2})
    assert "1 for 4, 2 for 2" in error.detail
    assert Decision.objects.get().code == "forbidden_by_locality"
    assert not Allocation.objects.exists()


def test_a_set_without_room_anywhere_is_refused_for_capacity() -> None:
    acme = racks("r1", "r2")
    error = refusal(acme, replicas=5, slots=4, together="zone")
    assert (error.code, error.facts["replicas_fitting"]) == ("sku_unavailable", 4)
    assert error.facts["free_anywhere_for"] == 4


@pytest.mark.parametrize("how", [{}, {"together": "rack"}, {"close": "rack"}, {"apart": True}])
def test_a_set_that_a_promise_to_others_keeps_out_is_told_that_and_not_its_own_members(
    how: dict[str, Any],
) -> None:
    acme, globex = racks("r1", "r1", "r2"), a_tenant("globex")
    for _ in range(3):
        globex.order(slots=1, own="apart")
    terms_set(noun="sku", name="h100.slice", alone="wiring", reason="test", actor=OPERATOR)
    error = refusal(acme, replicas=2, **how)
    assert error.code == "forbidden_by_topology"
    assert error.facts["removed"] == {"wiring_isolation": 3}
    assert error.facts["replicas_fitting"] == 0
    assert error.facts.get("free_anywhere_for", 0) == 0


def test_a_refusal_for_closeness_counts_only_room_that_no_promise_closes() -> None:
    acme, globex = racks("r1", "r1", "r2", "r3"), a_tenant("globex")
    globex.order(slots=1)
    globex.order(slots=1, own="apart")
    terms_set(noun="sku", name="h100.slice", alone="wiring", reason="test", actor=OPERATOR)
    assert set(Allocation.objects.values_list("node__rack", flat=True)) == {"r1"}
    error = refusal(acme, replicas=3, slots=4, together="rack")
    assert error.code == "forbidden_by_locality"
    assert error.facts["free_anywhere_for"] == 4
    assert (error.facts["parts"], error.facts["parts_by_members"]) == (2, {"2": 2})


def test_members_apart_are_each_on_a_node_of_their_own() -> None:
    acme = racks("r1", "r1", "r2")
    run_it(acme, replicas=3, slots=1, apart=True)
    assert len(set(where())) == 3
    error = refusal(acme, name="more", replicas=4, slots=1, apart=True)
    assert (error.code, error.facts["replicas_fitting"]) == ("sku_unavailable", 3)


def test_a_set_that_grows_stays_where_it_is() -> None:
    acme = racks("r1", "r2", "r2", "r3", "r3", "r3")
    row = the_workload(run_it(acme, replicas=3, slots=4, together="rack"))
    workload_scale(workload_id=row.pk, replicas=4, actor=acme.actor)
    assert {rack for rack, _ in where()} == {"r2"}
    with pytest.raises(ProductError) as refused:
        workload_scale(workload_id=row.pk, replicas=6, actor=acme.actor)
    assert refused.value.code == "forbidden_by_locality"
    assert "where the others are" in refused.value.detail


def test_a_set_that_grows_apart_takes_hosts_that_it_has_not() -> None:
    acme = racks("r1", "r1", "r2")
    row = the_workload(run_it(acme, replicas=2, slots=1, apart=True))
    workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor)
    assert len({host for _, host in where()}) == 3
    with pytest.raises(ProductError):
        workload_scale(workload_id=row.pk, replicas=4, actor=acme.actor)


def test_a_plan_says_the_level_that_would_be_met() -> None:
    acme = racks("r1", "r1")
    order = WorkloadOrder(
        kind="job", name="", sku="h100.slice", slots=4, replicas=3, together="block", close="rack"
    )
    plan = workload_plan(
        tenant_id=acme.tenant.pk, project_id=acme.project.pk, order=order, actor=acme.actor
    )
    assert plan.fits
    assert plan.gates[-1]["facts"]["level_met"] == "rack"
    assert "part" not in plan.gates[-1]["facts"]


def test_what_is_bound_to_the_tenants_own_goes_only_there_or_only_elsewhere() -> None:
    acme = racks("r1", "r2")
    acme.order(slots=1)
    (first,) = where()
    acme.order(slots=1, own="with")
    assert where() == [first, first]
    acme.order(slots=1, own="apart")
    assert len(set(where())) == 2
    with pytest.raises(ProductError) as refused:
        acme.order(slots=1, own="apart")
    assert refused.value.facts["removed"] == {"tenant_affinity": 2}


def test_a_wish_that_the_terms_forbid_is_refused_by_its_name() -> None:
    acme = racks("r1")
    terms_set(noun="sku", name="h100.slice", own="apart", reason="test", actor=OPERATOR)
    for own, code in (("with", "not_allowed"), ("beside", "unknown")):
        with pytest.raises(InvalidRequest) as refused:
            acme.order(slots=1, own=own)
        assert [(e.pointer, e.code) for e in refused.value.errors] == [("/own", code)]
    error = refusal(acme, replicas=2, together="row")
    assert [(e.pointer, e.code) for e in error.errors] == [("/together", "unknown")]


def test_a_set_that_waits_keeps_its_wishes() -> None:
    acme = racks("r1", "r1")
    blocker = acme.order("h100.node")
    ticket = run_it(acme, replicas=4, slots=4, together="rack", wait=True)
    assert ticket.allocation_id is None
    spec = AdmissionRequest.objects.get(pk=ticket.request_id).spec
    assert spec["together"] == "rack"
    assert blocker.allocation_id is not None


@pytest.mark.parametrize(
    "how",
    [
        {"replicas": 2, "together": "rack"},
        {"replicas": 2, "close": "rack"},
        {"replicas": 2, "apart": True},
        {"replicas": 1, "close": "zone"},
        {"replicas": 2},
        {"replicas": 1},
    ],
)
def test_a_pool_for_others_takes_no_set_however_it_has_to_stand(how: dict[str, Any]) -> None:
    acme, globex = racks("r1", "r1"), a_tenant("globex")
    theirs = [globex.tenant.pk]
    terms_set(noun="pool", name="default", tenants=theirs, reason="sold", actor=OPERATOR)
    planned = plan_for(acme, **how)
    assert (planned.fits, planned.code) == (False, "pool_dedicated")
    assert refusal(acme, **how).code == "pool_dedicated"
    assert not Allocation.objects.exists()
    run_it(globex, **how)


@pytest.mark.parametrize("how", [{"together": "rack"}, {"close": "rack"}, {"apart": True}])
def test_a_set_goes_near_preferred_data_while_there_is_room_and_says_so(
    how: dict[str, Any],
) -> None:
    acme = racks("r1", "r1", "r2", "r2")
    Node.objects.filter(rack="r2").update(zone="y")
    dataset_declare(
        tenant_id=acme.tenant.pk, name="corpus", zones=["y"], required=False, actor=acme.actor
    )
    acme.order(slots=4, zones=("z",))  # Without the wish, what is fullest would be taken first.
    near_it = run_it(acme, replicas=2, slots=3, datasets=("corpus",), **how)
    assert racks_of(near_it) == ["r2", "r2"]
    told = request_explain(near_it.request_id)
    assert told["gates"][-1]["facts"]["preferred_met"] == ["corpus"]
    assert "near corpus" in told["compared"][0]["words"]
    Node.objects.filter(rack="r2").update(schedulable=False)
    far = run_it(acme, name="far", replicas=2, slots=1, datasets=("corpus",), **how)
    assert racks_of(far) == ["r1", "r1"]
    told = request_explain(far.request_id)
    assert told["gates"][-1]["facts"]["preferred_met"] == []
    assert "near no preferred data" in told["compared"][0]["words"]


def test_a_plan_for_one_more_says_that_the_others_rack_is_full() -> None:
    acme = racks("r1", "r2")
    row = the_workload(run_it(acme, replicas=2, slots=4, together="rack"))
    change = scale_change(workload_id=row.pk, replicas=3, actor=acme.actor)
    planned = change_plan(change, actor=acme.actor).plan
    assert (planned.fits, planned.code) == (False, "forbidden_by_locality")
    with pytest.raises(ProductError) as refused:
        workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor)
    assert refused.value.code == planned.code


def test_a_set_that_grows_as_far_as_it_can_takes_what_its_rack_holds() -> None:
    acme = racks("r1", "r2", "r2", "r3")
    row = the_workload(run_it(acme, replicas=2, slots=3, together="rack"))
    assert {rack for rack, _ in where()} == {"r1"}
    Node.objects.filter(rack="r3").update(rack="r1")
    workload_scale(workload_id=row.pk, replicas=9, actor=acme.actor, partial=True)
    assert [rack for rack, _ in where()] == ["r1"] * 4


def test_a_plan_for_one_counts_who_waits_as_the_order_does() -> None:
    acme = racks("r1")
    acme.order(slots=4)
    acme.order("h100.node", wait=True)
    AdmissionRequest.objects.filter(state="queued").update(
        queued_at=clock.db_now() - timedelta(hours=1)
    )
    planned = plan_for(acme, replicas=1)
    alone = allocation_plan(
        tenant_id=acme.tenant.pk,
        project_id=acme.project.pk,
        order=AllocationOrder(sku="h100.slice", slots=1),
        actor=acme.actor,
    )
    with pytest.raises(ProductError) as refused:
        acme.order(slots=1)
    assert (planned.code, alone.code) == (refused.value.code, refused.value.code)
    assert alone.detail == refused.value.detail
    assert "waited longer" in alone.detail


def test_the_closest_level_is_that_of_the_smallest_part_known_of_all() -> None:
    here, beside_it = ("z", "b", "r", "f"), ("z", "b", "r", "")
    assert closest([here]) == ("fabric", ("", "", "", "f"))
    assert closest([here, beside_it]) == ("rack", ("z", "b", "r", ""))
    assert closest([here, ("z", "c", "r", "")]) == ("zone", ("z", "", "", ""))
    assert closest([here, ("", "", "", "")]) == ("", None)
    close = beside(Closeness("rack", apart=True), [(3, here), (4, beside_it)])
    assert (close.within, close.avoid) == (("z", "b", "r", ""), frozenset({3, 4}))
