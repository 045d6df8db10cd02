"""Is every GPU on the map of the fleet, coloured and counted as asked, and so in the list?"""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.console.fleet_map import (
    AGE,
    CHOICES,
    FILTERS,
    HEALTH,
    POSTURE,
    SEVERAL,
    TENANT,
    Cell,
    age_of,
    cells_of,
    legend_of,
    lump_cells,
    shades_of,
    tiles_of,
)
from gpuaas.console.views import fleet as views
from gpuaas.kernel import clock
from placement.models import Claim, DeviceHealth, Node, Slot
from placement.selectors.fleet import FleetGpu, FleetNode, fleet_lumps, fleet_nodes
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
TILE = re.compile(r'<i class="([^"]+)" title="([^"]+)">([^<]*)</i>')
MOST_BYTES_A_NODE = 1600
"""Of eight tiles with their titles, the link and the host in words."""


def page_of(fleet: Fleet, query: str = "") -> str:
    answer = fleet.browser().get(f"/console/fleet/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def tiles_in(html: str) -> list[tuple[str, str, str]]:
    return [(a, unescape(b), unescape(c)) for a, b, c in TILE.findall(html)]


def lines_of(fleet: Fleet, query: str = "") -> list[dict[str, str]]:
    answer = fleet.browser().get(f"/console/fleet.csv{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def counts_in(html: str) -> dict[str, int]:
    legend = html[html.index('aria-label="Legend: ') :]
    legend = legend[: legend.index("</div>")]
    found = re.findall(r'</i></span>([^<]+) <span class="muted">(\d+)</span>', legend)
    return {unescape(word): int(n) for word, n in found}


def more_nodes(fleet: Fleet, count: int) -> None:
    """Hosts with eight GPUs each, of which one is held and one is unhealthy."""
    pool, claim = fleet.verifying.pool, Claim.objects.filter(tenant=fleet.acme.tenant).first()
    assert claim is not None
    made = [
        Node(
            name=f"bulk-{n:04d}",
            pool=pool,
            zone=f"eu-{n % 3}",
            rack=f"r{n // 8:03d}",
            state="ready",
            health="ok",
            schedulable=True,
            observed_at=clock.db_now(),
        )
        for n in range(count)
    ]
    Node.objects.bulk_create(made)
    made = list(Node.objects.filter(name__startswith="bulk-").order_by("name"))
    Slot.objects.bulk_create(
        Slot(
            node=node,
            index=k,
            state="approved",
            gpu_uuid=f"GPU-{node.num:08d}-{k}",
            gpu_index=k,
            nic_mode="none",
        )
        for node in made
        for k in range(8)
    )
    DeviceHealth.objects.bulk_create(
        DeviceHealth(
            node=node,
            gpu_uuid=f"GPU-{node.num:08d}-7",
            classification="unhealthy",
            since=NOW,
            checked_at=NOW,
        )
        for node in made
    )


def test_every_gpu_is_a_tile_that_leads_to_its_host(fleet: Fleet) -> None:
    html = page_of(fleet)
    tiles = tiles_in(html[html.index('class="stack"') :])
    assert len(tiles) == 16
    assert 'href="/console/nodes/host-1/"' in html
    assert 'href="/console/nodes/host-2/"' in html
    assert ("blocked o1", "GPU 0: cleanup blocked, in use, acme, healthy", "C") in tiles


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        (
            "posture",
            {"cleanup blocked": 8, "unavailable": 8, "draining": 0, "fully available": 0},
        ),
        ("tenant", {"acme": 2, "held by the platform": 1, "nobody": 13, "several": 0}),
        ("health", {"healthy": 8, "unknown": 8, "unhealthy": 0}),
        ("age", {"up to a minute": 8, "never reported": 8, "more than an hour": 0}),
    ],
)
def test_each_choice_has_a_legend_that_counts_every_gpu(
    fleet: Fleet, by: str, counts: dict[str, int]
) -> None:
    html = page_of(fleet, f"?by={by}")
    assert counts_in(html).items() >= counts.items()
    assert sum(counts_in(html).values()) == 16


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?posture=unavailable", 8),
        ("?tenant=acme", 2),
        ("?tenant=~platform", 1),
        ("?by=health&tenant=~none&health=healthy", 5),
        ("?age=never&cut=whole", 8),
        ("?cut=mig", 0),
        ("?health=unhealthy", 0),
    ],
)
def test_map_list_and_sheet_tell_the_same_gpus(fleet: Fleet, query: str, left: int) -> None:
    html = page_of(fleet, query)
    on_map = tiles_in(html[html.index("</h1>") :])
    on_map = [tile for tile in on_map if tile[1].startswith("GPU ")]
    listed = page_of(fleet, f"{query}&view=list")
    rows = re.findall(r'<tr><th scope="row" class="nowrap">', listed)
    assert (len(on_map), len(rows), len(lines_of(fleet, query))) == (left, left, left)


