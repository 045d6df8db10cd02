"""Does every action on a workload pass the gates, leave its record, and take all or nothing?"""

from __future__ import annotations

from typing import Any

import pytest

from admission.errors import (
    ForbiddenByLocality,
    MemoryExceeded,
    MemoryUnknown,
    SharingNotEligible,
)
from admission.models import AdmissionRequest, Decision, Workload
from gpuaas.kernel import outbox
from gpuaas.kernel.errors import InvalidRequest
from gpuaas.kernel.scope import tenant_scope
from placement.errors import SkuUnavailable
from placement.models import Allocation, Claim, Node
from placement.services.allocations import Ticket, allocation_release
from placement.services.queue import cycle_sweep
from placement.services.workloads import (
    WorkloadOrder,
    gpu_sharing,
    workload_batch_size,
    workload_create,
    workload_placement,
    workload_priority,
    workload_scale,
    workload_stop,
)
from tenants.errors import BandNotAllowed, EnvelopeExceeded
from tenants.models import QuotaCounter
from tenants.services.tenancy import envelope_set, tenant_resume, tenant_suspend
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {
    "parameters": 8_000_000_000,
    "milli_bytes_per_parameter": 2000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "kv_bytes": 2,
    "context_tokens": 8192,
}


def run_it(world: TenantWorld, **wishes: Any) -> Ticket:
    """Ask for a workload in the tenant's own scope; a refusal raises."""
    order = WorkloadOrder(
        **{"kind": "service", "name": "web", "sku": "h100.slice", "slots": 1, **wishes}
    )
    with tenant_scope(world.tenant.pk):
        return workload_create(
            tenant_id=world.tenant.pk, project_id=world.project.pk, order=order, actor=world.actor
        )


def the_workload(ticket: Ticket) -> Workload:
    """The workload that a ticket is about."""
    assert ticket.workload_id is not None
    return Workload.objects.get(pk=ticket.workload_id)


def used(world: TenantWorld) -> int:
    """What the tenant holds, in milli-units."""
    return QuotaCounter.objects.get(tenant=world.tenant).used_milli


def test_a_service_gets_all_its_replicas_in_one_request_over_two_hosts() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    hosts = [a_host("host-1"), a_host("host-2")]
    ticket = run_it(acme, replicas=3, slots=4)
    row = the_workload(ticket)
    assert (row.state, row.replicas) == ("admitted", 3)
    assert row.allocations.count() == 3
    assert {a.node_id for a in row.allocations.all()} == {h.node.pk for h in hosts}
    request = AdmissionRequest.objects.get()
    assert (request.action, request.replicas, request.amount_milli) == ("service.create", 3, 12000)
    assert Decision.objects.get().facts["request"]["replicas"] == 3
    assert used(acme) == 12000
    for host in hosts:
        host.work()
    assert set(row.allocations.values_list("state", flat=True)) == {"active"}


def test_a_job_that_does_not_fit_as_a_whole_takes_nothing_and_says_how_much_would_fit() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    with pytest.raises(SkuUnavailable) as refused:
        run_it(acme, kind="job", replicas=3, slots=4)
    assert (refused.value.facts["replicas"], refused.value.facts["replicas_fitting"]) == (3, 2)
    assert (Allocation.objects.count(), Claim.objects.count(), used(acme)) == (0, 0, 0)
    assert Workload.objects.count() == 0
    assert AdmissionRequest.objects.get().state == "denied"
    with pytest.raises(EnvelopeExceeded):
        run_it(acme, kind="job", replicas=40, slots=2)
    assert used(acme) == 0


def test_a_job_that_waits_starts_as_a_whole_when_there_is_room() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    ticket = run_it(acme, kind="job", replicas=3, slots=4, wait=True)
    assert ticket.allocation is None
    row = the_workload(ticket)
    assert row.state == "submitted"
    a_host("host-2")
    cycle_sweep()
    row.refresh_from_db()
    assert (row.state, row.allocations.count(), used(acme)) == ("admitted", 3, 12000)


def test_scaling_up_is_admitted_together_or_in_part_and_down_releases_the_newest() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    row = the_workload(run_it(acme, replicas=1, slots=2))
    with pytest.raises(SkuUnavailable):
        workload_scale(workload_id=row.pk, replicas=6, actor=acme.actor)
    assert used(acme) == 2000
    workload_scale(workload_id=row.pk, replicas=6, partial=True, actor=acme.actor)
    row.refresh_from_db()
    assert (row.replicas, row.generation, used(acme)) == (4, 2, 8000)
    host.work()
    first = row.allocations.order_by("created_at").first()
    workload_scale(workload_id=row.pk, replicas=1, actor=acme.actor)
    host.work()
    row.refresh_from_db()
    assert (row.replicas, used(acme)) == (1, 2000)
    assert [a.pk for a in row.allocations.filter(state="active")] == [first.pk if first else None]


def test_stopping_releases_everything_and_ends_with_the_last_proof() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    row = the_workload(run_it(acme, replicas=2))
    host.work()
    assert workload_stop(workload_id=row.pk, reason="done", actor=acme.actor).state == "stopping"
    host.work()
    outbox.sweep()
    row.refresh_from_db()
    assert (row.state, row.outcome, used(acme)) == ("ended", "ended", 0)


