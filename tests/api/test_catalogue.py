"""What does the shelf show to tenants, and how do operators fill it?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.errors import catalogue
from placement.services.terms import terms_set
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db

SKU = {
    "name": "l40s.slice",
    "title": "L40S slice",
    "shape": "gpu_slice",
    "family": "l40s",
    "resource_class": "l40s-slot",
    "slots_max": 4,
    "hour_micro": 900_000,
}


@pytest.fixture
def acme() -> Caller:
    a_catalogue()
    return caller_of(a_tenant("acme"))


def test_tenants_see_published_products_with_the_price_in_force(acme: Caller) -> None:
    items = acme.get("/skus").json()["items"]
    assert [item["name"] for item in items] == ["h100.node", "h100.slice"]
    assert {item["price_hour_micro"] for item in items} == {2_000_000}
    assert acme.get("/skus/h100.slice").json()["resource_class"] == "h100-slot"


def test_a_product_goes_from_draft_to_the_shelf_and_off_it(acme: Caller) -> None:
    operator = operator_caller()
    family = {"name": "l40s", "slots": 4}
    assert operator.post("/families", family).status_code == 201
    assert operator.post("/skus", SKU).status_code == 201
    assert acme.get("/skus/l40s.slice").status_code == 404
    published = operator.post("/skus/l40s.slice/actions/publish", {"reason": "new"})
    assert published.json()["state"] == "published"
    assert acme.get("/skus/l40s.slice").json()["price_hour_micro"] == 900_000
    priced = operator.call("PUT", "/skus/l40s.slice/price", {"hour_micro": 800_000})
    assert priced.json()["hour_micro"] == 800_000
    assert acme.get("/skus/l40s.slice").json()["price_hour_micro"] == 800_000
    assert operator.post("/skus/l40s.slice/actions/retire", {"reason": "old"}).status_code == 200
    assert acme.get("/skus/l40s.slice").status_code == 404
    again = operator.post("/skus/l40s.slice/actions/publish", {"reason": "new"})
    assert (again.status_code, again.json()["code"]) == (409, "transition_refused")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"slots_min": 8}, "/slots_min"),
        ({"name": "Not A Slug"}, "/name"),
        ({"shape": "sphere"}, "/shape"),
        ({"hour_micro": -1}, "/hour_micro"),
        ({"hour_micro": 1.5}, "/hour_micro"),
        ({"state": "published"}, "/state"),
    ],
)
def test_a_product_that_makes_no_sense_is_refused(
    acme: Caller, change: dict[str, object], pointer: str
) -> None:
    answer = operator_caller().post("/skus", {**SKU, **change})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_offers_say_what_is_free_now_and_why_when_nothing_is(acme: Caller) -> None:
    empty = {item["sku"]: item for item in acme.get("/offers").json()["items"]}
    assert empty["h100.slice"]["reason"] == "never_fits"
    a_host()
    free = {item["sku"]: item for item in acme.get("/offers").json()["items"]}
    assert (free["h100.slice"]["available_now"], free["h100.slice"]["largest_fit"]) == (8, 8)
    assert (free["h100.node"]["available_now"], free["h100.node"]["reason"]) == (1, "")
    acme.post("/projects/default/allocations", order_body(slots=3))
    less = {item["sku"]: item for item in acme.get("/offers").json()["items"]}
    assert (less["h100.slice"]["available_now"], less["h100.slice"]["largest_fit"]) == (5, 5)
    assert (less["h100.node"]["available_now"], less["h100.node"]["reason"]) == (
        0,
        "sku_unavailable",
    )


def test_what_a_pool_for_others_has_is_not_offered(acme: Caller) -> None:
    a_host()
    globex = a_tenant("globex")
    terms_set(
        noun="pool", name="default", tenants=[globex.tenant.pk], reason="sold", actor=OPERATOR
    )
    for offer in acme.get("/offers").json()["items"]:
        told = (offer["reason"], offer["available_now"], offer["available_nodes"])
        assert (*told, offer["largest_fit"]) == ("pool_dedicated", 0, 0, 0)
    theirs = {item["sku"]: item for item in caller_of(globex).get("/offers").json()["items"]}
    assert (theirs["h100.slice"]["reason"], theirs["h100.slice"]["largest_fit"]) == ("", 8)
    answer = acme.post("/projects/default/allocations", order_body(slots=1))
    assert answer.json()["code"] == "pool_dedicated"


def test_images_are_listed_by_name(acme: Caller) -> None:
    names = [item["name"] for item in acme.get("/images").json()["items"]]
    assert names == sorted(names)
    assert "ubuntu-24.04-cuda" in names


def test_every_reason_code_is_told_to_anybody() -> None:
    items = Caller().get("/reasons").json()["items"]
    assert {item["code"] for item in items} == set(catalogue())
    assert all(item["unblock"] for item in items)


def test_offers_come_whole_or_page_by_page(acme: Caller) -> None:
    whole = acme.get("/offers").json()
    assert whole["next"] == ""
    first = acme.get("/offers?limit=1").json()
    second = acme.get(f"/offers?limit=1&cursor={first['next']}").json()
    names = [offer["sku"] for page in (first, second) for offer in page["items"]]
    assert names == [offer["sku"] for offer in whole["items"]]
    assert second["next"] == ""
    other = acme.get(f"/offers?limit=1&max_duration_s=3600&cursor={first['next']}")
    assert other.json()["code"] == "cursor_invalid"
    assert acme.get("/offers?limit=0").status_code == 400
