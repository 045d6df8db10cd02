"""Can a script take from an answer just what it needs, and is it told when it cannot be written?"""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pytest

from gpuaas.cells import inert
from gpuaas.cli.jsonpath import picked
from gpuaas.cli.problems import UsageError
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, FakeServer, listing
from tests.cli.test_output import SKUS

NODES = {"items": [{"name": "a", "free": 3, "labels": {"x y": "1"}}, {"name": "b", "free": None}]}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].name}", "a b"),
        (".items[*].name", "a b"),
        ("items[0].name", "a"),
        ("{.items[-1].name}", "b"),
        ("$.items[0]['name']", "a"),
        ('{.items[0].labels["x y"]}', "1"),
        ("{.items[*].free}", "3 null"),
        ("{.items[0]}", '{"name": "a", "free": 3, "labels": {"x y": "1"}}'),
        ("{.items[7].name}", ""),
        ("{.nothing.at.all}", ""),
        ("{.items[0].name[0]}", ""),
        ("first {.items[0].name}\\n", "first a\n"),
        ("{.items[0].name}{'\\t'}{.items[0].free}", "a\t3"),
    ],
)
def test_a_path_picks_what_it_leads_to(template: str, text: str) -> None:
    assert picked(template, NODES) == text


@pytest.mark.parametrize("template", ["{.items[}", "{.items", "items}{", "{.items[x]}", "{..name}"])
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(UsageError):
        picked(template, NODES)


def test_every_format_is_chosen_by_its_flag(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", listing(*SKUS))
    assert run("sku", "list", "--json").stdout == run("sku", "list", "-o", "json").stdout
    assert run("--json", "sku", "list").stdout == run("sku", "list", "-o", "json").stdout
    assert run("sku", "list", "-o", "jsonpath={.items[*].name}").stdout == "h100-slice h100-node\n"
    rows = list(csv.reader(io.StringIO(run("sku", "list", "-o", "csv").stdout)))
    assert rows[0][:2] == ["NAME", "SHAPE"]
    assert "FAMILY" in rows[0]
    assert [row[0] for row in rows[1:]] == ["h100-slice", "h100-node"]
    few = run("sku", "list", "-o", "csv", "--no-headers", "--columns", "name,state").stdout
    assert few.splitlines() == ["h100-slice,published", "h100-node,published"]
    server.on("GET", "/skus", listing({**SKUS[0], "state": None}))
    nothing = run("sku", "list", "-o", "csv", "--no-headers", "--columns", "name,state").stdout
    assert nothing == "h100-slice,\n"
    refused = run("sku", "list", "-o", "xml")
    assert refused.exit_code == 2
    assert "csv, jsonpath=TEMPLATE" in refused.stderr
    assert run("sku", "list", "-o", "jsonpath={.items").exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_answer_that_cannot_be_written_is_told_without_a_traceback(
    server: FakeServer, home: Path
) -> None:
    server.on("GET", "/skus", listing(*SKUS))
    command = [sys.executable, "-m", "gpuaas.cli.main", "sku", "list", "-o", "json"]
    environ = {"GPUAAS_SERVER": server.url, "GPUAAS_TOKEN": TOKEN, "HOME": str(home)}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environ,
            cwd=Path(__file__).parents[2],
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        "error: cannot write the answer: No space left on device",
    ]


def test_no_cell_of_a_sheet_is_run_as_a_formula() -> None:
    assert inert('=HYPERLINK("http://evil.test")') == '\'=HYPERLINK("http://evil.test")'
    assert [inert(text) for text in ("+1", "@x", "\tx", "-1", "acme", "")] == [
        "'+1",
        "'@x",
        "'\tx",
        "'-1",
        "acme",
        "",
    ]