def test_a_line_of_the_sheet_has_everything_that_a_tile_can_show(fleet: Fleet) -> None:
    (line, _) = lines_of(fleet, "?tenant=acme")
    assert line["last_report"] == fleet.host.fresh().observed_at.isoformat()  # type: ignore[union-attr]  # it reported
    assert {name: line[name] for name in ("node", "gpu", "posture", "state", "tenant")} == {
        "node": "host-1",
        "gpu": "0",
        "posture": "cleanup_blocked",
        "state": "in use",
        "tenant": "acme",
    }
    assert (line["health"], line["sold"]) == ("healthy", "whole")


def test_the_choice_and_its_filters_are_links_that_keep_each_other(fleet: Fleet) -> None:
    html = page_of(fleet, "?by=tenant&health=healthy&cut=whole")
    hrefs = [unescape(one) for one in re.findall(r'class="chip" href="([^"]+)"', html)]
    assert "?by=health&health=healthy&cut=whole" in hrefs
    assert "?by=tenant&health=healthy&cut=whole&tenant=acme" in hrefs
    assert "?by=tenant&cut=whole" in hrefs
    assert "?by=tenant" in hrefs


@pytest.mark.parametrize(
    "query", ["posture=x", "tenant=x", "health=x", "age=x", "cut=x", "by=x", "view=x"]
)
def test_a_state_that_there_is_not_is_told_with_its_field(fleet: Fleet, query: str) -> None:
    answer = fleet.browser().get(f"/console/fleet/?{query}")
    assert answer.status_code == 400
    assert f"There is no {query[:-2]} &#x27;x&#x27;" in answer.content.decode()


def test_the_sheet_is_for_operators(fleet: Fleet) -> None:
    assert Browser.of(fleet.acme.owner).get("/console/fleet.csv").status_code == 404
    assert len(lines_of(fleet)) == 16


def test_a_gpu_of_a_node_that_takes_no_work_is_not_shown_as_free(fleet: Fleet) -> None:
    fleet.host.report("iommu_missing")
    states = [line["state"] for line in lines_of(fleet, "?tenant=~none&posture=unavailable")]
    assert states.count("not leasable") == 5
    assert "free" not in states
    assert "healthy on a degraded host" in page_of(fleet, "?by=health&health=host_degraded")


@pytest.mark.parametrize("by", CHOICES)
def test_the_page_asks_as_much_for_a_hundred_nodes_as_for_ten(fleet: Fleet, by: str) -> None:
    def asked() -> int:
        browser = fleet.browser()
        with CaptureQueriesContext(connection) as queries:
            browser.get(f"/console/fleet/?by={by}")
        return len(queries)

    more_nodes(fleet, 10)
    few = asked()
    Node.objects.filter(name__startswith="bulk-").delete()
    more_nodes(fleet, 100)
    assert asked() == few
    assert few <= 24


@pytest.mark.parametrize("by", CHOICES)
def test_a_node_adds_a_bounded_number_of_bytes(fleet: Fleet, by: str) -> None:
    bare = len(page_of(fleet, f"?by={by}").encode())
    more_nodes(fleet, 100)
    assert (len(page_of(fleet, f"?by={by}").encode()) - bare) / 100 < MOST_BYTES_A_NODE


def test_a_long_list_comes_in_parts(fleet: Fleet) -> None:
    more_nodes(fleet, 60)
    first = page_of(fleet, "?view=list")
    assert first.count('<tr><th scope="row" class="nowrap">') == 400
    assert "?view=list&amp;cursor=400" in first
    rest = page_of(fleet, "?view=list&cursor=400")
    assert rest.count('<tr><th scope="row" class="nowrap">') == 96


def a_gpu(index: int = 0, **more: object) -> FleetGpu:
    given: dict[str, object] = {"uuid": f"GPU-{index}", "cut": "whole", "state": "free"}
    given |= {"health": "healthy", "tenants": (), "platform": False, "parts": 0}
    return FleetGpu(index=index, **{**given, **more})  # type: ignore[arg-type]  # the fields' own


def cells(*gpus: FleetGpu) -> list[Cell]:
    node = FleetNode("n1", "eu", "", "r1", "partially_allocated", NOW, gpus)
    return cells_of([node], NOW)


@pytest.mark.parametrize("choice", FILTERS)
def test_no_two_states_of_a_choice_look_alike(choice: str) -> None:
    many = tuple((f"t{n}", f"tenant {n}") for n in range(20))
    shades = shades_of(choice, cells(a_gpu(tenants=many))).values()
    if choice in CHOICES:
        assert len({shade.sign for shade in shades}) == len(shades)
    assert len({(s.cls, s.key if choice == "cut" else "") for s in shades}) == len(shades)


