"""Does the navigation lead only where its reader may go?"""

from __future__ import annotations

import re

import pytest

from tests.console.conftest import Fleet, fleet
from tests.portal.conftest import World

__all__ = ["fleet"]
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("role", ["owner", "admin", "member", "viewer", "billing"])
def test_every_address_in_the_navigation_is_open_to_its_reader(world: World, role: str) -> None:
    page = world.browser(role).get("/t/acme/catalogue/").content.decode()
    links = set(re.findall(r'href="(/t/acme/[a-z-]*/?)"', page))
    assert len(links) >= 6
    assert {path: world.browser(role).get(path).status_code for path in links} == dict.fromkeys(
        links, 200
    )


def marked(page: str) -> set[str]:
    """What the navigation marks as where the reader is."""
    return set(re.findall(r'aria-current="page" title="([^"]*)"', page))


def test_a_page_below_a_list_marks_that_list(world: World) -> None:
    page = world.browser().get(f"/t/acme/requests/{world.running.request_id}/")
    assert marked(page.content.decode()) == {"Requests"}


def test_a_request_in_the_console_marks_decisions_and_not_the_overview(fleet: Fleet) -> None:
    page = fleet.browser().get(f"/console/requests/{fleet.running.request_id}/")
    assert marked(page.content.decode()) == {"Decisions"}
    home = fleet.browser().get("/console/").content.decode()
    assert marked(home) == {"Overview"}
