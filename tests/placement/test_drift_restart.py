"""Does an allocation say why its machine did not come back after its host's restart?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gpuaas.kernel.clock import FakeClock, use
from gpuaas.kernel.clock import now as time_now
from nodeagent.protocol import Condition, VmState
from placement.services.drift import drift_sweep
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.drifting import Broken
from tests.placement.test_drift import lease, pass_by, standing


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant."""
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def broken(acme: TenantWorld) -> Broken:
    """A host whose machines the test breaks."""
    return Broken(a_host())


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    """Later than anything that the database dates itself."""
    fake = FakeClock(time_now() + timedelta(seconds=60))
    with use(fake):
        yield fake


@pytest.mark.django_db
def test_a_machine_that_its_hosts_restart_has_ended_says_why(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    broken.change(ref, state=VmState.UNKNOWN)
    pass_by(clock, broken)
    assert standing("vm_state") == []
    broken.change(ref, state=VmState.STOPPED)
    said = "this host has no image small [image_unknown]"
    gpus = sorted(broken.gpus)[:2]
    told = [Condition("machine_not_restarted", said, gpu, ref) for gpu in gpus]
    for _ in range(6):
        clock.advance(30)
        broken.report(*told)
        drift_sweep()
    (row,) = standing("vm_state")
    assert str(row.allocation_id) == ref
    assert row.detail.endswith(f"should run: {said} [machine_not_restarted]")
    node = broken.host.fresh()
    assert (node.schedulable, node.free_count) == (True, 6)
    blocked = node.slots.filter(state="blocked").values_list("index", flat=True)
    assert sorted(blocked) == [0, 1]
