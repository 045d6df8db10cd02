"""Can an operator rename and end pools, families and SKUs over REST, and see what uses them?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import CLASS, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db
SKU = {
    "name": "new",
    "title": "new",
    "shape": "gpu_slice",
    "family": "h100x8",
    "resource_class": CLASS,
    "hour_micro": 1,
}


@pytest.fixture
def operator() -> Caller:
    """An operator of a platform with one host and one lease."""
    a_catalogue()
    a_host()
    a_tenant("acme").order(slots=1)
    return operator_caller()


def faults(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Which fields a problem names, and by which code."""
    return [(fault["pointer"], fault["code"]) for fault in body["errors"]]


@pytest.mark.parametrize(("field", "name"), [("family", "b200x8"), ("pool", "west")])
def test_a_sku_of_what_is_not_there_is_refused_by_its_field(
    operator: Caller, field: str, name: str
) -> None:
    answer = operator.post("/skus", {**SKU, field: name})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert faults(answer.json()) == [(f"/{field}", "unknown")]
    assert operator.get("/skus/new").status_code == 404


def test_titles_change_and_names_do_not(operator: Caller) -> None:
    for path, more in (
        ("/pools/default", {}),
        ("/families/h100x8", {"gpu_model": "NVIDIA H100"}),
        ("/skus/h100.slice", {"description": "One to eight slots"}),
    ):
        body = {"title": "Another", "reason": "clearer", **more}
        answer = operator.call("PUT", f"{path}/title", body)
        assert answer.status_code == 200, answer.json()
        shown = operator.get(path).json()
        assert {name: shown[name] for name in ("title", *more)} == {"title": "Another", **more}
        assert path.endswith(shown["name"])
        same = operator.call("PUT", f"{path}/title", {"title": ""}).json()
        assert same["title"] == shown["name"], "without a title it is called by its name"
    assert operator.call("PUT", "/pools/none/title", {"title": "x"}).status_code == 404
    assert faults(operator.call("PUT", "/pools/default/title", {}).json()) == [
        ("/title", "required")
    ]


def test_what_uses_it_is_told_before_and_in_the_refusal(operator: Caller) -> None:
    uses = operator.get("/pools/default/uses").json()
    assert uses == {
        "name": "default",
        "uses": [
            {"what": "hosts", "now": 1, "ever": 1},
            {"what": "skus", "now": 2, "ever": 2},
            {"what": "requests", "now": 0, "ever": 1},
        ],
        "may_retire": False,
        "may_remove": False,
    }
    for path in ("/pools/default", "/families/h100x8"):
        refused = operator.post(f"{path}/actions/retire", {"reason": "old"})
        assert (refused.status_code, refused.json()["code"]) == (409, "stock_in_use")
        assert refused.json()["facts"]["hosts"] == 1
        assert "uses" in refused.json()["unblock"]
        assert operator.call("DELETE", path).json()["facts"]["skus"] == 2
    sku = operator.get("/skus/h100.slice/uses").json()
    assert (sku["may_retire"], sku["may_remove"]) == (True, False)
    assert {one["what"]: one["now"] for one in sku["uses"]} == {"leases": 1, "requests": 0}


def test_what_nothing_used_goes_and_what_has_a_past_is_retired(operator: Caller) -> None:
    assert operator.post("/pools", {"name": "west"}).status_code == 201
    assert operator.post("/families", {"name": "l40s", "slots": 4}).status_code == 201
    assert operator.post("/skus", {**SKU, "family": "l40s", "pool": "west"}).status_code == 201
    assert operator.call("DELETE", "/families/l40s").json()["facts"]["skus"] == 1
    assert operator.call("DELETE", "/skus/new").status_code == 204
    assert operator.post("/pools/west/actions/retire", {"reason": "old"}).json()["retired_at"]
    retired = operator.post("/nodes", {"name": "host-9", "pool": "west"})
    assert faults(retired.json()) == [("/pool", "retired")]
    for path in ("/families/l40s", "/pools/west"):
        assert operator.call("DELETE", path).status_code == 204
        assert operator.get(path).status_code == 404


def test_a_tenant_may_do_none_of_it(operator: Caller) -> None:
    owner = caller_of(a_tenant("globex"))
    for method, path in (
        ("PUT", "/skus/h100.slice/title"),
        ("DELETE", "/skus/h100.slice"),
        ("GET", "/skus/h100.slice/uses"),
        ("GET", "/pools/default"),
    ):
        assert owner.call(method, path, {"title": "mine"}).status_code in (403, 404)
    assert operator.get("/skus/h100.slice").json()["title"] == "h100.slice"


def test_a_change_that_names_a_version_of_what_has_none_is_not_made(operator: Caller) -> None:
    for method, path, body in (
        ("PUT", "/pools/default/title", {"title": "Other"}),
        ("DELETE", "/pools/default", None),
    ):
        answer = operator.call(method, path, body, HTTP_IF_MATCH='"999"')
        assert answer.status_code == 400
        assert faults(answer.json()) == [("/If-Match", "not_heeded")]
    assert operator.call("PUT", "/pools/default/title", {"title": "Other"}).status_code == 200
    answer = operator.call("PUT", "/pools/default/title", {"title": "X"}, HTTP_IF_MATCH="*")
    assert answer.status_code == 200


def test_a_change_that_names_another_version_than_is_shown_above_it_is_not_made(
    operator: Caller,
) -> None:
    drain = "/nodes/host-1/actions/drain"
    tag = operator.get("/nodes/host-1")["ETag"]
    late = operator.post(drain, {"reason": "old"}, HTTP_IF_MATCH='"999"')
    assert (late.status_code, late.json()["code"]) == (412, "stale_resource_version")
    for wrong in ("999", "garbage"):
        assert operator.post(drain, {"reason": "old"}, HTTP_IF_MATCH=wrong).status_code == 400
    assert operator.get("/nodes/host-1").json()["drains"] == []
    assert operator.post(drain, {"reason": "old"}, HTTP_IF_MATCH=tag).status_code == 200
    gone = operator.post("/nodes/none/actions/drain", {"reason": "old"}, HTTP_IF_MATCH=tag)
    assert gone.status_code == 404


def test_the_repeat_of_a_change_by_its_key_is_answered_though_the_version_went_on(
    operator: Caller,
) -> None:
    tag = operator.get("/skus/h100.slice")["ETag"]
    asked = {"title": "Another", "reason": "clearer"}
    named = {"HTTP_IF_MATCH": tag, "HTTP_IDEMPOTENCY_KEY": "one"}
    first = operator.call("PUT", "/skus/h100.slice/title", asked, **named)
    again = operator.call("PUT", "/skus/h100.slice/title", asked, **named)
    assert (first.status_code, again.status_code) == (200, 200)
    assert operator.get("/skus/h100.slice")["ETag"] != tag
    late = operator.call("PUT", "/skus/h100.slice/title", asked, HTTP_IF_MATCH=tag)
    assert late.status_code == 412
