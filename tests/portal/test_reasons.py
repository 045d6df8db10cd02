"""Does every code have its page, for everybody?"""

from __future__ import annotations

import pytest
from django.test import Client

from gpuaas.kernel.errors import catalogue

pytestmark = pytest.mark.django_db


def test_every_code_has_a_page_that_says_what_it_means_and_what_helps() -> None:
    browser = Client()
    for entry in catalogue().values():
        answer = browser.get(f"/docs/reasons/{entry.code}")
        assert answer.status_code == 200
        assert entry.code in answer.content.decode()


def test_the_index_lists_all_and_finds_some() -> None:
    browser = Client()
    everything = browser.get("/docs/reasons/").content.decode()
    assert all(f">{code}<" in everything for code in catalogue())
    some = browser.get("/docs/reasons/?q=envelope").content.decode()
    assert "envelope_exceeded" in some
    assert "clock_skew" not in some


def test_a_code_that_does_not_exist_is_missing() -> None:
    assert Client().get("/docs/reasons/no_such_code").status_code == 404
