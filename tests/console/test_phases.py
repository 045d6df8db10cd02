"""Does an operator see how long leases of each SKU take, in words and in a bar?"""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.console.phases import Cell, phase_rows
from gpuaas.kernel.families import Observation
from gpuaas.kernel.measuring import add, measures_sweep
from placement.measures import PHASES
from placement.selectors import phases_by_sku
from tests.console.conftest import Fleet
from tests.kernel.factories import all_sealed

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/console/allocations/"


def some(phase: str, seconds: float, times: int = 1, sku: str = "h100.slice") -> None:
    add([Observation(PHASES, ("gpu_slice", phase, sku), seconds)] * times)


def test_before_anything_was_counted_the_page_says_nothing_of_it(fleet: Fleet) -> None:
    assert "How long leases take" not in fleet.browser().get(PAGE).content.decode()


def test_leases_that_were_made_and_given_back_stand_in_a_row_of_their_sku(fleet: Fleet) -> None:
    all_sealed()
    measures_sweep()
    html = fleet.browser().get(PAGE).content.decode()
    row = re.search(r'<th scope="row">h100\.slice.*?</tr>', html, re.S)
    assert row
    assert '<td class="num">2</td>' in row[0]
    assert row[0].count("under 1 s") >= 3
    assert 'class="spread phases"' in row[0]


def test_half_and_nineteen_of_twenty_are_told_and_all_bars_have_one_scale() -> None:
    some("until_active", 15, 90)
    some("until_active", 100, 10)
    some("until_active", 700, sku="h100.node")
    some("placed", 3)
    rows, reach = phase_rows(phases_by_sku())
    node, slice_ = rows
    assert reach == "1 h"
    assert (slice_.sku, slice_.handed_over) == ("h100.slice", 100)
    assert slice_.before == (None, Cell("4 s", "5 s"), None)
    assert slice_.whole == Cell("16 s", "1 min 30 s")
    assert node.whole == Cell("20 min", "29 min")
    assert node.cleaned is None
    widths = [float(found) for found in re.findall(r'width="([\d.]+)"', slice_.bar)]
    assert widths == pytest.approx([1000 * 15.6 / 3600, 1000 * (90 - 15.6) / 3600], rel=0.01)


def test_the_page_takes_one_statement_for_it_however_many_leases_there_were(fleet: Fleet) -> None:
    some("until_active", 15, 500)
    with CaptureQueriesContext(connection) as seen:
        phases_by_sku()
    assert len(seen) == 1
