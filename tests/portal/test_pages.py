"""Does every page of the portal answer each role as it should?"""

from __future__ import annotations

import pytest

from tests.portal.conftest import World, client_of

PAGES = (
    "",
    "catalogue/",
    "launch/",
    "launch/?sku=h100.slice&slots=2",
    "allocations/",
    "allocations/?state=live&project=default",
    "allocations.csv",
    "requests/",
    "team/",
    "tokens/",
    "ssh-keys/",
    "search/?q=train",
)


@pytest.mark.parametrize("path", PAGES)
def test_an_owner_sees_every_page(world: World, path: str) -> None:
    answer = client_of(world.acme.owner).get(world.url(path), follow=True)
    assert answer.status_code == 200
