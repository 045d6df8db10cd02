"""Does work go near its data and its storage: always where it must, and when it can otherwise?"""

from __future__ import annotations

from typing import Any

import pytest

from admission.domain.locality import (
    Conflict,
    Data,
    Near,
    Store,
    Wish,
    in_order,
    missing_storage,
    near,
    wishes,
)
from admission.errors import ForbiddenByLocality, StorageNotOffered
from admission.models import Decision
from gpuaas.kernel.errors import InvalidRequest, NotFound, PermissionDenied
from placement.models import Allocation, Node
from placement.services.allocations import Ticket
from placement.services.queue import cycle_sweep
from tenants.models import Storage
from tenants.services.datasets import dataset_declare
from tenants.services.storage import storage_declare, storage_retire
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant

A, B = Near(zones=("a",)), Near(zones=("b",))


def corpus(name: str = "corpus", *zones: str, required: bool = False, **more: Any) -> Data:
    """A data set, preferred unless told otherwise."""
    return Data(name, 1, zones, required=required, **more)


LUSTRE, NFS = Store("lustre", "parallel", 1, ("a", "b")), Store("nfs", "shared", 3)


def test_wishes_go_from_all_preferred_data_to_each_and_never_beyond_what_is_required() -> None:
    both = [corpus("x", "a", "b"), corpus("y", "b")]
    assert wishes((), both) == (
        Wish(("x", "y"), B),
        Wish(("x",), Near(zones=("a", "b"))),
        Wish(("y",), B),
    )
    assert wishes(("a",), both) == (), "x adds nothing to zone a, and y is out of reach"
    must = corpus("must", "b", required=True)
    assert wishes((), [must, corpus("x", "a")]) == ()
    assert wishes((), [must]) == ()


def test_storage_is_a_place_from_which_it_is_reached() -> None:
    on_lustre = corpus(required=True, storage=("lustre",))
    assert near((), [on_lustre], (), [LUSTRE, NFS]) == Near(zones=("a", "b"))
    assert near(("a",), [on_lustre], (), [LUSTRE]) == A
    assert isinstance(near(("c",), [on_lustre], (), [LUSTRE]), Conflict)
    either = corpus(required=True, storage=("lustre", "nfs"))
    assert near((), [either], (), [LUSTRE, NFS]) == Near()
    assert near((), [], ("parallel",), [LUSTRE, NFS]) == Near(zones=("a", "b"))
    assert missing_storage(("parallel", "tape"), [on_lustre], [NFS]) == (
        "parallel",
        "tape",
        "corpus on lustre",
    )
    assert missing_storage((), [corpus(storage=("lustre",))], []) == ()


class Zones:
    """A host in each of two zones, and a tenant."""

    def __init__(self) -> None:
        a_catalogue()
        self.acme, self.globex = a_tenant("acme"), a_tenant("globex")
        self.hosts: dict[str, Host] = {}
        for zone in ("a", "b"):
            self.hosts[zone] = a_host(f"host-{zone}")
            Node.objects.filter(name=f"host-{zone}").update(zone=zone)

    def data(self, name: str = "corpus", **places: Any) -> None:
        """A data set of acme's."""
        dataset_declare(tenant_id=self.acme.tenant.pk, name=name, actor=self.acme.actor, **places)

    def zone_of(self, ticket: Ticket) -> str:
        """Where it went."""
        assert ticket.allocation_id is not None
        return Allocation.objects.select_related("node").get(pk=ticket.allocation_id).node.zone

    def fill(self, zone: str, slots: int = 8) -> None:
        """Another tenant takes slots there."""
        self.globex.order(slots=slots, zones=(zone,))


def last_gate(ticket: Ticket) -> dict[str, Any]:
    """What the capacity gate said."""
    found: dict[str, Any] = Decision.objects.get(pk=ticket.decision_id).gates[-1]
    return found


pytestmark = pytest.mark.django_db(transaction=True)


def order(world: TenantWorld, *datasets: str, **wishes_: Any) -> Ticket:
    """One slot near these data sets."""
    return world.order(slots=1, datasets=datasets, **wishes_)


def test_preferred_data_draws_work_near_and_lets_it_go_elsewhere_when_there_is_no_room() -> None:
    zones = Zones()
    zones.data(zones=["b"], required=False)
    zones.fill("a", 7)  # Without the wish, what is fullest would be taken first.
    near_it = order(zones.acme, "corpus")
    assert zones.zone_of(near_it) == "b"
    gate = last_gate(near_it)
    assert (gate["facts"]["preferred"], gate["facts"]["preferred_met"]) == (["corpus"], ["corpus"])
    assert "near corpus" in gate["detail"]
    zones.fill("b", 7)
    elsewhere = order(zones.acme, "corpus")
    assert zones.zone_of(elsewhere) == "a"
    assert last_gate(elsewhere)["facts"]["preferred_met"] == []
    [locality] = [g for g in elsewhere.decision.gates if g["gate"] == "locality"]
    assert locality["facts"]["preferred"] == ["corpus"]


def test_of_two_wishes_the_one_that_can_be_met_is_met() -> None:
    zones = Zones()
    zones.data("x", zones=["a"], required=False)
    zones.data("y", zones=["b"], required=False)
    zones.fill("a")
    ticket = order(zones.acme, "x", "y")
    assert zones.zone_of(ticket) == "b"
    assert last_gate(ticket)["facts"]["preferred_met"] == ["y"]


