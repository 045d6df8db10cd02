"""Does every page of the console and of the portal stand in its table, and only there?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver

from gpuaas.console import permissions as of_console
from gpuaas.console import urls as console
from gpuaas.portal import permissions as of_portal
from gpuaas.portal import urls as portal
from gpuaas.ui.needs import Needs
from gpuaas.ui.pages import SignedInView
from tenants.domain import roles
from tests.architecture.tree import files, text

PLACES = {
    "console": (console.urlpatterns, of_console.PAGES),
    "portal": (portal.urlpatterns, of_portal.PAGES),
}
OWN_WORDS = re.compile(r"^ +(?:def )?(?:read_action|write_action)\b|^ +def needs\b", re.M)


def pages(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    """The names of pages for members and operators."""
    for entry in patterns:
        if isinstance(entry, URLResolver):
            yield from pages(entry.url_patterns)
            continue
        view = getattr(entry.callback, "view_class", None)
        if view is not None and issubclass(view, SignedInView):
            yield str(entry.name)


@pytest.mark.parametrize("place", PLACES)
def test_every_page_has_a_row_and_every_row_a_page(place: str) -> None:
    patterns, table = PLACES[place]
    found = set(pages(patterns))
    assert len(found) > 40
    assert found - set(table) == set(), "a page without a row admits nobody"
    assert set(table) - found == set(), "a row without a page is one that nobody opens"


@pytest.mark.parametrize("place", PLACES)
def test_a_table_names_only_actions_that_some_role_carries(place: str) -> None:
    known = {"", *(roles.OPERATOR_ACTIONS if place == "console" else roles.ACTIONS)}
    table: dict[str, Needs] = PLACES[place][1]
    asked = {action for needs in table.values() for action in (needs.read, needs.write)}
    assert asked - known == set()


def test_a_page_of_the_console_is_read_by_operators_only() -> None:
    assert [name for name, needs in of_console.PAGES.items() if not needs.read] == []


def test_no_view_says_for_itself_what_it_needs() -> None:
    views = [name for name in files() if re.fullmatch(r"gpuaas/(console|portal)/.*\.py", name)]
    assert len(views) > 50
    assert [name for name in views if OWN_WORDS.search(text(name))] == []
