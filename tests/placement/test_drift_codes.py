"""Does each difference reach its reader under its own code, when a host really differs so?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.kernel.clock import FakeClock, use
from gpuaas.kernel.clock import now as time_now
from gpuaas.kernel.models import WorkflowRun
from nodeagent.protocol import Address, Condition, Presence, VmState
from placement.models import Allocation, Node
from placement.services import cleanup
from placement.services.allocations import allocation_release
from placement.services.drift import drift_sweep
from placement.services.nodes import node_discover
from tests.api.client import Caller, operator_caller
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.drifting import Broken, machine
from tests.placement.test_identity import discovered, report_with

pytestmark = pytest.mark.django_db
LONG_S = 90


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def broken(acme: TenantWorld) -> Broken:
    return Broken(a_host())


@pytest.fixture
def operator(db: None) -> Caller:
    return operator_caller()


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    # Rows that the database dates itself are never later than this.
    fake = FakeClock(time_now() + timedelta(seconds=60))
    with use(fake):
        yield fake


@pytest.fixture
def ref(acme: TenantWorld, broken: Broken) -> str:
    """A lease of two slots whose machine runs."""
    row = acme.order(slots=2).allocation
    assert row is not None
    broken.work()
    return str(row.pk)


def told(operator: Caller, clock: FakeClock, broken: Broken, *conditions: Condition) -> set[str]:
    """The codes that an operator reads after two looks, with every grace over."""
    for _ in range(2):
        clock.advance(LONG_S)
        broken.report(*conditions)
        drift_sweep()
    return {one["code"] for one in operator.get("/drift").json()["items"]}


def test_a_machine_that_was_shut_down(
    operator: Caller, broken: Broken, clock: FakeClock, ref: str
) -> None:
    broken.change(ref, state=VmState.STOPPED)
    assert told(operator, clock, broken) == {"drift_vm_state"}


def test_a_machine_on_other_slots(
    operator: Caller, broken: Broken, clock: FakeClock, ref: str
) -> None:
    broken.change(ref, slots=(0, 5))
    assert told(operator, clock, broken) == {"drift_vm_elsewhere"}


def test_a_machine_that_answers_elsewhere(
    operator: Caller, broken: Broken, clock: FakeClock, ref: str
) -> None:
    broken.change(ref, address=Address("127.0.0.9", 2299, "ubuntu"))
    assert told(operator, clock, broken) == {"drift_address_changed"}


def test_a_boot_under_a_claim(operator: Caller, broken: Broken, clock: FakeClock, ref: str) -> None:
    broken.reboot(7)
    broken.host.lease()
    assert told(operator, clock, broken) == {"drift_boot_changed_under_claim"}


def test_the_machine_of_an_ended_lease(
    acme: TenantWorld, operator: Caller, broken: Broken, clock: FakeClock, ref: str
) -> None:
    left = broken.machines[ref]
    allocation_release(allocation_id=Allocation.objects.get(pk=ref).pk, reason="", actor=acme.actor)
    broken.work()
    broken.machines[ref] = left
    assert told(operator, clock, broken) == {"drift_released_but_present"}


def test_a_machine_of_nobody(operator: Caller, broken: Broken, clock: FakeClock) -> None:
    broken.stranger("somebody-s")
    assert told(operator, clock, broken) == {"drift_vm_unknown"}


def test_silence(operator: Caller, broken: Broken, clock: FakeClock) -> None:
    clock.advance(600)
    drift_sweep()
    codes = {one["code"] for one in operator.get("/drift?state=standing").json()["items"]}
    assert codes == {"drift_observed_stale"}


def test_a_report_that_cannot_be_read(operator: Caller, broken: Broken, clock: FakeClock) -> None:
    Node.objects.filter(pk=broken.host.node.pk).update(observed={"boot_id": "x", "vms": [1]})
    drift_sweep()
    codes = {one["code"] for one in operator.get("/drift?state=standing").json()["items"]}
    assert codes == {"drift_not_comparable"}


def test_a_gpu_that_is_gone_and_one_that_nobody_knows(
    operator: Caller, broken: Broken, clock: FakeClock
) -> None:
    broken.gpus["GPU-host-1-3"] = Presence.ABSENT
    assert told(operator, clock, broken) == {"drift_device_missing"}
    broken.gpus["GPU-new"] = Presence.PRESENT
    assert told(operator, clock, broken) == {"drift_device_missing", "drift_device_unknown"}


def test_a_card_that_is_another_and_one_that_is_offered(
    operator: Caller, broken: Broken, clock: FakeClock
) -> None:
    host = broken.host
    discovered(host, report_with(host, drop=(7,)))
    discovered(host, report_with(host, swap=(3,), drop=(7,)))
    codes = told(operator, clock, broken)
    assert "drift_device_differs" in codes
    more = report_with(host)
    extra = replace(more.gpus[7], uuid="GPU-extra", pci="0000:fe:00.0", index=8)
    slot = replace(more.slots[7], index=8, gpu_index=8, gpu_uuid="GPU-extra")
    discovered(host, replace(more, gpus=(*more.gpus, extra), slots=(*more.slots, slot)))
    assert "drift_device_offered" in told(operator, clock, broken)


def test_traces_on_a_free_slot(operator: Caller, broken: Broken, clock: FakeClock) -> None:
    traces = Condition("residue_found", "data of somebody", "GPU-host-1-3")
    assert told(operator, clock, broken, traces) == {"drift_residue"}


def test_a_task_past_its_time(operator: Caller, broken: Broken, clock: FakeClock) -> None:
    node_discover(node_id=broken.host.node.pk, actor=OPERATOR)
    broken.host.lease()
    clock.advance(3600)
    assert told(operator, clock, broken) == {"drift_task_stuck"}


@pytest.mark.parametrize("releasing", [False, True])
def test_a_lease_that_nothing_moves(
    acme: TenantWorld, operator: Caller, broken: Broken, clock: FakeClock, releasing: bool
) -> None:
    row = acme.order(slots=1).allocation
    assert row is not None
    if releasing:
        broken.work()
        allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    row.refresh_from_db()
    cleanup.cancel_tasks(row, OPERATOR)
    WorkflowRun.objects.filter(pk=row.run_id).delete()
    codes = told(operator, clock, broken)
    assert ("drift_release_stopped" in codes) is releasing
    assert ("drift_making_stopped" in codes) is not releasing


def test_the_machine_is_named_only_while_the_lease_is_there(
    operator: Caller, broken: Broken, clock: FakeClock, ref: str
) -> None:
    """What is as it should be has no code at all."""
    broken.machines[ref] = machine(ref, (0, 1))
    assert told(operator, clock, broken) == set()