@pytest.mark.parametrize("cut", ["mig", "share"])
def test_a_gpu_sold_in_parts_says_so_on_its_tile_and_names_all_its_tenants(cut: str) -> None:
    both = (("acme", "Acme"), ("globex", "Globex"))
    found = cells(a_gpu(cut=cut, parts=2, tenants=both, state="in_use"))
    tiles = tiles_of(found[0].node, found, TENANT, shades_of(TENANT, found))
    ((cls, title, sign),) = tiles_in(tiles.drawn)
    assert (cls, sign) == (f"ended o4 {cut}", "++")
    word = {"mig": "in MIG parts", "share": "in shares"}[cut]
    assert title == f"GPU 0: in use, Acme, Globex, healthy, {word}, 2 held"


def test_a_gpu_that_several_hold_counts_for_each_of_them() -> None:
    both = (("acme", "Acme"), ("globex", "Globex"))
    found = cells(a_gpu(cut="mig", parts=2, tenants=both), a_gpu(1, tenants=both[:1]))
    legend = legend_of(TENANT, shades_of(TENANT, found), found, {}, {"by": TENANT})
    counts = {entry.shade.key: entry.count for entry in legend}
    assert (counts["acme"], counts["globex"], counts[SEVERAL]) == (2, 1, 1)


def test_a_tenants_name_is_escaped_on_a_tile() -> None:
    found = cells(a_gpu(tenants=(("x", "<b>&"),), state="in_use"))
    tiles = tiles_of(found[0].node, found, TENANT, shades_of(TENANT, found))
    assert "<b>" not in tiles.drawn
    assert tiles_in(tiles.drawn)[0][1:] == ("GPU 0: in use, <b>&, healthy", "<B")


@pytest.mark.parametrize(
    ("seconds", "key"),
    [
        (0, "1m"),
        (60, "1m"),
        (61, "5m"),
        (300, "5m"),
        (3600, "1h"),
        (3601, "older"),
        (None, "never"),
    ],
)
def test_a_report_s_age_falls_into_one_span(seconds: int | None, key: str) -> None:
    at = None if seconds is None else NOW - timedelta(seconds=seconds)
    assert age_of(at, NOW) == key


def test_a_host_without_gpus_is_in_its_place_and_counts_none() -> None:
    found = cells_of([FleetNode("n1", "", "", "", "unavailable", None, ())], NOW)
    tiles = tiles_of(found[0].node, found, POSTURE, shades_of(POSTURE, found))
    assert (tiles.words, tiles.drawn) == ("n1: no GPU known yet", "")
    for choice in (POSTURE, HEALTH, AGE):
        legend = legend_of(choice, shades_of(choice, found), found, {}, {})
        assert sum(entry.count for entry in legend) == 0


LINK = re.compile(r'<a href="(\?[^"]*rack=[^"]*)" aria-label="([^"]+)"><b>')


def racks_in(html: str) -> dict[str, str]:
    return {unescape(words): unescape(href) for href, words in LINK.findall(html)}


def test_a_fleet_with_too_many_hosts_is_shown_by_rack_and_a_rack_by_gpu(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_nodes(fleet, 32)
    whole = counts_in(page_of(fleet, "?by=health"))
    monkeypatch.setattr(views, "MOST_HOSTS", 10)
    html = page_of(fleet, "?by=health")
    assert counts_in(html) == whole
    racks = racks_in(html)
    told = "r001, 3 hosts: 21 healthy, 3 unhealthy"
    assert told in racks
    inside = page_of(fleet, racks[told])
    assert "zone: eu-" in inside
    assert len(tiles_in(inside[inside.index('class="stack"') :])) == 24
    assert not racks_in(inside)


def test_a_rack_with_too_many_hosts_is_turned_page_by_page(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    more_nodes(fleet, 24)
    Node.objects.filter(name__startswith="bulk-").update(zone="eu-9", rack="r9")
    monkeypatch.setattr(views, "MOST_HOSTS", 10)
    seen: list[str] = []
    query = "?zone=eu-9&block=~none&rack=r9"
    for start in ("", "&cursor=10", "&cursor=20"):
        html = page_of(fleet, query + start)
        seen += re.findall(r'href="/console/nodes/(bulk-\d+)/"', html)
    assert seen == [f"bulk-{n:04d}" for n in range(24)]
    assert "More hosts" not in html


def test_a_rack_that_is_not_there_is_refused_by_name(fleet: Fleet) -> None:
    answer = fleet.browser().get("/console/fleet/?rack=r404")
    assert answer.status_code == 400
    assert "r404" in answer.content.decode()


def test_lumps_count_what_the_tiles_show(fleet: Fleet) -> None:
    more_nodes(fleet, 5)
    now = clock.db_now()
    for choice in FILTERS:
        counted: list[dict[str, int]] = []
        for cells in (lump_cells(fleet_lumps(), now), cells_of(fleet_nodes(), now)):
            entries = legend_of(choice, shades_of(choice, cells), cells, {}, {})
            counted.append({entry.shade.key: entry.count for entry in entries})
        assert counted[0] == counted[1]
