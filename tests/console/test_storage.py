"""Can an operator offer storage, see it, and end the offer, on a page?"""

from __future__ import annotations

import pytest

from tenants.models import Storage
from tests.console.conftest import Fleet

STORAGE = "/console/storage/"
OFFER = {"name": "lustre", "kind": "parallel", "zones": "eu-1, eu-2", "reason": "bought"}


def test_storage_is_offered_in_versions_and_retired(fleet: Fleet) -> None:
    browser = fleet.browser()
    assert "None is offered" in browser.get(STORAGE).content.decode()
    assert browser.send(STORAGE, OFFER).status_code == 302
    assert browser.send(STORAGE, {**OFFER, "zones": ""}).status_code == 302
    row = Storage.objects.get(version=2)
    assert (row.kind, row.zones) == ("parallel", [])
    page = browser.get(STORAGE).content.decode()
    assert "every zone" in page
    assert "lustre" in page
    refused = browser.send(f"{STORAGE}retire/", {"name": "lustre", "reason": " "})
    assert refused.status_code == 400
    assert browser.send(f"{STORAGE}retire/", {"name": "lustre", "reason": "old"}).status_code == 302
    assert not Storage.objects.filter(retired_at__isnull=True).exists()
    assert browser.send(f"{STORAGE}retire/", {"name": "lustre", "reason": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a\0b"),
        ("name", "x" * 10_000),
        ("name", "\u202elustre"),
        ("kind", "Parallel FS"),
        ("kind", "\uff50arallel"),
        ("zones", "z" * 500),
        ("reason", ""),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_kept(fleet: Fleet, field: str, value: str) -> None:
    answer = fleet.browser().send(STORAGE, {**OFFER, field: value})
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not Storage.objects.exists()


def test_a_name_that_cannot_be_kept_retires_nothing(fleet: Fleet) -> None:
    answer = fleet.browser().send(f"{STORAGE}retire/", {"name": "a\0b", "reason": "x"})
    assert answer.status_code == 400
    assert "<code>/name</code>" in answer.content.decode()
