"""Does a workload's intent end, move and grow as asked, whatever happens in between?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from admission.errors import WorkloadStateRefused
from admission.models import Action, AdmissionRequest, Workload
from gpuaas.kernel import outbox, workflow
from gpuaas.kernel.scope import tenant_scope
from placement.services import queue
from placement.services.endings import deleting_release
from placement.services.intents import intent_locked, intent_taken
from placement.services.queue import cycle_sweep
from placement.services.workloads import (
    WorkloadOrder,
    workload_create,
    workload_placement,
    workload_scale,
    workload_stop,
)
from placement.states import AllocationState
from tenants.services.deletion import tenant_delete
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant, drive_all

pytestmark = pytest.mark.django_db(transaction=True)


def run_it(world: TenantWorld, **wishes: Any) -> Workload:
    """Ask for a service; its row."""
    order = WorkloadOrder(**{"kind": "service", "name": "web", "sku": "h100.slice", **wishes})
    with tenant_scope(world.tenant.pk):
        ticket = workload_create(
            tenant_id=world.tenant.pk, project_id=world.project.pk, order=order, actor=world.actor
        )
    assert ticket.workload_id is not None
    return Workload.objects.get(pk=ticket.workload_id)


def test_a_workload_whose_waiting_run_is_cancelled_has_ended() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    run_it(acme, slots=8)
    row = run_it(acme, name="late", slots=8, wait=True)
    request = AdmissionRequest.objects.get(workload=row)
    assert request.run_id is not None
    workflow.cancel(request.run_id, acme.actor, "not needed")
    drive_all()
    row.refresh_from_db()
    assert (row.state, row.outcome, row.code) == ("ended", "cancelled", "run_cancelled")


def test_a_workload_that_waits_ends_with_its_tenant() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    run_it(acme, slots=8)
    row = run_it(acme, name="late", slots=8, wait=True)
    tenant_delete(tenant_id=acme.tenant.pk, reason="test", actor=OPERATOR)
    deleting_release(acme.tenant.pk)
    row.refresh_from_db()
    assert (row.state, row.outcome) == ("ended", "cancelled")


def test_a_second_move_during_the_first_does_not_double_the_workload() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host("host-1")
    row = run_it(acme, slots=1, replicas=2)
    host.work()
    with tenant_scope(acme.tenant.pk):
        for _ in range(2):
            workload_placement(workload_id=row.pk, actor=acme.actor)
    host.work()
    outbox.sweep()
    host.work()
    assert row.allocations.exclude(state=AllocationState.RELEASED).count() == 2
    row.refresh_from_db()
    assert row.replicas == 2


def test_nothing_is_added_to_a_workload_that_stops_meanwhile() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    row = run_it(acme, slots=1)
    with tenant_scope(acme.tenant.pk):
        workload_stop(workload_id=row.pk, reason="enough", actor=acme.actor)
    with pytest.raises(WorkloadStateRefused), transaction.atomic():
        intent_taken(row.pk, Action.SCALE, 1, acme.actor, spec={})
    assert intent_locked_state(row) == "stopping"


def intent_locked_state(row: Workload) -> str:
    """The workload's state, read under its lock."""
    with transaction.atomic():
        return str(intent_locked(row.pk).state)


def test_the_cycle_goes_on_when_the_intent_of_one_request_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    run_it(acme, slots=8)
    gone = run_it(acme, name="gone", slots=4, wait=True)
    ticket = acme.order(slots=4, wait=True)

    def taken(workload_id: object, *rest: object) -> None:
        raise WorkloadStateRefused("The workload is ended.", state="ended")

    monkeypatch.setattr(queue, "intent_taken", taken)
    a_host("host-2")
    cycle_sweep()
    assert gone.allocations.count() == 0
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "admitted"


@pytest.mark.parametrize("then", [3, 1])
def test_the_last_number_asked_for_is_the_number(then: int) -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    row = run_it(acme, slots=1)
    run_it(acme, name="other", slots=7)
    with tenant_scope(acme.tenant.pk):
        workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor, wait=True)
        workload_scale(workload_id=row.pk, replicas=then, actor=acme.actor, wait=True)
    a_host("host-2")
    cycle_sweep()
    row.refresh_from_db()
    assert row.replicas == then
    assert row.allocations.count() == then


def test_a_move_of_which_one_part_fails_is_given_up_as_a_whole() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host("host-1")
    row = run_it(acme, slots=1, replicas=2)
    host.work()
    old = set(row.allocations.values_list("pk", flat=True))
    with tenant_scope(acme.tenant.pk):
        workload_placement(workload_id=row.pk, actor=acme.actor)
    bad, good = host.lease()
    host.fail(bad)
    host.complete(good)
    for _ in range(3):
        drive_all()
        host.work()
        outbox.sweep()
    left = row.allocations.exclude(state=AllocationState.RELEASED)
    assert set(left.values_list("pk", flat=True)) == old
