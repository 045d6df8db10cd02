"""Does the drawing of a host say what its topology and its slots say?"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from gpuaas.console.layout import TILE_W, lay_out
from gpuaas.console.picture import describe, draw
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from placement.domain.picture import (
    ClaimFact,
    NodePicture,
    SlotFact,
    initials_of,
    picture_from,
    shown_state,
)
from tests.placement.meshes import CUBE, FULL, mesh_report
from tests.topologies import topology_file

HOSTS = {
    # file: NUMA nodes, GPUs, devices that are one slot's alone, devices drawn as shared
    "azure-ndv5-topo.xml": (2, 8, 8, 0),
    "azure-ndv4-topo.xml": (4, 8, 8, 0),
    "azure-ncv4-topo.xml": (4, 4, 0, 0),
    "aws-p4d-24xl-topo.xml": (2, 8, 0, 4),
    "hwloc-nvidiaDGX2.xml": (2, 16, 0, 0),
}


def report(name: str) -> dict[str, Any]:
    """The topology report of a fixture, as JSON."""
    return topology_report(load_topology_file(topology_file(name)), "host-1").to_json()


def slots_of(topology: dict[str, Any], state: str = "approved", **more: Any) -> list[SlotFact]:
    """A slot row for every candidate of the report."""
    return [
        SlotFact(
            index=raw["index"],
            state=state,
            gpu_uuid=raw["gpu_uuid"] or "",
            gpu_index=raw["gpu_index"],
            nic=raw["nic"],
            nic_mode=raw["nic_mode"],
            nvme=raw["nvme"],
            nvme_mode=raw["nvme_mode"],
            **more,
        )
        for raw in topology["slots"]
    ]


def picture(name: str) -> NodePicture:
    """A fixture with every slot approved and two of them claimed."""
    topology = report(name)
    claims = [
        ClaimFact(0, "active", "tenant", "Acme Robotics", "train"),
        ClaimFact(1, "cleanup_blocked", "platform", "blue-ocean", "infer"),
    ]
    return picture_from(topology, slots_of(topology), claims)


@pytest.mark.parametrize(("name", "expected"), HOSTS.items())
def test_every_host_is_drawn_with_its_columns_gpus_and_devices(
    name: str, expected: tuple[int, int, int, int]
) -> None:
    shown = picture(name)
    devices = {d.id: d for c in shown.columns for b in c.switches for d in b.devices}
    alone = [d for d in devices.values() if len(d.users) == 1 and not d.shared]
    shared = [d for d in devices.values() if d.shared]
    assert (len(shown.columns), len(shown.tiles()), len(alone), len(shared)) == expected
    svg = draw(shown, name="n1")
    root = ElementTree.fromstring(svg)
    labels = ["".join(t.itertext()) for t in root.iter("text")]
    assert sum(bool(re.fullmatch(r"GPU \d+", label)) for label in labels) == expected[1]
    assert sum("shared by slots" in label for label in labels) == expected[3]


@pytest.mark.parametrize("name", HOSTS)
def test_no_two_parts_of_a_drawing_lie_on_each_other(name: str) -> None:
    layout = lay_out(picture(name))
    tiles = list(layout.tiles().values())
    for n, one in enumerate(tiles):
        for other in tiles[n + 1 :]:
            apart = (
                one.x + TILE_W <= other.x
                or other.x + TILE_W <= one.x
                or one.bottom <= other.y
                or other.bottom <= one.y
            )
            assert apart, f"GPU {one.tile.index} lies on GPU {other.tile.index}"
    for column in layout.columns:
        assert all(b.y + b.h <= column.h and b.x + b.w <= column.x + column.w for b in column.boxes)
        assert column.x + column.w <= layout.width


@pytest.mark.parametrize("name", HOSTS)
def test_the_drawing_has_a_role_a_title_a_description_and_no_style(name: str) -> None:
    svg = draw(picture(name), name="n1")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    title = root.find(f"./*[@id='{root.get('aria-labelledby')}']")
    words = root.find(f"./*[@id='{root.get('aria-describedby')}']")
    assert title is not None
    assert title.text
    assert words is not None
    assert "1 in use" in (words.text or "")
    assert " style=" not in svg
    assert "<script" not in svg


def test_what_is_unknown_is_hatched_and_says_so() -> None:
    svg = draw(picture("azure-ncv4-topo.xml"), name="n1")
    assert "UUID unknown" in svg
    assert "memory unknown" in svg
    assert "url(#n1-unknown)" not in svg
    assert svg.count("url(#pic-n1-unknown)") >= 4
    known = draw(picture("hwloc-nvidiaDGX2.xml"), name="n1")
    assert "UUID unknown" not in known


def test_a_partly_linked_domain_is_drawn_as_links_and_a_switched_one_as_a_bar() -> None:
    gpus = [
        {"index": n, "uuid": f"GPU-{n}", "pci": f"0000:0{n}:00.0", "numa": 0, "nvlink_domain": "d"}
        for n in range(4)
    ]
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    links = [
        {"from": gpus[a]["pci"], "to": gpus[b]["pci"], "count": 2 if a else None} for a, b in ring
    ]
    partial = picture_from({"gpus": gpus, "nvlinks": links, "numa": [{"id": 0}]}, (), ())
    assert [(a, b) for a, b, _ in partial.domains[0].links] == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert draw(partial, name="n").count('class="nvlink"') == 3
    assert draw(partial, name="n").count('class="nvlink unknown"') == 1
    switched = picture_from({"gpus": gpus, "nvswitches": [{}] * 6, "numa": [{"id": 0}]}, (), ())
    assert switched.domains[0].links == ()
    assert "6 NVSwitches" in draw(switched, name="n")


def test_a_full_mesh_of_uneven_links_is_drawn_and_an_even_one_says_how_many() -> None:
    cube = mesh_report(8, CUBE).to_json()
    shown = picture_from(cube, slots_of(cube), ())
    assert len(shown.domains[0].links) == 16
    quad = mesh_report(4, {pair: n for pair, n in CUBE.items() if max(pair) < 4}).to_json()
    uneven = picture_from(quad, slots_of(quad), ())
    assert len(uneven.domains[0].links) == 6, "any two are linked, but not alike"
    assert "0 to 3 by 2" in describe(uneven)
    even = mesh_report(8, FULL).to_json()
    assert picture_from(even, (), ()).domains[0].links == ()
    assert "all see all, 1 link each" in draw(picture_from(even, (), ()), name="n")
    switched = mesh_report(8, {}, switched=dict.fromkeys(range(8), 18)).to_json()
    assert picture_from(switched, (), ()).domains[0].width == 18
    worn = mesh_report(8, {}, switched=dict.fromkeys(range(8), 18) | {2: 17}).to_json()
    assert picture_from(worn, (), ()).domains[0].width is None


def test_a_whole_node_claim_marks_every_slot() -> None:
    topology = report("azure-ndv5-topo.xml")
    claim = ClaimFact(-1, "active", "tenant", "Acme Robotics", "big")
    shown = picture_from(topology, slots_of(topology), [claim])
    assert [(m.state, m.initials) for m in shown.marks()] == [("in_use", "AR")] * 8


@pytest.mark.parametrize(
    ("slot_state", "claim_state", "draining", "expected"),
    [
        ("approved", None, False, "free"),
        ("approved", None, True, "draining"),
        ("approved", "active", True, "in_use"),
        ("approved", "reserved", False, "reserved"),
        ("blocked", "cleanup_blocked", False, "cleanup_blocked"),
        ("blocked", None, True, "blocked"),
        ("candidate", None, False, "candidate"),
    ],
)
def test_what_holds_a_slot_is_shown_before_what_it_is_ready_for(
    slot_state: str, claim_state: str | None, draining: bool, expected: str
) -> None:
    slot = SlotFact(0, slot_state, "GPU-0", 0, draining=draining)
    claim = ClaimFact(0, claim_state, "tenant", "t", "a") if claim_state else None
    assert shown_state(slot, claim) == expected


def test_names_from_outside_cannot_break_out_of_the_drawing() -> None:
    evil = '"><script>alert(1)</script>'
    topology = {
        "hostname": evil,
        "numa": [{"id": 0, "cpuset": evil}],
        "gpus": [{"index": 0, "uuid": evil, "model": evil, "numa": 0, "switch": evil}],
        "nics": [{"id": evil, "numa": 0, "switch": evil, "kind": evil}],
        "switches": [{"id": evil}],
    }
    claim = ClaimFact(0, "active", "tenant", evil, evil)
    shown = picture_from(topology, [SlotFact(0, "approved", evil, 0, reason=evil)], [claim])
    svg = draw(shown, name="n1")
    assert "<script" not in svg
    ElementTree.fromstring(svg)


def test_a_host_that_was_never_discovered_says_so() -> None:
    empty = picture_from({}, (), ())
    assert not empty.known
    assert "Nothing has been discovered" in describe(empty)
    ElementTree.fromstring(draw(empty, name="n1"))


@pytest.mark.parametrize(
    ("name", "letters"), [("Acme Robotics", "AR"), ("blue-ocean", "BO"), ("solo", "SO"), ("", "")]
)
def test_initials_stand_for_a_name(name: str, letters: str) -> None:
    assert initials_of(name) == letters
