"""Do direct links between GPUs decide which slots are chosen, on the meshes that are built?"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.protocol import (
    CompleteRequest,
    DeviceMode,
    Finding,
    TopologyReport,
    UuidSource,
)
from placement.domain.compared import FIRST_CHOICE, compared
from placement.domain.fit import Place, Want, best_option, rank
from placement.domain.links import linked, links_between, with_links
from placement.domain.lookahead import Lookahead
from placement.domain.spans import indices
from placement.domain.wiring import groups, neighbours
from placement.models import Claim, Node
from placement.services import tasks
from placement.services.nodes import discovery_order
from placement.services.slots import lay_out, links_take
from tests.builders import Host, a_catalogue, a_tenant
from tests.placement.meshes import BRIDGES, CUBE, FULL, SQUARE, address, mesh_report
from tests.placement.test_odd_topologies import approved, place_of

EMPTY = 0b1111_1111


def chosen(place: Place, size: int, free: int | None = None) -> list[int]:
    """The slots that a request of this size gets."""
    now = place if free is None else replace(place, free_mask=free)
    option = best_option(now, Want(size))
    assert option is not None
    return indices(option.mask)


def told(place: Place, size: int) -> dict[str, object]:
    """What is said of the choice."""
    option = best_option(place, Want(size))
    assert option is not None
    return option.explained()


def in_words(place: Place, size: int) -> str:
    """The same for people."""
    why = f"it fits{FIRST_CHOICE}{json.dumps(told(place, size))}"
    [choice] = compared(why, None, facts={}, names={})
    return choice.words


def test_a_hybrid_cube_mesh_gives_the_wide_pair_the_wide_triple_and_the_whole_quad() -> None:
    cube = place_of(mesh_report(8, CUBE))
    assert chosen(cube, 2) == [2, 3], "two links and one switch"
    assert chosen(cube, 2, free=0b0000_1011) == [0, 3], "two links beat the one of a switch's pair"
    assert chosen(cube, 3) == [0, 2, 3], "five links in all, the most that a triple has"
    assert chosen(cube, 4) == [0, 1, 2, 3], "the only quads where any two are linked"
    said = told(cube, 4)
    assert (said["nvlink_reach"], said["nvlink_bottleneck"], said["nvlink_links"]) == (
        "direct",
        1,
        9,
    )
    assert told(cube, 6)["nvlink_reach"] == "hop"


def test_what_is_linked_only_over_a_strangers_gpu_counts_as_pcie() -> None:
    cube = place_of(mesh_report(8, CUBE))
    # 0 and 5 meet only over 1 or 4; 1 and 4 have others.
    option = best_option(replace(cube, free_mask=0b0010_0001), Want(2))
    assert option is not None
    assert option.explained()["nvlink_reach"] == "pcie"
    assert chosen(cube, 2, free=0b0110_0001) == [5, 6]


def test_bridged_pairs_are_given_whole_and_a_single_gpu_breaks_none_that_is_whole() -> None:
    bridged = place_of(mesh_report(8, BRIDGES))
    assert chosen(bridged, 2, free=0b1101_0110) == [6, 7]
    assert chosen(bridged, 1, free=0b1111_0100) == [2]
    assert chosen(bridged, 1, free=0b0111_0011) == [6], "whatever its NUMA node has left"
    assert told(bridged, 4)["nvlink_links"] == 24
    assert linked(bridged.layout) is not None
    assert bridged.layout.count("*") == 1, "one number says it all"


def test_a_square_without_diagonals_gives_the_doubled_side() -> None:
    square = place_of(mesh_report(4, SQUARE, numa=4))
    assert chosen(square, 2) == [0, 1]
    assert chosen(square, 2, free=0b1110) == [2, 3]
    assert chosen(square, 2, free=0b0110) == [1, 2]
    assert told(replace(square, free_mask=0b0101), 2)["nvlink_reach"] == "pcie"
    assert told(square, 3)["nvlink_reach"] == "hop"


@pytest.mark.parametrize("size", range(1, 9))
def test_where_all_see_all_alike_the_choice_is_as_without_links(size: int) -> None:
    meshes = [mesh_report(8, FULL), mesh_report(8, {}, switched=dict.fromkeys(range(8), 18))]
    for place in map(place_of, meshes):
        unread = replace(place, layout=with_links(place.layout, None))
        assert place.layout.count("*") == 1
        for free in range(1, 256):
            if free.bit_count() >= size:
                assert chosen(place, size, free) == chosen(unread, size, free)


def test_sixteen_gpus_behind_switches_are_one_domain_as_wide_as_the_narrower_one() -> None:
    place = place_of(mesh_report(16, {}, numa=8, switched=dict.fromkeys(range(16), 6)))
    assert told(place, 16)["nvlink_bottleneck"] == 6
    worn = place_of(mesh_report(16, {}, numa=8, switched=dict.fromkeys(range(16), 6) | {3: 5}))
    assert told(worn, 16)["nvlink_bottleneck"] == 5
    assert 3 not in chosen(worn, 4)
    assert [o.num for o in rank([replace(worn, num=1), replace(place, num=2)], Want(16), limit=2)]
    assert rank([replace(worn, num=1), replace(place, num=2)], Want(16), limit=1)[0].num == 2


def test_a_tray_whose_switches_are_elsewhere_is_all_to_all() -> None:
    tray = place_of(mesh_report(4, {}, numa=2, below=1, switched=dict.fromkeys(range(4), 18)))
    assert told(tray, 4)["nvlink_bottleneck"] == 18
    assert told(tray, 4)["nvlink_reach"] == "direct"


def test_a_pair_that_is_broken_is_room_lost_to_those_who_usually_want_pairs() -> None:
    pairs = Lookahead(((1, 50), (2, 50)))
    bridged = place_of(mesh_report(4, {(0, 1): 4, (2, 3): 4}, below=4))
    assert pairs.growth(bridged.layout, 4, 0b0111, 0b0001) > pairs.growth(
        bridged.layout, 4, 0b0111, 0b0100
    )


def test_isolation_stays_with_what_is_joined_by_any_way() -> None:
    ring = {(k, (k + 1) % 8) if k < 7 else (0, 7): 1 for k in range(8)}
    place = place_of(mesh_report(8, ring, below=1))
    assert neighbours(place.layout, 8) == (EMPTY,) * 8
    assert len({domain for _, _, domain in groups(place.layout)}) == 1


def test_a_bridge_that_was_put_on_after_approval_joins_what_it_links() -> None:
    approved_as = "0.1.9.-|0.2.9.-|0.3..-|0.4..-|0.5..-"
    assert neighbours(approved_as, 5) == (0b00011, 0b00011, 0b00100, 0b01000, 0b10000)
    bridged = with_links(approved_as, {(0, 1): 4, (2, 3): 4})
    assert neighbours(bridged, 5) == (0b00011, 0b00011, 0b01100, 0b01100, 0b10000)
    # Over a GPU of the domain as well: whatever is joined by any way is one.
    chained = with_links(approved_as, {(1, 2): 1, (2, 4): 1})
    assert neighbours(chained, 5) == (0b10111, 0b10111, 0b10111, 0b01000, 0b10111)


def without_nics(report: TopologyReport) -> TopologyReport:
    """The same host, of which it is known that it has no NIC."""
    slots = tuple(replace(slot, nic_mode=DeviceMode.NONE) for slot in report.slots)
    return replace(report, slots=slots)


@pytest.mark.parametrize("code", ["nvlink_unreadable", "nvlink_target_unknown"])
def test_a_gpu_whose_links_could_not_be_read_may_share_them_with_any_other(code: str) -> None:
    report = without_nics(mesh_report(4, {}, below=1, switched=dict.fromkeys(range(3), 18)))
    assert [slot.nvlink_domain for slot in report.slots] == ["nvlink-0"] * 3 + [None]
    alone = place_of(report)
    assert neighbours(alone.layout, 4) == (0b0111, 0b0111, 0b0111, 0b1000)
    found = (*report.findings, Finding(code, "not told", address(3)))
    untold = place_of(replace(report, findings=found))
    assert neighbours(untold.layout, 4) == (0b1111,) * 4
    assert groups(untold.layout) == groups(alone.layout)
    # Of one that was approved with a domain a moment without an answer changes nothing.
    found = (*report.findings, Finding(code, "not told", address(1)))
    assert place_of(replace(report, findings=found)).layout == alone.layout


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.data())))
def test_links_are_read_as_they_were_written(drawn: tuple[int, st.DataObject]) -> None:
    count, data = drawn
    pairs = list(combinations(range(count), 2))
    links = {pair: data.draw(st.integers(0, 40)) for pair in pairs}
    domains = [data.draw(st.sampled_from("01")) for _ in range(count)]
    layout = with_links("|".join(f"0.0.{name}." for name in domains), links)
    found = linked(layout)
    if count > 1:
        assert found is not None
        assert {(a, b): found[a][b] for a, b in pairs} == {
            pair: min(n, 35) for pair, n in links.items()
        }
    assert with_links(layout, None).count(".") == 3 * count
    assert with_links(with_links(layout, None), links) == layout


def remembered(report: TopologyReport) -> TopologyReport:
    """The same host where its first GPU cannot be asked, and nobody knows its links."""
    gpus = (replace(report.gpus[0], uuid_source=UuidSource.REMEMBERED), *report.gpus[1:])
    pci = gpus[0].pci
    links = tuple(link for link in report.nvlinks if pci not in (link.from_, link.to))
    return replace(report, gpus=gpus, nvlinks=links)


def test_what_one_gpu_cannot_say_leaves_the_links_of_the_host_unknown() -> None:
    report = mesh_report(8, CUBE)
    assert links_between(report.to_json())
    assert links_between(remembered(report).to_json()) is None
    assert links_between({}) is None
    assert links_between({**report.to_json(), "nvlinks": []}) is None


def test_links_without_a_number_count_as_one() -> None:
    report = mesh_report(4, SQUARE)
    links = tuple(replace(link, count=None) for link in report.nvlinks)
    found = links_between(replace(report, nvlinks=links).to_json())
    assert found is not None
    assert set(found.values()) == {1}


def test_the_words_for_people_say_how_the_gpus_are_linked() -> None:
    cube = place_of(mesh_report(8, CUBE))
    assert "linked directly, 9 links in all, 1 between the two joined worst" in in_words(cube, 4)
    assert "linked over GPUs of the set, 11 links in all" in in_words(cube, 5)
    assert in_words(replace(cube, free_mask=0b0010_0001), 2).count("GPUs not all linked") == 1
    assert "linked" not in in_words(cube, 1)


@pytest.mark.django_db(transaction=True)
def test_a_hosts_links_follow_its_last_report_and_outlive_the_way_back() -> None:
    a_catalogue()
    report = mesh_report(4, SQUARE)
    host = approved(report, 1)
    node = Node.objects.get(pk=host.node.pk)
    assert linked(node.layout) is None, "it was approved before its report was kept"
    node.topology = report.to_json()
    before = node.generation
    links_take(node)
    assert node.generation == before + 1
    found = linked(node.layout)
    assert found is not None
    assert found[0] == (0, 2, 0, 1)
    links_take(node)
    assert node.generation == before + 1, "nothing has changed"
    node.save()
    try:
        call_command("migrate", "placement", "0022", verbosity=0)
        former = Node.objects.values_list("layout", flat=True).get(pk=node.pk)
        assert former == with_links(node.layout, None)
    finally:
        call_command("migrate", verbosity=0)
    again = Node.objects.get(pk=node.pk)
    assert linked(again.layout) == found
    lay_out(again)
    assert again.layout == node.layout


@pytest.mark.django_db(transaction=True)
def test_a_tenant_that_shares_no_wiring_is_kept_from_a_gpu_whose_links_nobody_read() -> None:
    a_catalogue()
    report = without_nics(mesh_report(4, {}, below=1, switched=dict.fromkeys(range(3), 18)))
    unread = (*report.findings, Finding("nvlink_unreadable", "nvml_unknown", address(3)))
    host = approved(report, 1)
    assert neighbours(discovered(host, report).layout, 4)[3] == 0b1000
    now = discovered(host, replace(report, findings=unread))
    assert neighbours(now.layout, 4)[3] == 0b1111
    lay_out(now)
    assert neighbours(now.layout, 4)[3] == 0b1111
    assert neighbours(discovered(host, report).layout, 4)[3] == 0b1000


def discovered(host: Host, report: TopologyReport) -> Node:
    """The host is told to look, and hands this in as its agent does."""
    discovery_order(host.fresh())
    [task] = host.lease()
    message = CompleteRequest(
        lease_epoch=task.lease_epoch, boot_id=host.boot, result=report.to_json()
    )
    tasks.task_complete(node=host.fresh(), task_id=task.pk, message=message)
    return host.fresh()


@pytest.mark.django_db(transaction=True)
def test_a_lease_follows_the_links_of_the_last_discovery() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    report = mesh_report(4, SQUARE, numa=4)
    host = approved(report, 1)
    assert linked(discovered(host, report).layout) is not None
    # Of the doubled side between 0 and 1 nothing is left: the other one is better now.
    down = tuple(
        link for link in report.nvlinks if {link.from_, link.to} != {address(0), address(1)}
    )
    before = host.fresh().generation
    worn = discovered(host, replace(report, nvlinks=down))
    assert worn.generation > before
    found = linked(worn.layout)
    assert found is not None
    assert found[0][1] == 0
    ticket = acme.order("odd-4.slice", slots=2)
    assert ticket.allocation_id is not None
    held = Claim.objects.filter(allocation_id=ticket.allocation_id)
    assert set(held.values_list("slot_index", flat=True)) == {2, 3}


def test_a_host_too_large_to_try_every_set_gives_whole_pairs() -> None:
    pairs = {(low, low + 9): 4 for low in range(9)}
    layout = with_links("|".join(f"0.{k}.d{k % 9}.{k}" for k in range(18)), pairs)
    place = Place(num=1, generation=1, free_mask=(1 << 18) - 1, slot_count=18, layout=layout)
    [option] = rank([place], Want(8), limit=1)
    taken = {k for k in range(18) if option.mask >> k & 1}
    assert len(taken) == 8
    assert sum(low in taken and high in taken for low, high in pairs) == 4
