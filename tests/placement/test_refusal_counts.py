"""Does a refusal count, for each constraint there is, exactly the hosts that it removed?

One made fleet, all through the engine on PostgreSQL. Each case changes some of its hosts, asks,
and expects the whole account: how many hosts each constraint removed, and the nearest miss.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from gpuaas.kernel import clock
from gpuaas.kernel.errors import ProductError
from placement.models import Defragmentation, Node, NodeFamily, Pool
from placement.services import maintenance, nodes, refusals
from placement.services.maintenance import Selector
from placement.services.terms import terms_set
from placement.snapshots import census
from tenants.models import Sku
from tenants.services.datasets import dataset_declare
from tests.admission.test_workloads import run_it
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.test_isolation import PAIRED

pytestmark = pytest.mark.django_db(transaction=True)


class Fleet:
    """Five hosts of eight slots in pairs, in two zones; two tenants."""

    def __init__(self) -> None:
        a_catalogue()
        self.acme, self.globex = a_tenant("acme"), a_tenant("globex")
        self.hosts = [a_host(f"host-{k}") for k in range(5)]
        Node.objects.update(layout=PAIRED, zone="a", rack="r1")
        self.these(3, 4).update(zone="b", rack="r2")

    def these(self, *which: int) -> Any:
        """The rows of some hosts."""
        return Node.objects.filter(name__in=[f"host-{k}" for k in which])

    def shut(self, *which: int) -> None:
        """Nothing comes to these hosts, as if each had lost a card: the rest of the fleet."""
        for k in which:
            self.hosts[k].report("gpu_lost")

    def alone(self, level: str = "shares", **more: str) -> None:
        """What a slice promises from now on."""
        terms_set(noun="sku", name="h100.slice", alone=level, reason="test", actor=OPERATOR, **more)

    def take(self, world: TenantWorld, slots: int, *which: int) -> None:
        """A tenant holds slots of each of these hosts."""
        for k in which:
            zone = self.these(k).get().zone
            self.these(k).update(zone="here")
            world.order(slots=slots, zones=("here",))
            self.these(k).update(zone=zone)
        assert self.these(*which).filter(free_count=8 - slots).count() == len(which)


def refusal(act: Callable[[], object]) -> ProductError:
    """Why it is refused."""
    with pytest.raises(ProductError) as refused:
        act()
    return refused.value


def asked(fleet: Fleet, **wishes: Any) -> dict[str, Any]:
    """The facts of acme's refusal."""
    return refusal(lambda: fleet.acme.order(**{"slots": 8, **wishes})).facts


def the_size(fleet: Fleet) -> dict[str, Any]:
    fleet.these(3, 4).update(slot_count=4, free_mask=0xF, free_count=4)
    fleet.take(fleet.globex, 1, 0, 1, 2)
    return asked(fleet)


def another_family(fleet: Fleet) -> dict[str, Any]:
    NodeFamily.objects.create(name="a100x8", title="a100x8", slots=8)
    for host in ("other-1", "other-2", "other-3"):
        a_host(host, family="a100x8")
    fleet.take(fleet.globex, 1, 0, 1, 2, 3, 4)
    return asked(fleet)


def another_pool(fleet: Fleet) -> dict[str, Any]:
    fleet.these(3, 4).update(pool=Pool.objects.create(name="spare"))
    fleet.take(fleet.globex, 1, 0, 1, 2)
    return asked(fleet)


def another_zone(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 3, 4)
    return asked(fleet, zones=("b",))


def data_elsewhere(fleet: Fleet) -> dict[str, Any]:
    dataset_declare(
        tenant_id=fleet.acme.tenant.pk,
        name="corpus",
        racks=("r1",),
        required=True,
        actor=fleet.acme.actor,
    )
    fleet.take(fleet.globex, 1, 0, 1, 2)
    return asked(fleet, datasets=("corpus",))


def affinity(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.acme, 1, 0, 1)
    return asked(fleet, own="with")


