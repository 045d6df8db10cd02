"""Does placement choose the best slots on every wiring there is, and on hosts nobody has built?

The engine reads what discovery made of a topology file. The real hosts' files and two hundred
made ones go through it; up to eight GPUs the choice is compared with every other set of slots.
"""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from gpuaas.kernel.transitions import advance
from nodeagent.protocol import TopologyReport
from placement.domain.fit import Held, Place, Want, best_option, taken
from placement.domain.terms import Alone, Terms
from placement.errors import NodeStateRefused
from placement.models import Allocation, Node, NodeCapability, NodeFamily, Slot
from placement.services import approvals, nodes
from placement.services.allocations import allocation_release
from placement.services.candidates import slot_fields
from placement.services.slots import layout_of, slots_take
from tenants.services import catalogue
from tests.builders import (
    BOOT,
    CLASS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_tenant,
    drive_all,
)
from tests.placement.meshes import mesh_report
from tests.placement.odd_hosts import file_report, odd_report
from tests.placement.test_fit import AHEAD, by_hand
from tests.placement.test_isolation import broken
from tests.topologies import topology_files

ODD = 200
REAL = Path(os.environ.get("TOPOLOGIES", "/nowhere"))
TENANTS = (UUID(int=1), UUID(int=2))


def place_of(report: TopologyReport) -> Place:
    """The host as the engine sees it when all of it is free."""
    slots = [Slot(**slot_fields(one, one.index, 1), index=one.index) for one in report.slots]
    layout, mask = layout_of(slots, report.to_json())
    count = len(slots)
    return Place(1, 0, (1 << count) - 1, count, layout, mask, ())


def fleet() -> list[TopologyReport]:
    """Every host that is looked at."""
    real = [*topology_files(), *sorted(REAL.glob("*.xml"))]
    reports = [*map(file_report, real), *map(odd_report, range(ODD))]
    return [report for report in reports if report.slots]


def below(report: TopologyReport, mask: int) -> set[str]:
    """Every switch that some of these slots are below, however many others are between."""
    above = {switch.id: switch.parent for switch in report.switches}
    found: set[str] = set()
    for slot in report.slots:
        name = slot.switch if mask >> slot.index & 1 else None
        while name is not None:
            found.add(name)
            name = above[name]
    return {name for name in found if not name.startswith("host-bridge")}


def some_free(place: Place, by: Random) -> list[Place]:
    """The host empty, and with some of its slots taken in three ways."""
    full = place.free_mask
    masks = [full, *(by.randint(0, full) for _ in range(3))]
    return [
        Place(1, 0, mask, place.slot_count, place.layout, place.exclusive_mask, ())
        for mask in masks
    ]


def test_the_made_hosts_are_as_odd_as_they_are_meant_to_be() -> None:
    reports = [odd_report(seed) for seed in range(ODD)]
    assert {len(report.gpus) for report in reports} >= {1, 3, 5, 6, 7, 10, 16}
    assert any(not report.nvlinks for report in reports)
    assert any(len(report.nvlinks) and report.slots[-1].nvlink_domain is None for report in reports)
    assert any(len({gpu.numa for gpu in report.gpus}) > 2 for report in reports)
    assert any(gpu.numa is None for report in reports for gpu in report.gpus)
    holding = [{gpu.switch for gpu in report.gpus} for report in reports]
    assert any(
        switch.id not in gpus
        for report, gpus in zip(reports, holding, strict=True)
        for switch in report.switches
    )
    assert any(switch.parent for report in reports for switch in report.switches)
    assert any(slot.nic_mode.value == "shared" for report in reports for slot in report.slots)


def test_on_every_wiring_the_choice_is_the_best_there_is_by_the_documented_order() -> None:
    compared = 0
    for number, report in enumerate(fleet()):
        by = Random(number)
        for place in some_free(place_of(report), by):
            for size in range(1, place.slot_count + 1):
                for want in (Want(size), Want(size, exclusive_nic=True)):
                    found = best_option(place, want, AHEAD)
                    if place.slot_count <= 8:
                        expected = by_hand(place, want)
                        told = None if found is None else (found.score, found.mask)
                        assert told == expected, (report.hostname, place, want)
                        compared += 1
                    elif found is not None:
                        assert found.mask.bit_count() == size
                        assert not found.mask & ~place.free_mask
                    else:
                        usable = place.free_mask
                        usable &= place.exclusive_mask if want.exclusive_nic else usable
                        assert usable.bit_count() < size
    assert compared > 5_000


def test_a_whole_host_is_had_when_all_of_it_is_free_and_only_then() -> None:
    for report in fleet():
        place = place_of(report)
        option = best_option(place, Want(0), AHEAD)
        assert option is not None
        assert option.mask == place.free_mask
        without = taken(place, best_option(place, Want(1), AHEAD) or option, Want(1))
        assert best_option(without, Want(0), AHEAD) is None


