"""Is a set found in the fleet's rows if and only if trying everything finds one?"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest
from django.db import transaction

from gpuaas.kernel.errors import ProductError
from placement.domain.terms import Alone
from placement.models import Allocation, Claim, Node
from placement.services.terms import terms_set
from placement.services.workloads import WorkloadOrder, workload_plan
from placement.snapshots.sites import PARTS
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.test_isolation import wired_together

FLEETS, ASKED, SLOTS = 30, 8, 4


def promise(alone: str) -> None:
    """What every slice promises from now on."""
    terms_set(noun="sku", name="h100.slice", reason="test", actor=OPERATOR, alone=alone)


def wired_anyhow(by: Random) -> str:
    """Four slots with wiring of any kind."""
    parts = ("01", ["", "0", "1", "2"], ["", "0", "1"], ["-", "0", "1"])
    return "|".join(".".join(by.choice(part) for part in parts) for _ in range(SLOTS))


def somewhere(by: Random) -> dict[str, str]:
    """A place of a host; what is empty is unknown."""
    return {
        "zone": "z",
        "block": by.choice(["", "b1"]),
        "rack": by.choice(["", "r1", "r2"]),
        "fabric": by.choice(["", "", "f1"]),
    }


def an_order(by: Random) -> WorkloadOrder:
    """A set of any size that stands in any way."""
    return WorkloadOrder(
        kind="job",
        name="set",
        sku="h100.slice",
        slots=by.randint(1, 3),
        replicas=by.randint(1, 5),
        together=by.choice(["", "rack", "block", "fabric", "zone"]),
        close=by.choice(["", "rack"]),
        apart=by.random() < 0.3,
        own=by.choice(["", "", "apart", "with"]),
    )


def open_slots(node: Node, mine: UUID, alone: Alone, own: str) -> int:
    """How many slots of a host are open to a tenant, claim by claim and slot by slot."""
    claims = list(Claim.objects.exclude(state="released").select_related("allocation__node"))
    here = [claim for claim in claims if claim.node_num == node.num]
    if own and any(claim.tenant_id == mine for claim in here) != (own == "with"):
        return 0
    free = set(range(SLOTS)) - {claim.slot_index for claim in here}
    for claim in claims:
        stricter = max(claim.alone, alone)
        if claim.tenant_id == mine or stricter == Alone.SHARES:
            continue
        if claim.node_num == node.num:
            beside = {
                slot for slot in free if wired_together(node.layout, slot, claim.slot_index or 0)
            }
            free -= free if stricter == Alone.NODE else beside
        elif node.fabric and claim.allocation.node.fabric == node.fabric:
            return 0
    return len(free)


def part_of(node: Node, level: str) -> tuple[str, ...] | None:
    """The part of the fleet in which a host stands; None where that is unknown."""
    names = {"": (), "zone": ("zone",), "block": ("zone", "block"), "fabric": ("fabric",)}
    part = tuple(getattr(node, name) for name in names.get(level, ("zone", "block", "rack")))
    return part if not level or part[-1] else None


def exists(world: TenantWorld, order: WorkloadOrder, alone: Alone) -> bool:
    """Whether some part of the fleet has room for all members."""
    room: dict[tuple[str, ...], int] = defaultdict(int)
    single = order.apart or order.own == "apart"
    for node in Node.objects.all():
        part = part_of(node, order.together)
        if part is not None:
            members = open_slots(node, world.tenant.pk, alone, order.own) // (order.slots or 1)
            room[part] += min(members, 1) if single else members
    return max(room.values(), default=0) >= order.replicas


@pytest.mark.django_db
def test_a_set_is_placed_if_and_only_if_some_placement_exists_and_its_plan_says_the_same() -> None:
    a_catalogue(family="h100x4", slots_count=SLOTS)
    worlds = [a_tenant(name, envelope_slots=500) for name in ("acme", "globex", "initech")]
    for k in range(6):
        a_host(f"host-{k}", slots_count=SLOTS, family="h100x4")
    found = {True: 0, False: 0}
    for seed in range(FLEETS):
        by = Random(seed)
        with transaction.atomic():
            for node in Node.objects.all():
                places = somewhere(by)
                Node.objects.filter(pk=node.pk).update(layout=wired_anyhow(by), **places)
            for _ in range(by.randint(0, 6)):
                promise(by.choice(["shares", "shares", "wiring", "node"]))
                _order(by.choice(worlds), by.randint(1, 3))
            for _ in range(ASKED):
                alone = by.choice(list(Alone))
                promise(alone.name.lower())
                world, order = by.choice(worlds), an_order(by)
                expected = exists(world, order, alone)
                plan = workload_plan(
                    tenant_id=world.tenant.pk,
                    project_id=world.project.pk,
                    order=order,
                    actor=world.actor,
                )
                assert (seed, order, plan.fits) == (seed, order, expected)
                assert (seed, order, _runs(world, order)) == (seed, order, expected)
                found[expected] += 1
            transaction.set_rollback(True)
    assert min(found.values()) > FLEETS, found


def _order(world: TenantWorld, slots: int) -> None:
    with suppress(ProductError):
        world.order(slots=slots)


def _runs(world: TenantWorld, order: WorkloadOrder) -> bool:
    """Whether it is placed, and taken back."""
    names = ("slots", "replicas", "together", "close", "apart", "own")
    with transaction.atomic():
        try:
            run_it(world, **{name: getattr(order, name) for name in names})
        except ProductError:
            return False
        finally:
            transaction.set_rollback(True)
    return True


@pytest.mark.django_db
def test_a_rack_is_found_behind_a_page_of_tighter_ones_that_are_closed_by_a_promise() -> None:
    a_catalogue(family="h100x2", slots_count=2)
    acme, globex = a_tenant("acme"), a_tenant("globex", envelope_slots=200)
    for k in range(PARTS + 2):
        a_host(f"host-{k}", slots_count=2, family="h100x2")
        Node.objects.filter(name=f"host-{k}").update(zone="z", block="b", rack=f"r{k}")
    for _ in range(PARTS + 1):
        globex.order(slots=1, own="apart")
    promise("wiring")
    ticket = run_it(acme, replicas=2, slots=1, together="rack")
    rows = Allocation.objects.filter(workload=the_workload(ticket))
    racks = set(rows.values_list("node__rack", flat=True))
    theirs = Allocation.objects.filter(tenant=globex.tenant)
    assert len(racks) == 1
    assert not racks & set(theirs.values_list("node__rack", flat=True))