def anti_affinity(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.acme, 1, 0, 1)
    fleet.take(fleet.globex, 1, 2, 3, 4)
    return asked(fleet, own="apart")


def a_host_of_ones_own(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 0, 1, 2)
    fleet.shut(3, 4)
    fleet.alone("node")
    return asked(fleet, slots=1)


def beside_who_was_promised(fleet: Fleet) -> dict[str, Any]:
    fleet.alone("node")
    fleet.take(fleet.globex, 1, 0, 1)
    fleet.alone("shares")
    fleet.shut(2, 3, 4)
    return asked(fleet, slots=1)


def wiring(fleet: Fleet) -> dict[str, Any]:
    """Seven of eight slots are left, of which one shares its switch, link and NIC's rail."""
    fleet.take(fleet.globex, 1, 0, 1, 2, 3, 4)
    fleet.alone("wiring")
    return asked(fleet, slots=7)


def nics(fleet: Fleet) -> dict[str, Any]:
    Sku.objects.filter(name="h100.slice").update(exclusive_nic=True)
    Node.objects.update(exclusive_mask=0xFF)
    fleet.these(0, 1).update(exclusive_mask=0x0F)
    fleet.shut(2, 3, 4)
    return asked(fleet)


def spread(fleet: Fleet) -> dict[str, Any]:
    return refusal(lambda: run_it(fleet.acme, replicas=6, slots=1, apart=True)).facts


def one_rack(fleet: Fleet) -> dict[str, Any]:
    return refusal(lambda: run_it(fleet.acme, replicas=4, slots=8, together="rack")).facts


def more_together_than_fit(fleet: Fleet) -> dict[str, Any]:
    fleet.shut(2, 3, 4)
    return refusal(lambda: run_it(fleet.acme, replicas=3, slots=8)).facts


def behind_who_waits(fleet: Fleet) -> dict[str, Any]:
    fleet.shut(2, 3, 4)
    fleet.take(fleet.globex, 8, 1)
    fleet.shut(0)
    fleet.globex.order(slots=8, wait=True)
    fleet.hosts[0].report()
    return asked(fleet)


def draining(fleet: Fleet) -> dict[str, Any]:
    for k in (0, 1, 2):
        nodes.node_drain(node_id=fleet.hosts[k].node.pk, reason="work", actor=OPERATOR)
    fleet.take(fleet.globex, 1, 3, 4)
    return asked(fleet)


def planned_maintenance(fleet: Fleet) -> dict[str, Any]:
    starts = clock.db_now() + timedelta(hours=2)
    maintenance.window_plan(
        selector=Selector(nodes=("host-0", "host-1")),
        starts_at=starts,
        ends_at=starts + timedelta(hours=1),
        reason="firmware",
        actor=OPERATOR,
    )
    fleet.take(fleet.globex, 1, 2, 3, 4)
    return asked(fleet)


def out_of_service(fleet: Fleet) -> dict[str, Any]:
    nodes.node_maintain(node_id=fleet.hosts[0].node.pk, reason="work", actor=OPERATOR)
    nodes.node_quarantine(node_id=fleet.hosts[1].node.pk, reason="odd", actor=OPERATOR)
    fleet.take(fleet.globex, 1, 2, 3, 4)
    return asked(fleet)


def ill(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 2, 3, 4)
    fleet.shut(0, 1)
    return asked(fleet)


def silent(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 1, 2, 3, 4)
    fleet.these(0).update(health="unknown", schedulable=False)
    return asked(fleet)


def not_ready(fleet: Fleet) -> dict[str, Any]:
    fresh = nodes.node_create(name="fresh", actor=OPERATOR)
    Node.objects.filter(pk=fresh.pk).update(family=NodeFamily.objects.get(name="h100x8"))
    fleet.take(fleet.globex, 1, 0, 1, 2, 3, 4)
    return asked(fleet)


