"""Does every page of the portal answer each role as it should?"""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import ids
from tenants.models import User
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
