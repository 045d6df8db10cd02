"""Who gets what from every address?  Held against a file that a reviewer can read.

After an intended change: ``WRITE_MATRIX=1 pytest tests/security/test_matrix.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from gpuaas.api import limits
from gpuaas.api.routes import Route, routes
from tests.api.client import Caller
from tests.security.world import (
    CANARY,
    COLUMNS,
    World,
    a_world,
    asked,
    body_of,
    missing_of,
)

pytestmark = pytest.mark.django_db

GOLDEN = Path(__file__).with_name("matrix.txt")
STRANGERS = ("no-token", "expired", "other-tenant", "other-node")
ENDPOINTS = [(route, method) for route in routes() for method in route.methods]
NAMES = [f"{method} {route.name}" for route, method in ENDPOINTS]
# Nobody's name but the caller's own request and the clock may differ between two answers.
FLEETING = {"X-Request-ID", "RateLimit"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    # The sweep asks more than a stranger may in a minute; limits have tests of their own.
    monkeypatch.setattr(limits, "ANONYMOUS", limits.Policy("sweep", 60_000, 60))
    return a_world()


def undone(caller: Caller, method: str, path: str, body: Any) -> Any:
    """One request whose effects are taken back."""
    with transaction.atomic():
        # A stream that nobody reads has not begun: it holds nothing.
        answer = asked(caller, method, path, body)
        transaction.set_rollback(True)
    return answer


def rows(world: World) -> Iterator[str]:
    width = max(len(name) for name in NAMES)
    yield f"{'':{width}}  " + "  ".join(f"{column:12}" for column in COLUMNS).rstrip()
    for (route, method), name in zip(ENDPOINTS, NAMES, strict=True):
        cells = []
        for column in COLUMNS:
            answer = undone(
                world.callers[column], method, world.path(route), body_of(route, method)
            )
            cells.append(f"{answer.status_code:<12}")
        yield f"{name:{width}}  " + "  ".join(cells).rstrip()


def test_every_address_answers_every_caller_as_the_matrix_says(world: World) -> None:
    found = "\n".join(rows(world)) + "\n"
    if os.environ.get("WRITE_MATRIX"):
        GOLDEN.write_text(found, encoding="utf-8")
    said = GOLDEN.read_text(encoding="utf-8").splitlines()
    pairs = zip_longest(found.splitlines(), said)
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_no_stranger_is_ever_answered_with_something_of_the_tenants(world: World) -> None:
    leaks = []
    for (route, method), name in zip(ENDPOINTS, NAMES, strict=True):
        for column in STRANGERS:
            path = world.path(route)
            answer = undone(world.callers[column], method, path, body_of(route, method))
            if getattr(answer, "streaming", False):
                continue
            shown = answer.content.decode().replace(path, "")
            if CANARY in shown:
                leaks.append(f"{name} to {column}")
            if answer.status_code >= 500:
                leaks.append(f"{name} failed for {column}")
    assert leaks == []


def test_nobody_without_an_identity_gets_anything_but_the_front_door(world: World) -> None:
    open_doors = {"signup", "auth-token", "reason-list", "reason", "schema", "docs", "agent-join"}
    open_doors |= {"livez", "readyz", "metrics", "problem"}
    for (route, method), name in zip(ENDPOINTS, NAMES, strict=True):
        if route.name in open_doors:
            continue
        for column in ("no-token", "expired"):
            answer = undone(
                world.callers[column], method, world.path(route), body_of(route, method)
            )
            assert answer.status_code == 401, f"{name} as {column}"


def told(answer: Any, *named: str) -> tuple[int, str, dict[str, str]]:
    """An answer without what may differ: the ids that were asked for, and the request's own."""
    text = answer.content.decode()
    for value in named:
        text = text.replace(value, "ID")
    text = re.sub(r'"request_id":"[^"]*"', '"request_id":""', text)
    headers = {key: value for key, value in answer.headers.items() if key not in FLEETING}
    headers.pop("Content-Length", None)
    return answer.status_code, text, headers


OWNED = [(route, method) for route, method in ENDPOINTS if missing_of(route)]


@pytest.mark.parametrize("column", ["other-tenant", "operator", "other-node"])
def test_what_is_anothers_is_answered_exactly_like_what_is_not_there(
    world: World, column: str
) -> None:
    caller = world.callers[column]
    compared = 0
    for route, method in OWNED:
        missing = missing_of(route)
        theirs = undone(caller, method, world.path(route), body_of(route, method))
        nothing = undone(caller, method, world.path(route, **missing), body_of(route, method))
        if column == "operator" and nothing.status_code == 404 != theirs.status_code:
            continue  # an operator may see it
        names = [world.objects[part] for part in missing] + list(missing.values())
        assert told(theirs, *names) == told(nothing, *names), f"{method} {route.name}"
        compared += 1
    assert compared >= (len(OWNED) if column != "operator" else 1)


def own_of(world: World, route: Route) -> Any:
    """A host's own message to an address of the agents'."""
    path = world.path(route)
    return undone(world.own_node, route.methods[0], path, body_of(route, route.methods[0]))


def test_a_host_reaches_its_own_task_where_another_finds_nothing(world: World) -> None:
    for route in routes():
        if "<uuid:task_id>" in route.pattern:
            assert own_of(world, route).status_code != 404, route.name