def not_promoted(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 2, 3, 4)
    fleet.these(0, 1).update(takes="baremetal")
    return asked(fleet)


def meant_otherwise(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 2, 3, 4)
    fleet.these(0, 1).update(intended="baremetal", takes="baremetal")
    return asked(fleet)


def driver(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 2, 3, 4)
    fleet.alone(driver_min="550", driver_below="580")
    Node.objects.update(driver=[560])
    fleet.these(0).update(driver=[535, 104])
    fleet.these(1).update(driver=[])
    return asked(fleet)


def runtime(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 2, 3, 4)
    fleet.alone(runtime_min="12.4")
    Node.objects.update(runtime=[12, 6])
    fleet.these(0, 1).update(runtime=[11, 8])
    return asked(fleet)


def whole(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 0, 1, 2, 3, 4)
    return asked(fleet, sku="h100.node", slots=None)


def room_being_made(fleet: Fleet) -> dict[str, Any]:
    fleet.take(fleet.globex, 1, 1, 2, 3, 4)
    Defragmentation.objects.create(
        pool=Pool.objects.get(name="default"),
        host=Node.objects.get(name="host-0"),
        sku="h100.slice",
        slots=8,
        digest="x",
        reason="room",
        run_id=fleet.acme.tenant.pk,
    )
    fleet.these(0).update(schedulable=False)
    return asked(fleet)


@pytest.mark.parametrize(
    ("act", "removed", "nearest"),
    [
        pytest.param(
            the_size,
            {"size_of_node": 2, "free_slots": 3},
            ("free_slots", 7),
            id="sku: hosts too small",
        ),
        pytest.param(another_family, {"free_slots": 5}, ("free_slots", 7), id="family"),
        pytest.param(another_pool, {"free_slots": 3}, ("free_slots", 7), id="pool"),
        pytest.param(another_zone, {"locality": 3, "free_slots": 2}, ("free_slots", 7), id="zone"),
        pytest.param(
            data_elsewhere, {"locality": 2, "free_slots": 3}, ("free_slots", 7), id="data"
        ),
        pytest.param(
            affinity, {"tenant_affinity": 3, "free_slots": 2}, ("free_slots", 7), id="affinity"
        ),
        pytest.param(
            anti_affinity,
            {"tenant_affinity": 2, "free_slots": 3},
            ("free_slots", 7),
            id="anti-affinity",
        ),
        pytest.param(
            a_host_of_ones_own,
            {"device_health": 2, "node_isolation": 3},
            ("node_isolation", 7),
            id="co-tenancy",
        ),
        pytest.param(
            beside_who_was_promised,
            {"device_health": 3, "other_tenants_isolation": 2},
            ("other_tenants_isolation", 7),
            id="co-tenancy of others",
        ),
        pytest.param(wiring, {"wiring_isolation": 5}, ("wiring_isolation", 7), id="wiring"),
        pytest.param(
            nics, {"device_health": 3, "exclusive_nic": 2}, ("exclusive_nic", 8), id="nic"
        ),
        pytest.param(spread, {"spread": 5}, ("spread", 8), id="spread"),
        pytest.param(one_rack, {"together_level": 5}, ("together_level", 8), id="rack"),
        pytest.param(
            more_together_than_fit,
            {"device_health": 3, "other_replicas": 2},
            ("other_replicas", 8),
            id="replicas",
        ),
        pytest.param(
            behind_who_waits,
            {"device_health": 3, "free_slots": 1, "kept_for_waiting": 1},
            ("kept_for_waiting", 8),
            id="waiting",
        ),
        pytest.param(
            draining, {"node_draining": 3, "free_slots": 2}, ("free_slots", 7), id="drain"
        ),
        pytest.param(
            planned_maintenance,
            {"maintenance_window": 2, "free_slots": 3},
            ("free_slots", 7),
            id="maintenance by plan",
        ),
        pytest.param(
            out_of_service,
            {"node_in_service": 2, "free_slots": 3},
            ("free_slots", 7),
            id="maintenance",
        ),
        pytest.param(
            ill, {"device_health": 2, "free_slots": 3}, ("free_slots", 7), id="device health"
        ),
        pytest.param(silent, {"node_silent": 1, "free_slots": 4}, ("free_slots", 7), id="silence"),
        pytest.param(
            not_ready, {"node_not_ready": 1, "free_slots": 5}, ("free_slots", 7), id="readiness"
        ),
        pytest.param(
            not_promoted,
            {"capability_evidence": 2, "free_slots": 3},
            ("free_slots", 7),
            id="promotion",
        ),
        pytest.param(
            meant_otherwise,
            {"intended_use": 2, "free_slots": 3},
            ("free_slots", 7),
            id="intended use",
        ),
        pytest.param(
            driver, {"driver_version": 2, "free_slots": 3}, ("free_slots", 7), id="driver"
        ),
        pytest.param(
            runtime, {"runtime_version": 2, "free_slots": 3}, ("free_slots", 7), id="runtime"
        ),
        pytest.param(whole, {"whole_node_free": 5}, ("whole_node_free", 7), id="whole node"),
        pytest.param(
            room_being_made,
            {"node_held": 1, "free_slots": 4},
            ("free_slots", 7),
            id="room being made",
        ),
    ],
)
def test_a_refusal_counts_exactly_what_each_constraint_removed(
    act: Callable[[Fleet], dict[str, Any]], removed: dict[str, int], nearest: tuple[str, int]
) -> None:
    facts = act(Fleet())
    assert facts["removed"] == removed
    assert facts["nodes"] == sum(removed.values())
    assert facts["nearest"] == {"constraint": nearest[0], "free": nearest[1]}


