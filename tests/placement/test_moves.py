"""Can a move of a workload wait, holding nothing, and is it made when it can be?"""

from __future__ import annotations

import pytest

from admission.models import AdmissionRequest, Workload
from gpuaas.kernel import outbox
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation, Node
from placement.services.allocations import Ticket, allocation_release, request_withdraw
from placement.services.queue import cycle_sweep
from placement.services.workloads import (
    workload_placement,
    workload_scale,
    workload_stop,
)
from tests.admission.test_workloads import run_it, the_workload, used
from tests.builders import a_catalogue, a_host, a_tenant, drive_all
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)


class Place:
    """Two hosts in two zones: a service of acme's runs in zone a, zone b is globex's for now."""

    def __init__(self, replicas: int = 1) -> None:
        a_catalogue()
        self.acme, self.globex = a_tenant("acme", envelope_slots=8), a_tenant("globex")
        self.here, self.there = a_host("host-1"), a_host("host-2")
        for zone, host in (("a", self.here), ("b", self.there)):
            Node.objects.filter(pk=host.node.pk).update(zone=zone)
        self.row: Workload = the_workload(run_it(self.acme, zones=("a",), replicas=replicas))
        self.blocker = self.globex.order("h100.node", zones=("b",))
        self.here.work()
        self.there.work()

    def ask(self, *, wait: bool = True, zones: tuple[str, ...] = ("b",)) -> Ticket:
        """Ask for the move."""
        return workload_placement(
            workload_id=self.row.pk, zones=zones, wait=wait, actor=self.acme.actor
        )

    def room(self) -> None:
        """Zone b becomes free, and the queue is looked at."""
        assert self.blocker.allocation_id is not None
        allocation_release(
            allocation_id=self.blocker.allocation_id, reason="", actor=self.globex.actor
        )
        self.there.work()
        outbox.sweep()
        cycle_sweep()

    def settle(self) -> None:
        """Hosts do what is due, and what follows from it."""
        for _ in range(2):
            for host in (self.here, self.there):
                host.work()
            outbox.sweep()

    def standing(self) -> list[str]:
        """Where its allocations are."""
        rows = Allocation.objects.filter(workload=self.row).exclude(state="released")
        return sorted(rows.values_list("node__name", flat=True))


def test_a_move_without_room_is_refused_unless_it_may_wait_and_then_holds_nothing() -> None:
    place = Place()
    with pytest.raises(ProductError) as refused:
        place.ask(wait=False)
    assert refused.value.code in ("sku_unavailable", "forbidden_by_locality")
    ticket = place.ask()
    assert ticket.allocation_id is None
    assert (ticket.request.state, ticket.request.code) == ("queued", "forbidden_by_locality")
    assert "zone" in str(ticket.decision.gates[-1]["facts"])
    place.row.refresh_from_db()
    assert (place.row.generation, place.row.spec["zones"]) == (1, ["a"])
    assert (used(place.acme), place.standing()) == (1000, ["host-1"])
    cycle_sweep()
    assert ticket.request.state == "queued"


def test_a_waiting_move_is_made_when_there_is_room_and_leaves_the_old_place_last() -> None:
    place = Place()
    ticket = place.ask()
    place.room()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "admitted"
    assert (used(place.acme), place.standing()) == (2000, ["host-1", "host-2"])
    place.row.refresh_from_db()
    assert (place.row.generation, place.row.spec["zones"]) == (2, ["b"])
    place.settle()
    assert (used(place.acme), place.standing()) == (1000, ["host-2"])
    assert findings() == []


def test_a_withdrawn_move_moves_nothing_and_changes_no_intent() -> None:
    place = Place()
    ticket = place.ask()
    request_withdraw(request_id=ticket.request_id, actor=place.acme.actor)
    place.room()
    place.settle()
    place.row.refresh_from_db()
    assert (place.row.state, place.row.spec["zones"]) == ("admitted", ["a"])
    assert (used(place.acme), place.standing()) == (1000, ["host-1"])


