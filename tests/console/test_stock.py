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
