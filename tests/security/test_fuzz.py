"""Does anything that a client may send make the API fail, or answer in another form than it says?

Schemathesis makes requests from the OpenAPI document, right and wrong ones, always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gpuaas.api import limits, parking
from gpuaas.wsgi import application
from tests.api.client import described
from tests.security.world import World, a_world

pytestmark = pytest.mark.django_db

EXAMPLES = 8
BARE = {"/api/v1/reasons/{code}"}
"""Addresses that take nothing, so that nothing can be sent wrongly."""
schema = schemathesis.openapi.from_dict(described())
schema.app = application
schema.location = "/api/schema"


def problem_form(ctx: Any, response: Any, case: Any) -> None:
    """Every refusal is a problem with a code and the request's id."""
    if response.status_code < 400:
        return
    kind = response.headers["content-type"][0]
    assert kind == "application/problem+json", kind
    body = response.json()
    assert body["code"]
    assert body["request_id"] == response.headers["x-request-id"][0]
    assert body["status"] == response.status_code


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    problem_form,
]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # No waiting inside the test's own transaction, and no limit on so many calls.
    monkeypatch.setattr(parking, "MOST_S", 0)
    monkeypatch.setattr(limits.Buckets, "spend", lambda self, policy, principal: FREE)
    found = a_world()
    # The server's own handler would close the connection that holds the test's transaction.
    # After the world is made: Django's test client connects these again.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield found
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


FREE = limits.Spent(limits.API, True, 1000, 0)


def tried(operation: Any, mode: GenerationMode, world: World) -> None:
    """A fixed set of requests to one operation, as tenant and operator, to real things and not."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), real=booleans())
    def requests(case: Any, real: bool) -> None:
        if real:
            parts = case.path_parameters or {}
            case.path_parameters = parts | {k: world.objects[k] for k in parts}
        for name in ("owner", "operator"):
            headers = {"Authorization": f"Bearer {world.callers[name].token}"}
            case.validate_response(case.call(headers=headers), checks=CHECKS)

    requests()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_makes_it_fail(mode: GenerationMode, world: World) -> None:
    takes_nothing = set()
    done = 0
    for found in schema.exclude(operation_id="stream").get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        with transaction.atomic():
            try:
                tried(operation, mode, world)
            except Unsatisfiable:
                takes_nothing.add(operation.path)
            transaction.set_rollback(True)
        done += 1
    assert done == sum(len(item) for item in described()["paths"].values()) - 1
    assert takes_nothing == (set() if mode is GenerationMode.POSITIVE else BARE)
