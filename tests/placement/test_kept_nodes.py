"""Is the node that is kept for who has waited long one that could ever be of use to it?"""

from __future__ import annotations

import pytest

from admission.errors import ForbiddenByLocality
from placement.models import Allocation, Node, PlacementTerms
from placement.services.allocations import Ticket, allocation_release
from placement.services.queue import HOLD_AFTER_S, cycle_run
from placement.services.separations import separation_set
from tests.builders import (
    BOTH_KINDS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
)
from tests.placement.test_queue_order import wait

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worlds() -> tuple[TenantWorld, TenantWorld, TenantWorld]:
    a_catalogue()
    return a_tenant("acme"), a_tenant("globex"), a_tenant("initech")


def two_hosts(parts: tuple[str, ...] = ()) -> tuple[Host, Host]:
    """One in zone a, one in zone b."""
    hosts = a_host("host-1", parts=parts), a_host("host-2", parts=parts)
    for zone, host in zip("ab", hosts, strict=True):
        Node.objects.filter(pk=host.node.pk).update(zone=zone)
    return hosts


def drivers(*hosts: tuple[Host, int]) -> None:
    for host, major in hosts:
        Node.objects.filter(pk=host.node.pk).update(driver=[major])


def has_waited(ticket: Ticket) -> None:
    """It waits, and has waited long enough to have a node kept."""
    assert ticket.request.state == "queued"
    wait(HOLD_AFTER_S)
    cycle_run("default")


def host_of(ticket: Ticket) -> str:
    assert ticket.allocation is not None
    return str(ticket.allocation.node.name)


def test_no_node_is_kept_on_which_the_driver_is_too_old(
    worlds: tuple[TenantWorld, TenantWorld, TenantWorld],
) -> None:
    acme, globex, _ = worlds
    old, new = two_hosts()
    drivers((old, 535), (new, 550))
    PlacementTerms.objects.create(about="sku:h100.node", driver_min=[550])
    held = globex.order(zones=("b",)).allocation_id
    assert held is not None
    new.work()
    large = acme.order("h100.node", wait=True)
    has_waited(large)
    assert host_of(globex.order(slots=1)) == "host-1"
    with pytest.raises(ForbiddenByLocality) as refused:
        globex.order(slots=1, zones=("b",))
    assert "has waited longer" in refused.value.detail
    assert refused.value.facts["nodes_kept"] == 1
    allocation_release(allocation_id=held, reason="", actor=globex.actor)
    new.work()
    cycle_run("default")
    assert Allocation.objects.get(request=large.request_id).node.name == "host-2"


def test_where_no_host_has_the_driver_nothing_is_kept_and_the_next_has_its_turn(
    worlds: tuple[TenantWorld, TenantWorld, TenantWorld],
) -> None:
    acme, globex, initech = worlds
    one, two = two_hosts()
    drivers((one, 535), (two, 535))
    globex.order(slots=4, zones=("a",))
    globex.order(slots=5, zones=("b",))
    acme.order("h100.node", wait=True)
    PlacementTerms.objects.create(about="sku:h100.node", driver_min=[550])
    has_waited(initech.order(slots=6, wait=True))
    assert host_of(globex.order(slots=2)) == "host-2", "host-1 is the nearest to six slots"


def test_a_host_of_a_tenant_that_is_kept_apart_is_the_last_that_is_kept(
    worlds: tuple[TenantWorld, TenantWorld, TenantWorld],
) -> None:
    acme, globex, initech = worlds
    two_hosts()
    globex.order(slots=1, zones=("a",))
    initech.order(slots=5, zones=("b",))
    separation_set(
        name="rivals",
        tenants=[acme.tenant.pk, globex.tenant.pk],
        reason="competitors",
        actor=OPERATOR,
    )
    has_waited(acme.order(slots=4, wait=True))
    assert host_of(initech.order(slots=1)) == "host-1"
    with pytest.raises(ForbiddenByLocality):
        initech.order(slots=1, zones=("b",))


def test_no_host_is_kept_that_has_nothing_of_who_wants_to_be_with_its_own(
    worlds: tuple[TenantWorld, TenantWorld, TenantWorld],
) -> None:
    acme, globex, _ = worlds
    two_hosts()
    acme.order(slots=1, zones=("b",))
    globex.order(slots=5, zones=("b",))
    has_waited(acme.order(slots=4, own="with", wait=True))
    assert host_of(globex.order(slots=1)) == "host-1"


def test_no_cut_gpu_is_kept_for_a_part_on_a_host_whose_driver_is_too_old(
    worlds: tuple[TenantWorld, TenantWorld, TenantWorld],
) -> None:
    acme, globex, _ = worlds
    a_parts_catalogue()
    old, new = two_hosts(BOTH_KINDS)
    for host in (old, new):
        cut_slots(host, "mig", 0)
    drivers((old, 535), (new, 550))
    PlacementTerms.objects.create(about="sku:h100.4g", driver_min=[550])
    globex.order("h100.4g", zones=("b",))
    has_waited(acme.order("h100.4g", wait=True))
    assert host_of(globex.order("h100.1g", zones=("a",))) == "host-1"
