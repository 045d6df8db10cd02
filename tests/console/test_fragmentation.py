"""Does an operator see what idle capacity cannot be used, in a picture and in a table alike?"""

from __future__ import annotations

import pytest

from placement.services import nodes
from tests.api.client import operator_caller
from tests.builders import BOTH_KINDS, OPERATOR, a_host, a_parts_catalogue, cut_slots
from tests.console.conftest import Fleet

pytestmark = pytest.mark.django_db


def test_the_page_says_in_words_what_its_picture_shows(fleet: Fleet) -> None:
    html = fleet.browser().get("/console/fragmentation/").content.decode()
    assert "1 with 5 open" in html
    assert "1 idle and of no use" in html
    assert "cleanup blocked" in html
    assert "the largest request that fits has 5" in html
    assert 'href="/console/fragmentation/" aria-current="page"' in html


def test_operators_read_the_same_numbers_over_rest_and_in_the_metrics(fleet: Fleet) -> None:
    nodes.node_drain(node_id=fleet.host.node.pk, reason="work", actor=OPERATOR, slot_index=7)
    operator = operator_caller()
    items = operator.get("/fragmentation?sku=h100.slice").json()["items"]
    (told,) = items
    assert (told["slots"], told["idle"], told["open"], told["largest_fit"]) == (8, 6, 4, 4)
    assert {s["cause"]: s["slots"] for s in told["stranded"]} == {
        "cleanup_blocked": 1,
        "draining": 1,
    }
    assert told["fits"][2] == {"size": 4, "now": 1, "ideal": 1}
    assert told["free_by_host"] == [{"free": 4, "hosts": 1}]
    assert operator.get("/fragmentation?sku=none").status_code == 404
    text = fleet.browser().get("/metrics").content.decode()
    assert 'gpuaas_largest_fit_slots{pool="default",sku="h100.slice"} 4.0' in text
    assert 'gpuaas_slots_stranded{cause="draining",pool="default",sku="h100.slice"} 1.0' in text
    assert 'gpuaas_slots_open{pool="default",sku="h100.slice"} 4.0' in text


def test_parts_of_gpus_are_told_on_the_page_over_rest_and_in_the_metrics(fleet: Fleet) -> None:
    a_parts_catalogue()
    cut_slots(a_host("parts-1", parts=BOTH_KINDS), "mig", 0, 1)
    operator = operator_caller()
    items = operator.get("/fragmentation?sku=h100.3g").json()
    assert items["items"] == []
    (told,) = items["parts"]
    assert (told["part"], told["cut_slots"], told["parts_now"]) == ("3g.40gb", 2, 4)
    assert (told["idle_milli"], told["open_milli"], told["largest_fit"]) == (2000, 2000, "7g.80gb")
    assert {"part": "1g.10gb", "now": 14, "ideal": 14} in told["fits"]
    shares = operator.get("/fragmentation?sku=h100.tenth").json()["parts"][0]
    assert [(one["cause"], one["milli"]) for one in shares["stranded"]] == [("cut_otherwise", 2000)]
    html = fleet.browser().get("/console/fragmentation/").content.decode()
    assert "4 of 3g.40gb fit now" in html
    assert "Of 2000 thousandths of cut GPUs: 2000 free for 3g.40gb" in html
    text = fleet.browser().get("/metrics").content.decode()
    assert 'gpuaas_parts_open{pool="default",sku="h100.3g"} 4.0' in text
    line = 'gpuaas_parts_stranded_milli{cause="cut_otherwise",pool="default",sku="h100.tenth"}'
    assert f"{line} 2000.0" in text