def test_a_model_is_measured_against_the_memory_of_its_gpus() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    ticket = run_it(acme, kind="model", batch_size=32, spec={"model": SMALL})
    [gate] = [g for g in ticket.decision.gates if g["gate"] == "sharing"]
    assert gate["facts"]["weights_bytes"] == 16_000_000_000
    assert gate["facts"]["kv_cache_bytes"] == 32 * 8192 * 2 * 32 * 8 * 128 * 2
    largest = gate["facts"]["largest_batch"]
    assert ticket.workload_id is not None
    with pytest.raises(MemoryExceeded) as refused:
        workload_batch_size(
            workload_id=ticket.workload_id, batch_size=largest + 1, actor=acme.actor
        )
    assert refused.value.facts["largest_batch"] == largest
    workload_batch_size(workload_id=ticket.workload_id, batch_size=largest, actor=acme.actor)
    row = the_workload(ticket)
    assert (row.batch_size, row.generation) == (largest, 2)
    with pytest.raises(MemoryUnknown) as unknown:
        run_it(acme, kind="model", spec={"model": {"parameters": 10**9}})
    assert unknown.value.facts["missing"][0] == "milli_bytes_per_parameter"
    for odd, pointer in (
        ({"paramters": 1}, "/spec/model/paramters"),
        ({"parameters": -1}, "/spec/model/parameters"),
        ("8B", "/spec/model"),
    ):
        with pytest.raises(InvalidRequest) as refused_form:
            run_it(acme, kind="model", spec={"model": odd})
        assert [error.pointer for error in refused_form.value.errors] == [pointer]
    assert used(acme) == 1000


def test_sharing_is_refused_where_the_tier_promises_more() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    row = the_workload(run_it(acme))
    with pytest.raises(SharingNotEligible):
        gpu_sharing(workload_id=row.pk, mode="shared", actor=acme.actor)
    ticket = gpu_sharing(workload_id=row.pk, mode="none", actor=acme.actor)
    row.refresh_from_db()
    assert row.spec["sharing"] == "none"
    assert ticket.request.action == "gpu.sharing"


def test_priority_stays_within_the_band_of_the_tier_and_reorders_what_waits() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    acme.order("h100.node")
    first = run_it(acme, name="first", slots=8, wait=True)
    second = run_it(acme, name="second", slots=8, wait=True)
    assert first.workload_id is not None
    with pytest.raises(BandNotAllowed):
        workload_priority(workload_id=first.workload_id, band=0, actor=acme.actor)
    workload_priority(workload_id=first.workload_id, band=5, actor=acme.actor)
    assert first.request.band == 5
    host.work()
    [old] = acme.tenant.allocations.all()
    allocation_release(allocation_id=old.pk, reason="", actor=acme.actor)
    host.work()
    cycle_sweep()
    states = [the_workload(t).state for t in (first, second)]
    assert states == ["submitted", "admitted"]


def test_a_workload_moves_only_after_the_new_place_works() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    here, there = a_host("host-1"), a_host("host-2")
    Node.objects.filter(name="host-1").update(zone="a")
    Node.objects.filter(name="host-2").update(zone="b")
    row = the_workload(run_it(acme, zones=("a",)))
    here.work()
    with pytest.raises(ForbiddenByLocality):
        workload_placement(workload_id=row.pk, zones=("nowhere",), actor=acme.actor)
    workload_placement(workload_id=row.pk, zones=("b",), actor=acme.actor)
    assert used(acme) == 2000
    there.work()
    outbox.sweep()
    here.work()
    [left] = row.allocations.filter(state="active")
    assert left.node.name == "host-2"
    assert used(acme) == 1000


def test_a_request_waits_for_quota_and_for_a_suspension_to_end() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=3)
    a_host()
    acme.order(slots=2)
    with pytest.raises(EnvelopeExceeded):
        acme.order(slots=4, wait=True)
    ticket = acme.order(slots=2, wait=True)
    assert (ticket.request.state, ticket.request.code) == ("queued", "envelope_exceeded")
    tenant_suspend(tenant_id=acme.tenant.pk, reason="unpaid", actor=OPERATOR)
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).code == "tenant_suspended"
    envelope_set(
        tenant_id=acme.tenant.pk,
        resource_class=CLASS,
        nominal_milli=4000,
        reason="more",
        actor=OPERATOR,
    )
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "queued"
    tenant_resume(tenant_id=acme.tenant.pk, reason="paid", actor=OPERATOR)
    outbox.sweep()
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "admitted"
    assert used(acme) == 4000


@pytest.mark.parametrize("replicas", [0, -1, 1025, True, 1.5])
def test_an_amount_that_makes_no_sense_is_refused_with_its_field(replicas: Any) -> None:
    a_catalogue()
    acme = a_tenant("acme")
    with pytest.raises(InvalidRequest) as refused:
        run_it(acme, replicas=replicas)
    assert refused.value.errors[0].pointer == "/replicas"
    assert AdmissionRequest.objects.count() == 0
