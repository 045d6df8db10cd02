"""Can operators keep tenants apart over REST, looked at before it is so, and end it?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel.models import Event
from placement.errors import ForbiddenByTopology
from placement.models import Node, Separation
from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/separations/rivals"
BODY = {"tenants": ["acme", "globex"], "reason": "competitors"}


@pytest.fixture
def operator() -> Caller:
    return operator_caller()


@pytest.fixture
def rivals() -> tuple[TenantWorld, TenantWorld]:
    a_catalogue()
    return a_tenant("acme"), a_tenant("globex")


def test_a_set_is_looked_at_set_as_it_was_seen_and_removed(
    operator: Caller, rivals: tuple[TenantWorld, TenantWorld]
) -> None:
    acme, globex = rivals
    a_host("host-1")
    for world in rivals:
        world.order(slots=1)
    look = operator.call("PUT", f"{PATH}?dry_run=server", BODY).json()
    assert (look["added"], look["dropped"]) == (["acme", "globex"], [])
    assert look["together"] == [{"host": "host-1", "tenants": ["acme", "globex"]}]
    assert not Separation.objects.exists()
    assert operator.get(PATH).status_code == 404
    wrong = operator.call("PUT", PATH, {**BODY, "seen": "another"})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "preview_stale")
    done = operator.call("PUT", PATH, {**BODY, "seen": look["digest"]}).json()
    assert (done["version"], done["together"], done["reason"]) == (1, 1, "competitors")
    assert {one["slug"]: one["id"] for one in done["tenants"]} == {
        "acme": str(acme.tenant.pk),
        "globex": str(globex.tenant.pk),
    }
    with pytest.raises(ForbiddenByTopology):
        globex.order(slots=1)
    assert operator.get(PATH).json() == done
    assert operator.get("/separations").json() == {"items": [done], "next": ""}
    assert operator.call("DELETE", PATH).json()["errors"][0]["pointer"] == "/reason"
    assert operator.call("DELETE", f"{PATH}?reason=merged").status_code == 204
    assert operator.call("DELETE", f"{PATH}?reason=merged").status_code == 404
    globex.order(slots=1)
    assert Event.objects.get(kind="placement.separation.remove").reason == "merged"


def test_a_list_tells_of_each_set_how_many_hosts_its_own_members_share(
    operator: Caller, rivals: tuple[TenantWorld, TenantWorld]
) -> None:
    initech = a_tenant("initech")
    for name, worlds in (("host-1", (*rivals, initech)), ("host-2", rivals)):
        host = a_host(name)
        Node.objects.exclude(pk=host.node.pk).update(schedulable=False)
        for world in worlds:
            world.order(slots=1)
    for name, slugs in (("few", ["acme", "initech"]), ("all", ["acme", "globex", "initech"])):
        operator.call("PUT", f"/separations/{name}", {**BODY, "tenants": slugs})
    before = CaptureQueriesContext(connection)
    with before:
        items = operator.get("/separations").json()["items"]
    assert [(one["name"], one["together"]) for one in items] == [("all", 2), ("few", 1)]
    operator.call("PUT", "/separations/more", BODY)
    with CaptureQueriesContext(connection) as after:
        assert len(operator.get("/separations").json()["items"]) == 3
    assert len(after) == len(before), "one more set costs no statement more"


def test_members_are_named_by_slug_or_id_and_all_are_set_anew(
    operator: Caller, rivals: tuple[TenantWorld, TenantWorld]
) -> None:
    initech = a_tenant("initech")
    operator.call("PUT", PATH, BODY)
    body = {**BODY, "tenants": [str(initech.tenant.pk), "acme"]}
    look = operator.call("PUT", f"{PATH}?dry_run=server", body).json()
    assert (look["added"], look["dropped"]) == (["initech"], ["globex"])
    done = operator.call("PUT", PATH, body).json()
    assert (done["version"], {one["slug"] for one in done["tenants"]}) == (2, {"acme", "initech"})


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"tenants": ["acme"]}, "/tenants"),
        ({"tenants": ["acme", "acme"]}, "/tenants"),
        ({"tenants": ["acme", "nobody"]}, "/tenants"),
        ({"tenants": ["acme", "00000000-0000-0000-0000-000000000007"]}, "/tenants"),
        ({"tenants": ["acme"] * 51}, "/tenants"),
        ({"tenants": ["acme", "globex"], "reason": " "}, "/reason"),
        ({"node": "host-1"}, "/node"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(
    operator: Caller,
    rivals: tuple[TenantWorld, TenantWorld],
    change: dict[str, Any],
    pointer: str,
) -> None:
    answer = operator.call("PUT", PATH, {**BODY, **change})
    assert answer.status_code == 400
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
    assert not Separation.objects.exists()


def test_a_name_that_is_no_slug_is_refused(
    operator: Caller, rivals: tuple[TenantWorld, TenantWorld]
) -> None:
    answer = operator.call("PUT", "/separations/Rivals.1", BODY)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/name")


def test_only_operators_see_sets_and_only_those_who_set_terms_change_them(
    operator: Caller, rivals: tuple[TenantWorld, TenantWorld]
) -> None:
    operator.call("PUT", PATH, BODY)
    assert caller_of(rivals[0]).get(PATH).status_code == 403
    looker = operator_caller("looker@platform.test", role="viewer")
    assert looker.get(PATH).status_code == 200
    assert looker.call("PUT", PATH, BODY).status_code == 403
    assert looker.call("DELETE", f"{PATH}?reason=x").status_code == 403
    assert Separation.objects.get().version == 1
