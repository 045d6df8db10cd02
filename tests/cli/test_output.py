"""Does each answer reach standard output in the asked shape, and nothing else there?"""

import json

import pytest
import yaml

from tests.cli.conftest import Run
from tests.cli.fake_server import Call, FakeServer, Reply, listing, pages

SKUS = [
    {
        "name": "h100-slice",
        "shape": "gpu_slice",
        "resource_class": "h100-slot",
        "slots_min": 1,
        "slots_max": 8,
        "price_hour_micro": 2_490_000,
        "state": "published",
    },
    {
        "name": "h100-node",
        "shape": "baremetal",
        "resource_class": "h100-slot",
        "price_hour_micro": 19_000_125,
        "state": "published",
    },
]
OFFERS = [
    {
        "sku": "h100-slice",
        "shape": "gpu_slice",
        "price_hour_micro": 2_490_000,
        "available_now": 12,
        "largest_fit": 8,
        "reason": None,
    },
    {
        "sku": "h100-node",
        "shape": "baremetal",
        "price_hour_micro": 19_000_125,
        "available_now": 0,
        "largest_fit": 0,
        "reason": "no_free_node",
    },
]


@pytest.fixture
def shop(server: FakeServer) -> FakeServer:
    """A server with a catalogue."""
    server.on("GET", "/skus", listing(*SKUS))
    server.on("GET", "/offers", listing(*OFFERS))
    return server


def test_a_table_has_headings_and_exact_prices(run: Run, shop: FakeServer) -> None:
    result = run("sku", "list")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["NAME", "SHAPE", "SLOTS", "CLASS", "PRICE/H", "STATE"]
    assert lines[1].split() == ["h100-slice", "gpu_slice", "1-8", "h100-slot", "2.49", "published"]
    assert lines[2].split()[4] == "19.000125"
    assert result.stderr == ""


def test_an_offer_says_how_much_fits_and_why_not(run: Run, shop: FakeServer) -> None:
    lines = run("offer", "--no-headers").stdout.splitlines()
    assert lines[0].split() == ["h100-slice", "gpu_slice", "2.49", "12", "8", "-"]
    assert lines[1].split()[-1] == "no_free_node"


def test_wide_shows_more_columns(run: Run, shop: FakeServer) -> None:
    assert "TITLE" in run("sku", "list", "-o", "wide").stdout.splitlines()[0]


def test_json_is_the_servers_own_answer(run: Run, shop: FakeServer) -> None:
    assert json.loads(run("sku", "list", "-o", "json").stdout) == SKUS


def test_yaml_is_the_servers_own_answer(run: Run, shop: FakeServer) -> None:
    assert yaml.safe_load(run("sku", "list", "-o", "yaml").stdout) == SKUS


def test_names_can_be_given_to_other_commands(run: Run, shop: FakeServer) -> None:
    assert run("sku", "list", "-o", "name").stdout == "sku/h100-slice\nsku/h100-node\n"
    shop.on("GET", "/skus/h100-slice", SKUS[0])
    assert run("sku", "describe", "sku/h100-slice").exit_code == 0


def test_columns_choose_headings_and_members(run: Run, shop: FakeServer) -> None:
    result = run("sku", "list", "--columns", "name,price_hour_micro", "--no-headers")
    assert result.stdout.splitlines()[0].split() == ["h100-slice", "2490000"]


def test_columns_narrow_json_too(run: Run, shop: FakeServer) -> None:
    result = run("sku", "list", "-o", "json", "--columns", "name,shape")
    assert json.loads(result.stdout)[0] == {"name": "h100-slice", "shape": "gpu_slice"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-o", "json", "sku", "list"),
        ("sku", "-o", "json", "list"),
        ("sku", "list", "-o", "json"),
        ("-o", "yaml", "sku", "list", "--output", "json"),
    ],
)
def test_global_flags_work_at_every_place_and_the_innermost_wins(
    run: Run, shop: FakeServer, arguments: tuple[str]
) -> None:
    assert json.loads(run(*arguments).stdout) == SKUS


def test_the_environment_sets_the_format_and_a_flag_outranks_it(run: Run, shop: FakeServer) -> None:
    assert json.loads(run("sku", "list", GPUAAS_OUTPUT="json").stdout) == SKUS
    assert run("sku", "list", "-o", "name", GPUAAS_OUTPUT="json").stdout.startswith("sku/")


def test_an_empty_listing_is_an_empty_array(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", listing())
    assert json.loads(run("sku", "list", "-o", "json").stdout) == []


def test_no_escape_sequence_of_the_server_reaches_the_terminal(
    run: Run, server: FakeServer
) -> None:
    server.on("GET", "/skus", listing({"name": "evil\x1b[2J\x01red\x02x", "shape": "gpu\nslice"}))
    output = run("sku", "list").stdout
    assert "\x1b" not in output
    assert "\x01" not in output
    assert len(output.splitlines()) == 2


def test_off_a_terminal_nothing_is_coloured(run: Run, shop: FakeServer) -> None:
    assert "\x1b" not in run("sku", "list").output


def test_one_page_is_shown_and_more_is_announced(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", pages([{"name": f"sku-{n}"} for n in range(7)], size=3))
    result = run("sku", "list", "-o", "name")
    assert len(result.stdout.splitlines()) == 3
    assert "--all" in result.stderr


def test_all_follows_every_page(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", pages([{"name": f"sku-{n}"} for n in range(7)], size=3))
    result = run("sku", "list", "-o", "name", "--all")
    assert result.stdout.splitlines() == [f"sku/sku-{n}" for n in range(7)]
    assert len(server.sent("GET", "/skus")) == 3


def test_limit_stops_across_pages(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", pages([{"name": f"sku-{n}"} for n in range(7)], size=3))
    result = run("sku", "list", "-o", "name", "--limit", "5")
    assert len(result.stdout.splitlines()) == 5
    assert [call.query["limit"] for call in server.sent("GET", "/skus")] == ["5", "2"]


def test_a_listing_that_repeats_a_page_is_not_followed_forever(
    run: Run, server: FakeServer
) -> None:
    server.on("GET", "/skus", listing({"name": "again"}, following="c0"))
    result = run("sku", "list", "--all")
    assert result.exit_code == 1
    assert "repeats" in result.stderr


def test_a_next_link_given_as_an_address_is_followed(run: Run, server: FakeServer) -> None:
    def serve(call: Call) -> Reply:
        if call.query.get("cursor") == "abc=":
            return listing({"name": "second"})
        return listing({"name": "first"}, following="/api/v1/skus?limit=1&cursor=abc%3D")

    server.on("GET", "/skus", serve)
    assert run("sku", "list", "--all", "-o", "name").stdout == "sku/first\nsku/second\n"
