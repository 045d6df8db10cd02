"""How does a test read one thing over REST, at the command line, on a page and in the metrics?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.test import Client

from tests.api.client import Caller, an_operator, caller_of, operator_caller, token_of
from tests.builders import TenantWorld
from tests.cli.test_live import Terminal
from tests.portal.conftest import Browser


@dataclass
class Reader:
    """One principal on three surfaces."""

    rest: Caller
    terminal: Terminal
    browser: Browser

    def page(self, address: str) -> str:
        """The page at an address."""
        answer = self.browser.get(address)
        assert answer.status_code == 200, (address, answer.status_code)
        return answer.content.decode()

    def line(self, *arguments: str) -> str:
        """All that a command says, on both streams."""
        result = self.terminal.run(*arguments)
        return f"{result.stdout}{result.stderr}"


def an_owner(world: TenantWorld, server: str, home: Path) -> Reader:
    """A tenant's owner."""
    terminal = Terminal(server, home / world.tenant.slug, token_of(world.owner, world))
    return Reader(caller_of(world), terminal, Browser.of(world.owner))


def a_platform_operator(server: str, home: Path) -> Reader:
    """A person of the platform."""
    reader = operator_caller("rest@platform.test")
    user = an_operator("pages@platform.test")
    return Reader(reader, Terminal(server, home / "operator", token_of(user)), Browser.of(user))


def metrics() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample that Prometheus would read, by name and labels."""
    found = {}
    for line in Client().get("/metrics").content.decode().splitlines():
        parts = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        if parts:
            labels = frozenset(re.findall(r'(\w+)="([^"]*)"', parts[2] or ""))
            found[parts[1], labels] = float(parts[3])
    return found


def decided(**labels: str) -> float:
    """How many decisions carry these labels."""
    wanted = set(labels.items())
    return sum(
        value
        for (name, has), value in metrics().items()
        if name == "gpuaas_admission_decisions_total" and wanted <= has
    )


def standing(code: str) -> float:
    """How many things stand now under a code."""
    return metrics().get(("gpuaas_reasons_standing", frozenset({("code", code)})), 0)


def code_on(page: str) -> set[str]:
    """Every reason code that a page shows, each as a link to its explanation."""
    return set(re.findall(r'<a href="/docs/reasons/\w+"><code>(\w+)</code></a>', page))


def codes_in(told: Any) -> set[str]:
    """Every value under ``code`` in an answer, however deep."""
    if isinstance(told, dict):
        own = {told["code"]} if isinstance(told.get("code"), str) else set()
        return own.union(*(codes_in(inner) for inner in told.values()))
    if isinstance(told, list):
        return set().union(*(codes_in(inner) for inner in told))
    return set()
