"""What does the control plane make of a host that fails, restarts, repeats itself or is silent?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuaas.kernel import clock
from placement.errors import LeaseLost, ObservedStale
from placement.models import Claim, CleanupProof, Node, NodeTask, TaskObservation
from placement.selectors import allocation_phase, node_states, posture_of
from placement.services import nodes
from placement.services.allocations import allocation_release
from placement.services.observed import silence_sweep
from placement.services.tasks import leases_sweep
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant, drive_all

pytestmark = pytest.mark.django_db(transaction=True)

SHAPES = [("h100.slice", {"slots": 2}), ("h100.node", {})]


@pytest.mark.parametrize(("sku", "size"), SHAPES)
def test_a_host_that_cannot_provision_leaves_a_failed_allocation_and_proven_slots(
    sku: str, size: dict[str, int]
) -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(sku, **size)
    [task] = host.lease()
    host.fail(task)
    drive_all()
    row = acme.tenant.allocations.get()
    assert (row.state, row.outcome, row.outcome_code) == (
        "releasing",
        "failed",
        "provision_failed",
    )
    host.work()
    row.refresh_from_db()
    assert row.state == "released"
    assert posture_of(host.fresh()) == "fully_available"


@pytest.mark.parametrize(("sku", "size"), SHAPES)
def test_a_retryable_failure_is_tried_again_and_succeeds(sku: str, size: dict[str, int]) -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(sku, **size)
    [task] = host.lease()
    host.fail(task, retryable=True)
    task.refresh_from_db()
    assert (task.state, task.attempt) == ("pending", 1)
    host.work()
    assert acme.tenant.allocations.get().state == "active"


@pytest.mark.parametrize(("sku", "size"), SHAPES)
def test_a_restart_in_the_middle_voids_the_lease_and_the_work_is_asked_again(
    sku: str, size: dict[str, int]
) -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(sku, **size)
    [task] = host.lease()
    host.boot = "boot-00000002"
    [again] = host.lease()
    assert again.pk == task.pk
    assert again.lease_epoch == task.lease_epoch + 1
    with pytest.raises(LeaseLost):
        host.complete(task)
    host.complete(again)
    drive_all()
    assert acme.tenant.allocations.get().state == "active"
    assert set(Claim.objects.values_list("boot_id", flat=True)) == {"boot-00000002"}
    assert TaskObservation.objects.get().outcome == "complete"


def test_a_result_that_is_sent_twice_counts_once() -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(slots=1)
    [task] = host.lease()
    host.complete(task)
    host.complete(task)
    drive_all()
    assert acme.tenant.allocations.get().state == "active"
    assert TaskObservation.objects.count() == 0


@pytest.mark.parametrize(("sku", "size"), SHAPES)
def test_a_proof_of_an_earlier_boot_changes_nothing(sku: str, size: dict[str, int]) -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(sku, **size)
    host.work()
    row = acme.tenant.allocations.get()
    allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    [task] = host.lease()
    host.boot = "boot-00000002"
    host.lease()
    host.boot = "boot-00000001"
    with pytest.raises(LeaseLost):
        host.complete(task)
    assert CleanupProof.objects.count() == 0
    drive_all()
    row.refresh_from_db()
    assert row.state == "releasing"


def test_a_lease_without_heartbeat_goes_back_and_ends_after_its_attempts() -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(slots=1)
    for _ in range(5):
        [task] = host.lease()
        NodeTask.objects.filter(pk=task.pk).update(
            lease_until=clock.db_now() - timedelta(seconds=1)
        )
        assert leases_sweep() == 1
    task.refresh_from_db()
    assert task.state == "failed"
    assert task.error is not None
    assert task.error["code"] == "task_overdue"
    drive_all()
    assert acme.tenant.allocations.get().outcome == "failed"


def test_a_silent_host_is_unknown_takes_nothing_new_and_keeps_its_claims() -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(slots=1)
    host.work()
    Node.objects.update(last_seen_at=clock.db_now() - timedelta(hours=1))
    assert silence_sweep() == 1
    assert posture_of(host.fresh()) == "unavailable"
    assert not host.fresh().schedulable
    row = acme.tenant.allocations.get()
    assert (row.state, row.observed) == ("active", "unknown")
    assert allocation_phase(row) == "unknown"
    assert Claim.objects.get().state == "active"
    host.report()
    assert host.fresh().schedulable


@pytest.mark.parametrize(
    "code",
    [
        "prerequisite_missing",
        "helper_wrong_node",
        "helper_wrong_keys",
        "driver_hangs",
        "machines_returning",
    ],
)
def test_what_a_host_cannot_work_with_stops_new_work_and_is_shown_beside_the_other_states(
    code: str,
) -> None:
    a_catalogue()
    host = a_host()
    host.report(code)
    states = node_states(host.fresh())
    assert states["desired"]["value"].startswith("ready")
    assert states["observed"]["value"] == code
    assert states["observed"]["drift"] is True
    assert states["executing"]["value"] == "idle"
    assert states["projected"]["value"] == "not projected yet"
    assert states["posture"] == "unavailable"
    assert not host.fresh().schedulable


def test_an_older_report_does_not_undo_a_newer_one() -> None:
    a_catalogue()
    host = a_host()
    host.report("prerequisite_missing")
    host.seq -= 1
    with pytest.raises(ObservedStale):
        host.report()
    assert host.fresh().health == "degraded"


def test_a_drain_keeps_what_runs_and_takes_nothing_new() -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    acme.order(slots=1)
    host.work()
    nodes.node_drain(node_id=host.node.pk, reason="new firmware", actor=OPERATOR)
    nodes.node_drain(node_id=host.node.pk, reason="new firmware", actor=OPERATOR)
    assert posture_of(host.fresh()) == "draining"
    assert acme.tenant.allocations.get().state == "active"
    assert not host.fresh().schedulable
    nodes.node_undrain(node_id=host.node.pk, reason="done", actor=OPERATOR)
    assert posture_of(host.fresh()) == "partially_allocated"


def test_one_drained_slot_is_not_offered_while_the_others_are() -> None:
    a_catalogue()
    acme, host = a_tenant(), a_host()
    nodes.node_drain(node_id=host.node.pk, reason="flaky", actor=OPERATOR, slot_index=3)
    assert host.fresh().free_count == 7
    acme.order(slots=7)
    assert 3 not in set(Claim.objects.values_list("slot_index", flat=True))
