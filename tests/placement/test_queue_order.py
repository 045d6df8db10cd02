"""May a small request pass a large one that waits, and for how long?

For a minute, as backfill; then a node is kept free for the large one.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from admission.models import AdmissionRequest
from placement.errors import SkuUnavailable
from placement.models import Allocation, Node, Pool
from placement.services import queue
from placement.services.allocations import allocation_release
from placement.services.queue import HOLD_AFTER_S, cycle_run, cycle_sweep
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


def leases(world: TenantWorld, count: int) -> list[Allocation]:
    out = []
    for _ in range(count):
        row = world.order(slots=1).allocation
        assert row is not None
        out.append(row)
    return out


def give_back(row: Allocation, world: TenantWorld, *hosts: Host) -> None:
    allocation_release(allocation_id=row.pk, reason="", actor=world.actor)
    for host in hosts:
        host.work()


def wait(seconds: int) -> None:
    """Let everybody who waits have waited longer."""
    AdmissionRequest.objects.filter(state="queued").update(
        queued_at=F("queued_at") - timedelta(seconds=seconds)
    )


def waits(world: TenantWorld) -> list[int]:
    rows = AdmissionRequest.objects.filter(tenant=world.tenant, state="queued")
    return sorted(rows.values_list("slots", flat=True))


def test_a_small_request_passes_a_large_one_for_a_minute(acme: TenantWorld) -> None:
    host = a_host()
    held = leases(acme, 8)
    host.work()
    acme.order(slots=8, name="large", wait=True)
    give_back(held[0], acme, host)
    assert acme.order(slots=1).allocation is not None


def test_a_large_request_is_not_starved_by_a_stream_of_small_ones(acme: TenantWorld) -> None:
    globex = a_tenant("globex")
    host = a_host()
    held = leases(acme, 8)
    host.work()
    large = acme.order(slots=8, name="large", wait=True)
    wait(HOLD_AFTER_S)
    for turn, row in enumerate(held):
        give_back(row, acme, host)
        with pytest.raises(SkuUnavailable) as refused:
            globex.order(slots=1)
        assert turn == 7 or "has waited longer" in refused.value.detail
        globex.order(slots=1, wait=True)
        cycle_run("default")
        assert Node.objects.get().free_count == (turn + 1 if turn < 7 else 0)
    assert AdmissionRequest.objects.get(pk=large.request_id).state == "admitted"
    assert waits(globex) == [1] * 8


def test_a_node_is_kept_and_the_others_go_on_selling(acme: TenantWorld) -> None:
    one, two = a_host("host-1"), a_host("host-2")
    held = leases(acme, 16)
    one.work()
    two.work()
    acme.order(slots=8, name="large", wait=True)
    wait(HOLD_AFTER_S)
    on_two = [row for row in held if row.node_id == two.node.pk]
    on_one = [row for row in held if row.node_id == one.node.pk]
    for row in (*on_two[:3], on_one[0]):
        give_back(row, acme, one, two)
    placed = acme.order(slots=1).allocation
    assert placed is not None
    assert placed.node_id == one.node.pk
    with pytest.raises(SkuUnavailable):
        acme.order(slots=1)
    assert two.fresh().free_count == 3


def test_only_the_first_of_those_who_wait_long_keeps_a_node(acme: TenantWorld) -> None:
    one, two = a_host("host-1"), a_host("host-2")
    held = leases(acme, 16)
    one.work()
    two.work()
    for name in ("first", "second"):
        acme.order(slots=8, name=name, wait=True)
    wait(HOLD_AFTER_S)
    for row in (held[0], held[15]):
        give_back(row, acme, one, two)
    assert acme.order(slots=1).allocation is not None
    with pytest.raises(SkuUnavailable):
        acme.order(slots=1)


def test_a_request_that_can_never_fit_keeps_nothing(acme: TenantWorld) -> None:
    host = a_host()
    held = leases(acme, 8)
    host.work()
    acme.order("h100.node", name="metal", wait=True)
    Node.objects.update(intended="slices")
    wait(HOLD_AFTER_S)
    give_back(held[0], acme, host)
    assert acme.order(slots=1).allocation is not None


def two_pools(world: TenantWorld) -> None:
    """Somebody waits in the default pool, and in one that is called first."""
    a_host()
    leases(world, 8)
    for _ in range(2):
        world.order(slots=1, wait=True)
    Pool.objects.create(name="another")
    row = AdmissionRequest.objects.filter(state="queued").earliest("id")
    AdmissionRequest.objects.filter(pk=row.pk).update(pool="another")


def test_a_pool_that_breaks_does_not_stop_the_others(
    acme: TenantWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    two_pools(acme)
    seen = []

    def breaks(pool: str) -> int:
        seen.append(pool)
        if pool == "another":
            raise OperationalError("deadlock detected")
        return 1

    monkeypatch.setattr(queue, "cycle_run", breaks)
    monkeypatch.setattr(queue, "_said_at", {})
    assert cycle_sweep() == 1
    assert cycle_sweep() == 1
    assert sorted(seen) == ["another", "another", "default", "default"]
    pool = Pool.objects.get(name="another")
    assert (pool.cycles_broken, pool.cycle_trouble) == (2, "OperationalError")
    assert caplog.text.count("the cycle of pool another broke") == 1


def test_a_lost_connection_is_raised_once(
    acme: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_pools(acme)
    seen = []

    def loses(pool: str) -> int:
        seen.append(pool)
        connection.close()
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(queue, "cycle_run", loses)
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    with pytest.raises(OperationalError):
        cycle_sweep()
    assert len(seen) == 1
    assert set(Pool.objects.values_list("cycles_broken", flat=True)) == {0}
