"""Does the document say what is served, and is every address in the table of permissions?"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from gpuaas.api.permissions import TABLE, Declared, rule_of
from gpuaas.api.routes import Route, routes
from gpuaas.api.schema import document
from tenants.domain import roles
from tests.api.client import described

KEPT = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
PLAIN = {"livez", "readyz", "problem"}


def test_the_committed_document_is_the_one_that_the_views_make() -> None:
    same = KEPT.read_bytes() == document()
    assert same, "run make openapi, and look at what changed"


def test_every_address_and_method_has_a_row_and_every_row_an_address() -> None:
    served = {(route.name, method) for route in routes() for method in route.methods}
    assert served == set(TABLE)


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.name)
def test_every_view_asks_the_table(route: Route) -> None:
    if route.name in PLAIN:
        assert route.view is None
        return
    assert route.view is not None
    assert list(getattr(route.view, "permission_classes", ())) == [Declared]


def test_every_action_of_the_table_is_one_that_a_role_or_operator_can_have() -> None:
    for key, rule in TABLE.items():
        assert not rule.action or rule.action in roles.ACTIONS, key
        operator = rule.operator_action
        assert not operator or operator in roles.OPERATOR_ACTIONS, key


def test_an_address_without_a_row_admits_nobody() -> None:
    assert rule_of("no-such-route", "GET") is None
    assert rule_of("project-list", "HEAD") == rule_of("project-list", "GET")


def test_the_document_names_every_public_address_once() -> None:
    operations = [
        operation["operationId"]
        for item in described()["paths"].values()
        for operation in item.values()
    ]
    assert len(operations) == len(set(operations))
    expected = sum(len(route.methods) for route in routes() if route.pattern.startswith("/api/v1/"))
    assert len(operations) == expected


def test_the_reference_page_asks_no_other_host() -> None:
    answer = Client().get("/api/docs/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "https://" not in page.replace("https://github.com", "")
    assert "/static/drf_spectacular_sidecar/" in page
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    served_as_it_is = Client().get("/api/schema").content == document()
    assert served_as_it_is
