"""Does a set that waits keep from others only what it could have?"""

from __future__ import annotations

import pytest

from admission.models import AdmissionRequest
from gpuaas.kernel.errors import ProductError
from placement.models import Node
from placement.services.allocations import Ticket
from tests.admission.test_workloads import run_it
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def host_of(ticket: Ticket) -> Node:
    """Where a ticket's allocation is."""
    assert ticket.allocation is not None
    return ticket.allocation.node


def worlds(*racks: str) -> tuple[TenantWorld, TenantWorld]:
    """A host in each rack named, and two tenants."""
    a_catalogue()
    for k, rack in enumerate(racks):
        a_host(f"host-{k}")
        Node.objects.filter(name=f"host-{k}").update(zone="z", block="b", rack=rack)
    return a_tenant("acme"), a_tenant("globex")


@pytest.mark.parametrize("how", [{}, {"apart": True}, {"together": "zone"}])
def test_a_set_that_does_not_fit_keeps_no_part_of_the_room_from_others(
    how: dict[str, object],
) -> None:
    acme, globex = worlds("r1", "r1", "r2")
    globex.order(slots=8)
    waits = run_it(acme, replicas=3, slots=8, wait=True, **how)
    assert waits.allocation_id is None
    assert globex.order(slots=1).allocation_id is not None
    assert globex.order(slots=8).allocation_id is not None


def test_a_set_for_which_no_rack_suffices_keeps_no_host_of_any_rack() -> None:
    acme, globex = worlds("r2", "r2", "r2")
    used = host_of(globex.order(slots=1))
    one, other = Node.objects.exclude(pk=used.pk)
    Node.objects.filter(pk=one.pk).update(rack="r1")
    waits = run_it(acme, replicas=2, slots=8, together="rack", wait=True)
    assert waits.allocation_id is None
    assert host_of(globex.order(slots=8)).pk in (one.pk, other.pk)


def test_a_set_that_would_fit_now_is_before_who_comes_at_once() -> None:
    acme, globex = worlds("r1", "r1")
    first = [globex.order(slots=8) for _ in range(2)]
    waits = run_it(acme, replicas=2, slots=8, together="rack", wait=True)
    for ticket in first:
        Node.objects.filter(pk=host_of(ticket).pk).update(free_mask=255, free_count=8)
    with pytest.raises(ProductError) as refused:
        globex.order(slots=1)
    assert refused.value.facts["removed"] == {"kept_for_waiting": 2}
    assert AdmissionRequest.objects.get(pk=waits.request_id).state == "queued"
