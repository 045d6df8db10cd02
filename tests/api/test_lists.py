"""Does a list that is made whole come page by page as well: nothing twice, nothing left out?"""

from __future__ import annotations

from typing import Any

import pytest

from placement.services.separations import separation_set
from tenants.services import datasets
from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db

OPERATORS = (
    "/cohorts",
    "/defrag/policies",
    "/fragmentation",
    "/nodes/host-1/slots",
    "/placement-terms",
    "/control-keys",
    "/readiness-terms",
    "/scoring",
    "/separations",
    "/storage",
    "/tenants/acme/bursts",
    "/tenants/acme/entitlements",
    "/tenants/acme/envelope-versions",
    "/tenants/acme/quota",
    "/tiers",
)
TENANTS = ("/datasets", "/entitlements", "/offers", "/quota", "/reasons?limit=60")


@pytest.fixture
def callers() -> dict[str, Caller]:
    """A tenant and the operator of a platform on which each list has something where it can."""
    a_catalogue()
    a_host("host-1")
    world = a_tenant("acme")
    for name in ("one", "two"):
        datasets.dataset_declare(
            tenant_id=world.tenant.pk, name=name, zones=["zone-a"], actor=world.actor
        )
    for name, other in (("rivals", "globex"), ("twins", "initech")):
        members = [world.tenant.pk, a_tenant(other).tenant.pk]
        separation_set(name=name, tenants=members, reason="a test", actor=OPERATOR)
    return {"tenant": caller_of(world), "operator": operator_caller()}


def things(body: dict[str, Any]) -> list[Any]:
    """What the list names, in its order."""
    return [*body["items"], *body.get("parts", ())]


@pytest.mark.parametrize("path", [*OPERATORS, *TENANTS])
def test_pages_of_one_make_the_whole(callers: dict[str, Caller], path: str) -> None:
    caller = callers["operator" if path in OPERATORS else "tenant"]
    plain, _, given = path.partition("?")
    whole = caller.get(plain).json()
    assert whole["next"] == "", "without a limit all of it comes"
    found: list[Any] = []
    cursor = ""
    while True:
        page = caller.get(f"{plain}?{given or 'limit=1'}&cursor={cursor}").json()
        found += things(page)
        cursor = page["next"]
        if not cursor:
            break
    assert found == things(whole)


def test_a_cursor_is_good_for_its_own_list_alone(callers: dict[str, Caller]) -> None:
    caller = callers["operator"]
    cursor = caller.get("/nodes/host-1/slots?limit=1").json()["next"]
    assert cursor
    for path in ("/tiers", "/tenants/acme/quota"):
        answer = caller.get(f"{path}?cursor={cursor}")
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_invalid")
    assert caller.get("/tiers?limit=0").status_code == 400
