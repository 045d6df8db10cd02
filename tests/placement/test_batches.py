"""Does a request get of a batch what it would get alone, and is it told the same?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from admission.models import AdmissionRequest
from gpuaas.kernel import clock
from placement.domain.fit import Board, Place, Want
from placement.domain.terms import Terms
from placement.models import Allocation, Node
from placement.services import maintenance, queue
from placement.services.maintenance import Selector
from placement.services.queue import HOLD_AFTER_S, cycle_run
from placement.services.terms import terms_set
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def globex(acme: TenantWorld) -> TenantWorld:
    return a_tenant("globex")


def shut(open_: bool = False) -> None:
    """No host takes anything, until they are opened."""
    Node.objects.update(schedulable=open_)


def told(world: TenantWorld) -> list[tuple[str, str]]:
    """What the tenant's waiting requests are told, the oldest first."""
    rows = AdmissionRequest.objects.filter(tenant=world.tenant, state="queued")
    return list(rows.order_by("queued_at").values_list("code", "detail"))


def held(world: TenantWorld) -> list[int]:
    """How many slots each of the tenant's allocations has."""
    return sorted(Allocation.objects.filter(tenant=world.tenant).values_list("slots", flat=True))


@pytest.mark.parametrize(
    "other",
    [
        Want(2),
        Want(0, terms=Terms(driver_min=(550,))),
        Want(0, terms=Terms(driver_below=(550,))),
        Want(0, terms=Terms(runtime_min=(12,))),
        Want(0, lasts_s=3600),
    ],
)
def test_a_host_that_was_offered_to_one_is_no_answer_to_what_asks_more_of_it(other: Want) -> None:
    hosts = [Place(num, 1, 0xFF, 8, "") for num in (1, 2)]
    board = Board()
    board.offer(Want(0), hosts)
    board.offer(other, [])
    assert board.best(other) is None
    first = board.best(Want(0))
    assert first is not None
    board.take(first, Want(0))
    assert board.best(other) is None
    assert board.best(Want(0)) is not None


def test_a_slice_goes_to_no_host_that_is_only_fit_for_the_whole(
    acme: TenantWorld, globex: TenantWorld
) -> None:
    for name in ("host-1", "host-2"):
        a_host(name)
    shut()
    acme.order("h100.node", wait=True)
    globex.order(slots=2, wait=True)
    Node.objects.update(takes="baremetal", schedulable=True)
    assert cycle_run("default") == 1
    assert (len(held(acme)), held(globex)) == (1, [])
    assert told(globex)[0][0] == "waiting_for_capacity"


def test_a_host_that_closes_too_early_goes_to_who_is_done_by_then(
    acme: TenantWorld, globex: TenantWorld
) -> None:
    for name in ("host-1", "host-2"):
        a_host(name)
    shut()
    acme.order(slots=1, wait=True, max_duration_s=3600)
    globex.order(slots=2, wait=True, max_duration_s=7 * 86_400)
    now = clock.db_now()
    maintenance.window_plan(
        selector=Selector(nodes=("host-1", "host-2")),
        starts_at=now + timedelta(days=1),
        ends_at=now + timedelta(days=2),
        reason="new cooling",
        actor=OPERATOR,
    )
    shut(open_=True)
    assert cycle_run("default") == 1
    assert (held(acme), held(globex)) == ([1], [])
    assert "Maintenance begins too early" in told(globex)[0][1]


def test_an_old_driver_stays_with_who_does_not_mind(acme: TenantWorld, globex: TenantWorld) -> None:
    a_host()
    a_host("host-2")
    terms_set(noun="sku", name="h100.slice", driver_min="550", reason="tested", actor=OPERATOR)
    Node.objects.update(driver=[560])
    shut()
    acme.order("h100.node", wait=True)
    globex.order(slots=1, wait=True)
    Node.objects.update(driver=[535], schedulable=True)
    assert cycle_run("default") == 1
    assert (len(held(acme)), held(globex)) == (1, [])


def test_who_has_to_be_elsewhere_keeps_nobody_from_a_host_by_being_counted_twice(
    acme: TenantWorld, globex: TenantWorld
) -> None:
    a_host("host-1")
    Node.objects.update(zone="z1")
    shut()
    globex.order(slots=2, wait=True, zones=("z1",))
    acme.order(slots=2, wait=True)
    globex.order(slots=2, wait=True, zones=("z1",))
    shut(open_=True)
    assert cycle_run("default") == 3
    assert (held(acme), held(globex)) == ([2], [2, 2])
    assert Node.objects.get().free_count == 2


def test_what_fits_nowhere_uses_up_nobodys_quota(acme: TenantWorld) -> None:
    tight = a_tenant("tight", envelope_slots=8)
    a_host("host-1")
    a_host("host-2")
    acme.order(slots=6)
    acme.order(slots=6)
    shut()
    tight.order(slots=8, wait=True)
    tight.order(slots=2, wait=True)
    shut(open_=True)
    assert cycle_run("default") == 1
    assert held(tight) == [2]
    assert [code for code, _ in told(tight)] == ["waiting_for_capacity"]


def test_a_pool_for_one_tenant_is_told_to_the_other_alone(
    acme: TenantWorld, globex: TenantWorld
) -> None:
    a_host()
    shut()
    globex.order(slots=2, wait=True)
    acme.order(slots=2, wait=True)
    terms_set(
        noun="pool", name="default", tenants=[acme.tenant.pk], reason="dedicated", actor=OPERATOR
    )
    cycle_run("default")
    assert [code for code, _ in told(globex)] == ["pool_dedicated"]
    assert [code for code, _ in told(acme)] == ["waiting_for_capacity"]


def test_room_that_is_kept_is_said_to_be_kept(acme: TenantWorld, globex: TenantWorld) -> None:
    a_host()
    globex.order(slots=1)
    acme.order(slots=8, wait=True)
    AdmissionRequest.objects.update(queued_at=F("queued_at") - timedelta(seconds=HOLD_AFTER_S))
    globex.order(slots=1, wait=True)
    assert len(queue.waiting("default")) == 2
    assert cycle_run("default") == 0
    ((code, detail),) = told(globex)
    assert (code, "kept for a larger request" in detail) == ("waiting_for_capacity", True)