def test_wiring_promised_alone_is_nobody_elses_on_any_host() -> None:
    alone = Terms(alone=Alone.WIRING)
    for number, report in enumerate(fleet()):
        place, by = place_of(report), Random(number)
        held: list[Held] = []
        for turn in range(place.slot_count):
            want = Want(by.randint(1, 3), terms=alone, tenant=TENANTS[turn % 2])
            option = best_option(place, want, AHEAD)
            if option is not None:
                place = taken(place, option, want)
                held.append(Held(want.tenant, option.mask, Alone.WIRING))
        assert broken(place.layout, held) == [], report.hostname
        for one, other in combinations(held, 2):
            if one.tenant != other.tenant:
                shared = below(report, one.mask) & below(report, other.mask)
                assert shared == set(), report.hostname


def test_a_disk_or_nic_that_a_slot_has_alone_is_the_nearest_and_nobody_elses() -> None:
    alone = 0
    for report in fleet():
        numa = {card.id: card.numa for card in report.nics}
        numa |= {card.id: card.numa for card in report.nvmes}
        given: list[str] = []
        for slot in report.slots:
            if slot.nvme_mode.value == "exclusive" and slot.nvme:
                given += [slot.nvme, *slot.extra_nvmes]
            if slot.nic_mode.value == "exclusive" and slot.nic:
                given += [slot.nic, *slot.extra_nics]
            for name in filter(None, (slot.nvme, slot.nic)):
                assert numa[name] == slot.numa, report.hostname
        assert len(given) == len(set(given)), report.hostname
        alone += len(given)
    assert alone > 100


def approved(report: TopologyReport, number: int, *, kept: bool = False) -> Host:
    """The host joins, is discovered and approved, and says that it is well.

    ``kept``: its report was remembered before.
    """
    count = len(report.slots)
    family = f"odd-{count}"
    fresh = not NodeFamily.objects.filter(name=family).exists()
    NodeFamily.objects.get_or_create(name=family, defaults={"title": family, "slots": count})
    if fresh:
        for shape, most in (("gpu_slice", count), ("baremetal", 1)):
            sku = f"{family}.{'slice' if shape == 'gpu_slice' else 'node'}"
            catalogue.sku_create(
                name=sku,
                title=sku,
                shape=shape,
                family=family,
                resource_class=CLASS,
                hour_micro=1,
                actor=OPERATOR,
                slots_max=most,
                units_milli=1000 if shape == "gpu_slice" else 1000 * count,
            )
            catalogue.sku_publish(sku=sku, actor=OPERATOR)
    node = nodes.node_create(name=f"odd-{number}", actor=OPERATOR)
    Node.objects.filter(pk=node.pk).update(boot_id=BOOT, topology=report.to_json() if kept else {})
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots_take(node, report, actor=OPERATOR)
    node = approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family=family)
    host = Host(node)
    host.report()
    return host


def leased(world: TenantWorld, host: Host, sku: str, **wishes: int) -> Allocation:
    """A lease on this host, running."""
    Node.objects.filter(pk=host.node.pk).update(zone=host.node.name)
    ticket = world.order(sku, zones=(host.node.name,), **wishes)
    host.work()
    row = Allocation.objects.get(request_id=ticket.request_id)
    assert (row.node_id, row.state) == (host.node.pk, "active")
    return row


def given_back(world: TenantWorld, host: Host, *rows: Allocation) -> None:
    """All are released, proven, and had again."""
    for row in rows:
        allocation_release(allocation_id=row.pk, reason="", actor=world.actor)
        drive_all()
    host.work()
    assert host.fresh().free_count == host.fresh().slot_count


@pytest.mark.django_db(transaction=True)
def test_a_host_of_more_gpus_than_a_node_has_slots_is_refused_when_it_is_to_be_approved() -> None:
    a_catalogue()
    with pytest.raises(NodeStateRefused, match="has 72 GPUs; a node has at most 62 slots"):
        approved(mesh_report(72, {}), 0)
    assert Slot.objects.filter(state="approved").count() == 0


@pytest.mark.django_db(transaction=True)
def test_slots_and_whole_hosts_are_leased_and_proven_on_real_and_odd_hosts() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=10_000)
    real = [file_report(path) for path in topology_files()]
    reports = [*(report for report in real if report.slots), *map(odd_report, range(11))]
    whole = sliced = 0
    unfit = 0
    for number, report in enumerate(reports):
        host = approved(report, number)
        count, takes = len(report.slots), host.fresh().takes
        if takes in ("any", "baremetal"):
            given_back(acme, host, leased(acme, host, f"odd-{count}.node"))
            whole += 1
        if takes in ("any", "slices"):
            sizes = [1] if count == 1 else [1, count - 1]
            rows = [leased(acme, host, f"odd-{count}.slice", slots=size) for size in sizes]
            assert host.fresh().free_count == 0
            given_back(acme, host, *rows)
            sliced += 1
        if takes == "none":
            missing = NodeCapability.objects.filter(node=host.node).values_list("misses", flat=True)
            assert all(missing), "what a host is not fit for says what it misses"
            unfit += 1
    assert whole == sliced == len(reports) - unfit
    assert unfit <= 3