@pytest.mark.parametrize("first", ["x", "y"])
def test_the_order_in_the_request_says_which_wish_goes_first(first: str) -> None:
    zones = Zones()
    zones.data("x", zones=["a"], required=False)
    zones.data("y", zones=["b"], required=False)
    other = {"x": "y", "y": "x"}[first]
    ticket = order(zones.acme, first, other)
    assert zones.zone_of(ticket) == {"x": "a", "y": "b"}[first]
    gate = last_gate(ticket)
    assert gate["facts"]["preferred"] == [first, other]
    assert gate["facts"]["preferred_met"] == [first]
    assert f"It is near {first}. Nothing was free that is near {other} as well." in gate["detail"]


def test_near_the_first_goes_before_near_any_number_of_later_ones() -> None:
    data = [
        Data("one", 1, zones=("a",), required=False),
        Data("two", 1, zones=("b",), required=False),
        Data("three", 1, zones=("b", "a"), required=False),
    ]
    found = [wish.names for wish in wishes((), data)]
    assert found == [("one", "three"), ("one",), ("two", "three"), ("two",), ("three",)]
    assert [d.name for d in in_order(data, ("three", "one"))] == ["three", "one", "two"]


def test_a_queued_request_and_a_group_keep_their_wish() -> None:
    zones = Zones()
    zones.data(zones=["b"], required=False)
    zones.fill("a")
    zones.fill("b")
    ticket = order(zones.acme, "corpus", wait=True)
    for row in Allocation.objects.exclude(tenant=zones.acme.tenant):
        assert row.state != "released"
    a_host("host-c")
    cycle_sweep()
    row = Allocation.objects.get(tenant=zones.acme.tenant)
    assert row.node.name == "host-c"
    last = Decision.objects.filter(request=ticket.request_id).latest("created_at")
    assert last.gates[-1]["facts"]["preferred_met"] == []
    fresh = a_host("host-d")
    Node.objects.filter(pk=fresh.node.pk).update(zone="b")
    job = the_workload(run_it(zones.acme, replicas=2, datasets=("corpus",)))
    assert set(job.allocations.values_list("node__name", flat=True)) == {"host-d"}


def test_storage_is_declared_in_versions_by_operators_and_retired() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    with pytest.raises(PermissionDenied):
        storage_declare(name="lustre", kind="parallel", actor=acme.actor)
    storage_declare(name="lustre", kind="parallel", zones=["a"], actor=OPERATOR)
    row = storage_declare(name="lustre", kind="parallel", zones=["b", "a", "a"], actor=OPERATOR)
    assert (row.version, row.zones, row.declared_by["name"]) == (2, ["a", "b"], OPERATOR.name)
    for wrong, pointer in (
        ({"name": "\x00"}, "/name"),
        ({"kind": "Parallel FS"}, "/kind"),
        ({"zones": [""]}, "/zones"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            storage_declare(**{"name": "x", "kind": "y", "actor": OPERATOR, **wrong})  # type: ignore[arg-type]  # one wrong part each
        assert [e.pointer for e in refused.value.errors] == [pointer]
    assert storage_retire(name="lustre", reason="old", actor=OPERATOR) == 2
    with pytest.raises(NotFound):
        storage_retire(name="lustre", reason="old", actor=OPERATOR)
    assert Storage.objects.count() == 2


def test_data_on_storage_binds_work_to_where_the_storage_is_reached() -> None:
    zones = Zones()
    with pytest.raises(InvalidRequest) as unknown:
        zones.data(storage=["lustre"])
    assert [e.pointer for e in unknown.value.errors] == ["/storage"]
    storage_declare(name="lustre", kind="parallel", zones=["b"], actor=OPERATOR)
    zones.data(storage=["lustre"])
    zones.fill("a", 7)
    ticket = order(zones.acme, "corpus")
    assert zones.zone_of(ticket) == "b"
    [gate] = [g for g in ticket.decision.gates if g["gate"] == "locality"]
    assert gate["facts"]["stores"] == ["lustre v1 (parallel): b"]
    assert gate["facts"]["zones"] == ["b"]
    zones.fill("b", 7)
    with pytest.raises(ForbiddenByLocality):
        order(zones.acme, "corpus")
    storage_retire(name="lustre", reason="old", actor=OPERATOR)
    with pytest.raises(StorageNotOffered) as gone:
        order(zones.acme, "corpus")
    assert gone.value.facts["missing"] == ["corpus on lustre"]


def test_a_request_may_need_a_kind_of_storage() -> None:
    zones = Zones()
    storage_declare(name="flash", kind="scratch", zones=["b"], actor=OPERATOR)
    zones.fill("a", 7)
    ticket = order(zones.acme, storage=("scratch",))
    assert zones.zone_of(ticket) == "b"
    with pytest.raises(StorageNotOffered) as gone:
        order(zones.acme, storage=("tape",))
    assert gone.value.facts["missing"] == ["tape"]
    storage_declare(name="flash", kind="scratch", zones=["a"], actor=OPERATOR)
    zones.fill("a", 1)
    with pytest.raises(ForbiddenByLocality):
        order(zones.acme, storage=("scratch",))
    waiting = order(zones.acme, storage=("scratch",), wait=True)
    storage_declare(name="flash", kind="scratch", actor=OPERATOR)
    cycle_sweep()
    placed = Allocation.objects.select_related("node").get(request=waiting.request_id)
    assert placed.node.zone == "b"