def test_hosts_of_other_families_and_pools_are_counted_as_not_asked() -> None:
    fleet = Fleet()
    fleet.these(3, 4).update(pool=Pool.objects.create(name="spare"))
    facts = another_family_beside(fleet)
    assert facts["not_asked"] == {"other_family": 1, "other_pool": 2}
    assert facts["nodes"] == 3


def another_family_beside(fleet: Fleet) -> dict[str, Any]:
    """A refusal in a fleet of two families and two pools."""
    NodeFamily.objects.create(name="a100x8", title="a100x8", slots=8)
    a_host("other-1", family="a100x8")
    fleet.take(fleet.globex, 1, 0, 1, 2)
    return asked(fleet)


def test_a_pool_for_others_is_what_removed_all_of_its_hosts() -> None:
    error = refusal(lambda: dedicated_order(Fleet()))
    assert error.code == "pool_dedicated"
    assert (error.facts["removed"], error.facts["nodes"]) == ({"pool_dedicated": 5}, 5)


def dedicated_order(fleet: Fleet) -> None:
    """An order in a pool that is another tenant's."""
    terms_set(
        noun="pool", name="default", tenants=[fleet.globex.tenant.pk], reason="x", actor=OPERATOR
    )
    fleet.acme.order(slots=8)


def test_room_that_changes_while_it_is_counted_is_nobodys_isolation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet()
    fleet.take(fleet.globex, 1, 0, 1, 2, 3, 4)

    def counted(*about: Any) -> Any:
        """The count, at a moment at which somebody had given back and nobody had taken yet."""
        room = fleet.these(0).get()
        fleet.these(0).update(free_mask=0xFF, free_count=8)
        try:
            return census(*about)
        finally:
            fleet.these(0).update(free_mask=room.free_mask, free_count=room.free_count)

    monkeypatch.setattr(refusals, "census", counted)
    error = refusal(lambda: fleet.acme.order(slots=8))
    assert error.code == "sku_unavailable"
    assert error.facts["removed"] == {"free_slots": 4, "room_changed": 1}
    fleet.alone("wiring")
    fleet.globex.order(slots=1)
    assert refusal(lambda: fleet.acme.order(slots=8)).code == "forbidden_by_topology"
