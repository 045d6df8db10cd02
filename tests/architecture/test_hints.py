"""Does each step that ways out name exist on each surface, under the words that are told?"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from typer.main import get_command

from gpuaas.cli.main import app
from gpuaas.kernel.errors import ProductError, catalogue
from gpuaas.kernel.hints import STEPS, Surface, read_on, worded
from tests.architecture.tree import files, text

PAGES = ("gpuaas/console/", "gpuaas/portal/", "gpuaas/ui/")


def routes() -> set[tuple[str, str]]:
    """Method and path of every operation of the API, parameters left out."""
    paths: dict[str, Any] = yaml.safe_load(text("docs/openapi.yaml"))["paths"]
    return {
        (method.upper(), re.sub(r"\{[^}]+\}", "*", path.removeprefix("/api/v1")))
        for path, item in paths.items()
        for method in item
    }


def flags(command: Any) -> set[str]:
    """Every option of every command under this one."""
    own = {name for parameter in command.params for name in parameter.opts}
    return own.union(*(flags(inner) for inner in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_step_can_be_taken_on_each_surface(name: str) -> None:
    step, tree = STEPS[name], get_command(app)
    call = re.match(r"(GET|POST|PUT) (/\S+)", step.api)
    if call:
        assert (call[1], re.sub(r"\b[A-Z]{2,}\b", "*", call[2])) in routes()
    told = re.search(r"gpuaas ((?:[a-z-]+ ?)+)(.*)", step.cli)
    if told:
        at: Any = tree
        for word in told[1].split():
            at = at.commands[word] if hasattr(at, "commands") else at
        wanted = set(re.findall(r"--[a-z-]+", told[2]))
        assert wanted <= flags(at), step.cli
    for flag in re.findall(r"^--[a-z-]+", step.cli):
        assert flag in flags(tree)
    if step.label:
        shown = [name for name in files() if name.startswith(PAGES) and step.label in text(name)]
        assert shown or f'step_label "{name}"' in text("gpuaas/portal/templates/portal/launch.html")


def test_every_way_out_is_told_whole_on_each_surface() -> None:
    for entry in catalogue().values():
        for surface, words in entry.ways_out.items():
            assert words.endswith("."), (entry.code, surface)
            assert "{" not in words, (entry.code, surface)


def test_a_page_names_no_command_or_field_and_the_command_line_no_button() -> None:
    pages = {code: entry.ways_out["page"] for code, entry in catalogue().items()}
    assert [
        c for c, told in pages.items() if re.search(r"wait: true|gpuaas (?!-)|POST /", told)
    ] == []
    lines = {code: entry.ways_out["cli"] for code, entry in catalogue().items()}
    assert [c for c, told in lines.items() if "“" in told or "wait: true" in told] == []
    calls = {code: entry.ways_out["api"] for code, entry in catalogue().items()}
    assert [c for c, told in calls.items() if "“" in told or re.search(r"gpuaas (?!-)", told)] == []


def test_an_error_is_told_in_the_words_of_whoever_made_the_request() -> None:
    class Tried(ProductError):
        """Not in the catalogue: it has no code."""

        unblock = "Queue ({wait})."

    told = {}
    for where in Surface:
        with read_on(where):
            told[where] = Tried().unblock
    assert told[Surface.API] == "Queue (wait: true)."
    assert told[Surface.CLI] == "Queue (--queue)."
    assert "checkbox" not in told[Surface.PAGE]
    assert told[Surface.PAGE] == worded("Queue ({wait}).", Surface.PAGE)


def test_a_hint_that_names_no_known_step_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValueError, match="no step is called dance"):

        class Wrong(ProductError):
            """A step that nobody worded."""

            code = "wrong_step_of_a_test"
            unblock = "{dance}."
