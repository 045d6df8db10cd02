"""Does the navigation lead only where its reader may go?"""

from __future__ import annotations

import re

import pytest

from tests.portal.conftest import World

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("role", ["owner", "admin", "member", "viewer", "billing"])
def test_every_address_in_the_navigation_is_open_to_its_reader(world: World, role: str) -> None:
    page = world.browser(role).get("/t/acme/catalogue/").content.decode()
    links = set(re.findall(r'href="(/t/acme/[a-z-]*/?)"', page))
    assert len(links) >= 6
    assert {path: world.browser(role).get(path).status_code for path in links} == dict.fromkeys(
        links, 200
    )
