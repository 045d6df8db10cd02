"""Is the set that is searched for the best there is, and does the search end?"""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from placement.domain.fit import Place, Want, best_option
from placement.domain.searched import WORK, Search, grown
from placement.domain.spans import indices, remainder, sets, spans_of
from placement.domain.wiring import groups
from tests.placement.meshes import BRIDGES, CUBE, FULL, SQUARE, mesh_report
from tests.placement.odd_hosts import file_report, odd_report
from tests.placement.test_odd_topologies import place_of
from tests.topologies import topology_file

SMALL = [
    *(place_of(mesh_report(8, links)) for links in (CUBE, BRIDGES, FULL)),
    place_of(mesh_report(4, SQUARE)),
    place_of(file_report(topology_file("rccl-topo_8p_pcie_1.xml"))),
    *(place_of(odd_report(seed)) for seed in range(60) if len(odd_report(seed).slots) <= 12),
]
"""Hosts of which every set can be looked at."""
EVEN = [
    (20, 10, 4, 0), (32, 8, 2, 0), (32, 16, 4, 18), (48, 12, 4, 18), (62, 16, 8, 18),
]  # fmt: skip
"""Slots, slots of a NUMA node and of a switch, links of each to NVSwitches."""


def some_masks(place: Place) -> list[tuple[int, int]]:
    """Free slots, and those of them that are open."""
    by, full = Random(place.slot_count), place.free_mask
    free = [full, by.randint(1, full), by.randint(1, full)]
    return [*((mask, mask) for mask in free), (free[1], free[1] & by.randint(1, full))]


def ranked(place: Place, free: int, mask: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What orders a set."""
    return spans_of(place.layout, indices(mask)), remainder(place.layout, free, mask)


def test_a_search_finds_what_a_look_at_every_set_does() -> None:
    compared = 0
    for place in SMALL:
        for free, usable in some_masks(place):
            for size in range(1, usable.bit_count() + 1):
                search = Search(place.layout, free, usable, size)
                masks = [mask for _, mask in sets(place.layout, size) if not mask & ~usable]
                assert search.best() == min(masks, key=lambda mask: ranked(place, free, mask))
                assert search.proven
                compared += 1
    assert compared > 700


def least_spanned(place: Place, free: int, size: int) -> tuple[int, int, int]:
    """NUMA nodes, switches and free slots left beside, where all GPUs see each other alike."""
    room: dict[str, dict[str, int]] = {}
    for slot in indices(free):
        numa, switch, _ = groups(place.layout)[slot]
        below = room.setdefault(numa, {})
        below[switch] = below.get(switch, 0) + 1
    for count in range(1, len(room) + 1):
        found = []
        for chosen in combinations(room, count):
            switches = sorted((n for numa in chosen for n in room[numa].values()), reverse=True)
            if sum(switches) >= size:
                least = next(k for k in range(len(switches)) if sum(switches[: k + 1]) >= size)
                found.append((count, least + 1, sum(switches) - size))
        if found:
            return min(found)
    raise AssertionError("it does not fit")


@pytest.mark.parametrize(("count", "numa", "below", "switched"), EVEN)
def test_on_hosts_of_many_gpus_that_see_each_other_alike_nothing_spans_less(
    count: int, numa: int, below: int, switched: int
) -> None:
    links = dict.fromkeys(range(count), switched) if switched else {}
    place = place_of(mesh_report(count, {}, numa=numa, below=below, switched=links))
    for free, _ in some_masks(place):
        for size in range(2, free.bit_count()):
            search = Search(place.layout, free, free, size)
            spans, rest = ranked(place, free, search.best())
            told = (spans[2], spans[4], rest[1])
            if search.proven:
                assert told == least_spanned(place, free, size)
            else:
                assert count > 48


@pytest.mark.parametrize("width", [2, 4])
def test_on_hosts_of_many_islands_the_set_is_no_worse_than_a_grown_one_and_the_search_ends(
    width: int,
) -> None:
    islands = {(a, b): 4 for b in range(32) for a in range(b) if a // width == b // width}
    place = place_of(mesh_report(32, islands, numa=8, below=2))
    better = proven = looked = 0
    for free, _ in some_masks(place):
        for size in range(2, free.bit_count()):
            search = Search(place.layout, free, free, size)
            found = ranked(place, free, search.best())
            first = ranked(place, free, grown(place.layout, free, size))
            assert found <= first
            assert search.steps <= WORK // free.bit_count()
            better, proven, looked = better + (found < first), proven + search.proven, looked + 1
    assert better > looked // 4
    assert proven > looked * 3 // 4


def test_a_request_on_a_host_of_many_gpus_is_given_the_best_of_them() -> None:
    place = place_of(mesh_report(32, {}, numa=16, below=4, switched=dict.fromkeys(range(32), 18)))
    free = sum(1 << k for k in (0, 1, 4, 8, 9, 10, 17, 18, 19, 20, 21, 22, 23))
    worn = Place(1, 0, free, 32, place.layout, 0, ())
    option = best_option(worn, Want(5))
    assert option is not None
    assert indices(option.mask) == [0, 1, 8, 9, 10]
    whole = best_option(worn, Want(4))
    assert whole is not None
    assert indices(whole.mask) == [20, 21, 22, 23]
