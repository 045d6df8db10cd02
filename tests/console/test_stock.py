"""Can an operator lay in and sell what a new platform needs, on one page?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.models import Event
from placement.models import Image, NodeFamily, Pool
from tenants.models import Sku
from tests.console.conftest import Fleet

STOCK = "/console/stock/"
IMAGE = {"name": "debian-13", "shapes": ["gpu_slice"], "username": "debian", "reason": "asked"}
FAMILY = {"name": "l40s-10", "slots": "10", "gpu_model": "NVIDIA L40S", "reason": "bought"}
POOL = {"name": "west", "reason": "opened"}
SKU = {
    "name": "l40s",
    "title": "L40S slots",
    "shape": "gpu_slice",
    "family": "l40s-10",
    "pool": "west",
    "resource_class": "l40s-slot",
    "units_milli": "0.5",
    "slots_min": "1",
    "slots_max": "10",
    "hour_micro": "1.25",
}


def test_all_that_a_new_platform_needs_is_made_on_the_page(fleet: Fleet) -> None:
    browser = fleet.browser()
    for noun, body in (("image", IMAGE), ("family", FAMILY), ("pool", POOL), ("sku", SKU)):
        assert browser.send(f"{STOCK}new/{noun}/", body).status_code == 302, noun
    assert Image.objects.get(name="debian-13").shapes == ["gpu_slice"]
    assert NodeFamily.objects.get(name="l40s-10").title == "l40s-10"
    assert Pool.objects.get(name="west").title == "west"
    row = Sku.objects.get(name="l40s")
    assert (row.state, row.pool, row.units_milli, row.slots_max) == ("draft", "west", 500, 10)
    html = browser.get(STOCK).content.decode()
    for told in ("L40S slots", "l40s-10", "NVIDIA L40S", "west", "debian-13"):
        assert told in html
    kinds = ("nodefamily.create", "pool.create", "image.create")
    for kind in kinds:
        assert Event.objects.filter(kind=f"placement.{kind}").exists()


@pytest.mark.parametrize(
    ("noun", "body", "field", "value"),
    [
        ("image", IMAGE, "name", "Debian 13"),
        ("image", IMAGE, "shapes", ""),
        ("image", IMAGE, "username", "Root User"),
        ("image", IMAGE, "name", "a\0b"),
        ("family", FAMILY, "slots", "63"),
        ("family", FAMILY, "slots", "\u0661"),
        ("family", FAMILY, "name", "h100x8"),
        ("family", FAMILY, "name", "any"),
        ("pool", POOL, "name", "default"),
        ("pool", POOL, "name", "-west"),
        ("pool", POOL, "reason", ""),
        ("sku", SKU, "family", "nothing"),
        ("sku", {**SKU, "family": "h100x8", "pool": "default"}, "slots_max", "0"),
        ("sku", {**SKU, "family": "h100x8", "pool": "default"}, "name", "L40S"),
        ("sku", {**SKU, "family": "h100x8", "pool": "default"}, "part_profile", "1g.10gb"),
        ("sku", {**SKU, "family": "h100x8", "pool": "default"}, "hour_micro", "-1"),
    ],
)
def test_what_is_wrong_is_said_beside_the_field_and_nothing_is_kept(
    fleet: Fleet, noun: str, body: dict[str, object], field: str, value: str
) -> None:
    before = [kind.objects.count() for kind in (Image, NodeFamily, Pool, Sku)]
    answer = fleet.browser().send(f"{STOCK}new/{noun}/", {**body, field: value})
    assert answer.status_code == 400
    html = answer.content.decode()
    assert f'id="id_{noun}_{field}_error"' in html or (
        field == "shapes" and 'class="fault"' in html
    )
    assert [kind.objects.count() for kind in (Image, NodeFamily, Pool, Sku)] == before


def test_an_image_is_retired_with_a_reason_once(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send(f"{STOCK}new/image/", IMAGE)
    retire = f"{STOCK}images/retire/"
    assert browser.send(retire, {"name": "debian-13", "reason": " "}).status_code == 400
    assert browser.send(retire, {"name": "debian-13", "reason": "old"}).status_code == 302
    assert Image.objects.get(name="debian-13").retired_at is not None
    assert browser.send(retire, {"name": "debian-13", "reason": "old"}).status_code == 404
    assert "Images not offered any more" in browser.get(STOCK).content.decode()


def test_what_is_no_noun_is_not_found(fleet: Fleet) -> None:
    assert fleet.browser().send(f"{STOCK}new/host/", POOL).status_code == 404


def test_what_uses_a_thing_is_shown_and_it_is_renamed(fleet: Fleet) -> None:
    browser = fleet.browser()
    for noun, name in (("pool", "default"), ("family", "h100x8"), ("sku", "h100.slice")):
        page = f"{STOCK}{noun}/{name}/"
        html = browser.get(page).content.decode()
        assert "What uses it" in html
        assert "It has a past" in html or "It is sold" in html
        assert (
            browser.send(f"{page}rename/", {"title": "Another", "reason": " "}).status_code == 400
        )
        sent = {"title": "Another", "reason": "clearer", "description": "", "gpu_model": ""}
        assert browser.send(f"{page}rename/", sent).status_code == 302
        assert "<h1>Another</h1>" in browser.get(page).content.decode()
    assert Sku.objects.get(name="h100.slice").title == "Another"
    assert "Another" in browser.get(STOCK).content.decode()


def test_a_thing_in_use_cannot_be_ended_and_the_page_counts_why(fleet: Fleet) -> None:
    browser = fleet.browser()
    for act, words in (("retire", "is in use: "), ("remove", "has a past: ")):
        body = {"reason": "end", "confirm": "default"}
        answer = browser.send(f"{STOCK}pool/default/{act}/", body)
        assert answer.status_code == 400
        assert f"default {words}2 hosts, 2 SKUs" in answer.content.decode()
    assert Pool.objects.get(name="default").retired_at is None


def test_a_thing_that_nothing_used_is_retired_or_removed(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send(f"{STOCK}new/pool/", POOL)
    browser.send(f"{STOCK}new/family/", FAMILY)
    browser.send(f"{STOCK}new/sku/", SKU)
    assert "no longer" not in browser.get(f"{STOCK}pool/west/").content.decode()
    assert browser.send(f"{STOCK}sku/l40s/retire/", {"reason": "old"}).status_code == 302
    wrong = browser.send(f"{STOCK}sku/l40s/remove/", {"reason": "old", "confirm": "L40"})
    assert wrong.status_code == 400
    assert (
        browser.send(f"{STOCK}sku/l40s/remove/", {"reason": "old", "confirm": "l40s"}).status_code
        == 302
    )
    assert browser.send(f"{STOCK}pool/west/retire/", {"reason": "old"}).status_code == 302
    assert "retired" in browser.get(f"{STOCK}pool/west/").content.decode()
    refused = browser.send(f"{STOCK}new/sku/", SKU)
    assert refused.status_code == 400, "a retired pool is no choice"
    assert (
        browser.send(
            f"{STOCK}family/l40s-10/remove/", {"reason": "old", "confirm": "l40s-10"}
        ).status_code
        == 302
    )
    assert not NodeFamily.objects.filter(name="l40s-10").exists()
    for gone in ("family/l40s-10/", "family/l40s-10/remove/", "host/x/", "pool/a%00b/"):
        assert browser.get(f"{STOCK}{gone}", follow=True).status_code == 404
    assert browser.send(f"{STOCK}pool/west/publish/", {"reason": "x"}).status_code == 404