def test_a_newer_move_replaces_the_one_that_waits() -> None:
    place = Place()
    first, second = place.ask(), place.ask()
    states = {r.pk: r.state for r in AdmissionRequest.objects.filter(workload=place.row)}
    assert (states[first.request_id], states[second.request_id]) == ("withdrawn", "queued")


def test_a_move_takes_what_stands_when_it_is_made() -> None:
    place = Place()
    ticket = place.ask()
    workload_scale(workload_id=place.row.pk, replicas=3, actor=place.acme.actor)
    place.here.work()
    place.room()
    request = AdmissionRequest.objects.get(pk=ticket.request_id)
    assert (request.state, request.replicas, request.amount_milli) == ("admitted", 3, 3000)
    place.settle()
    assert (used(place.acme), place.standing()) == (3000, ["host-2"] * 3)
    assert findings() == []


def test_a_move_waits_for_the_envelope_to_hold_both_places() -> None:
    place = Place(replicas=5)
    ticket = place.ask()
    assert ticket.request.code == "envelope_exceeded"
    place.room()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "queued"
    workload_scale(workload_id=place.row.pk, replicas=4, actor=place.acme.actor)
    place.settle()
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "admitted"
    place.settle()
    assert place.standing() == ["host-2"] * 4
    assert findings() == []


def test_a_move_of_what_no_longer_stands_is_told_so() -> None:
    place = Place()
    ticket = place.ask()
    for allocation in Allocation.objects.filter(workload=place.row):
        allocation_release(allocation_id=allocation.pk, reason="", actor=place.acme.actor)
    place.settle()
    cycle_sweep()
    request = AdmissionRequest.objects.get(pk=ticket.request_id)
    assert (request.state, request.code) == ("denied", "workload_state_refused")
    with pytest.raises(ProductError) as refused:
        place.ask()
    assert refused.value.code == "workload_state_refused"


def test_stopping_takes_a_waiting_move_with_it() -> None:
    place = Place()
    ticket = place.ask()
    workload_stop(workload_id=place.row.pk, reason="", actor=place.acme.actor)
    place.room()
    place.settle()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "withdrawn"
    assert (used(place.acme), place.standing()) == (0, [])


def test_a_workload_that_is_scaled_down_while_it_moves_arrives_with_as_many_as_are_wanted() -> None:
    place = Place(replicas=3)
    ticket = place.ask()
    place.room()
    assert AdmissionRequest.objects.get(pk=ticket.request_id).state == "admitted"
    assert place.standing() == ["host-1"] * 3 + ["host-2"] * 3
    workload_scale(workload_id=place.row.pk, replicas=1, actor=place.acme.actor)
    place.settle()
    assert (used(place.acme), place.standing()) == (1000, ["host-2"])
    assert findings() == []


def test_a_move_is_given_up_also_where_the_place_that_failed_cannot_be_cleaned() -> None:
    place = Place(replicas=2)
    place.room()
    ticket = place.ask()
    assert ticket.request.state == "admitted"
    one, two = place.there.lease()
    place.there.complete(one)
    place.there.fail(two)
    drive_all()
    for task in place.there.lease():
        place.there.fail(task)
    drive_all()
    new = Allocation.objects.filter(request=ticket.request_id).order_by("state")
    assert list(new.values_list("state", flat=True)) == ["active", "cleanup_blocked"]
    outbox.sweep()
    place.settle()
    assert used(place.acme) == 2000, "the tenant pays for both places no longer"
    assert list(new.values_list("state", flat=True)) == ["cleanup_blocked", "released"]
    place.row.refresh_from_db()
    assert place.row.state == "admitted"
    standing = Allocation.objects.filter(workload=place.row, state="active")
    assert list(standing.values_list("node__name", flat=True)) == ["host-1"] * 2
    assert findings() == []
