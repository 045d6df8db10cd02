"""Are members, projects, data sets, decisions and the tenant's end handled from the portal?"""

from __future__ import annotations

from typing import Any

import pytest

from placement.errors import SkuUnavailable
from placement.services.allocations import allocation_release
from tenants.models import DataSet, Member, Project, ProjectQuota, Tenant, User
from tenants.services.tenancy import project_create
from tests.portal.conftest import Browser, World


def member(world: World, role: str) -> Member:
    """The membership of the person of this role in acme."""
    return Member.objects.get(tenant=world.acme.tenant, user=world.people[role])


def change(world: World, of: str, what: str, by: str = "owner", **given: Any) -> Any:
    """Send one of the forms beside a member."""
    path = world.url(f"team/members/{member(world, of).pk}/{what}/")
    return world.browser(by).send(path, given)


def test_a_role_is_changed_and_a_member_removed(world: World) -> None:
    change(world, "viewer", "role", role="member")
    assert member(world, "viewer").role == "member"
    change(world, "viewer", "remove")
    assert not Member.objects.filter(user=world.people["viewer"]).exists()


def test_nobody_gives_or_takes_a_role_above_their_own(world: World) -> None:
    assert change(world, "viewer", "role", by="admin", role="owner").status_code == 403
    assert change(world, "owner", "remove", by="admin").status_code == 403
    assert change(world, "viewer", "remove", by="member").status_code == 403
    assert change(world, "viewer", "role", role="king").status_code == 400
    html = world.browser("admin").get(world.url("team/")).content.decode()
    assert f"/team/members/{member(world, 'owner').pk}/" not in html


def test_the_only_owner_is_told_that_they_stay(world: World) -> None:
    answer = change(world, "owner", "remove")
    assert answer.status_code == 409
    assert "last_owner" in answer.content.decode()


def test_whoever_leaves_is_led_away(world: World) -> None:
    answer = change(world, "admin", "remove", by="admin")
    assert answer.headers["Location"] == "/"


def test_a_project_shows_what_it_holds_and_is_deleted_when_empty(world: World) -> None:
    browser, page = world.browser(), world.url("team/projects/default/")
    assert "train-1" in browser.get(page).content.decode()
    refused = browser.send(f"{page}delete/")
    assert refused.status_code == 409
    assert "project_not_empty" in refused.content.decode()
    allocation_release(allocation_id=world.running.pk, reason="done", actor=world.acme.actor)
    world.host.work()
    assert browser.send(f"{page}delete/").headers["Location"] == world.url("team/")
    assert Project.objects.get(tenant=world.acme.tenant, slug="default").deleted_at is not None
    assert browser.get(page).status_code == 404


def test_a_project_is_limited_inside_the_tenants_quota(world: World) -> None:
    page = world.url("team/projects/default/limit/")
    given = {"resource_class": "h100-slot", "limit_milli": "4", "reason": "a share"}
    world.browser().send(page, given)
    row = ProjectQuota.objects.get(project__slug="default", tenant=world.acme.tenant)
    assert row.limit_milli == 4000
    low = world.browser().send(page, {**given, "limit_milli": "1"})
    assert low.status_code == 400
    assert world.browser("viewer").send(page, given).status_code == 403


def test_data_is_declared_moved_and_retired(world: World) -> None:
    browser = world.browser("member")
    made = browser.send(world.url("datasets/"), {"name": "imagenet", "zones": "z1, z2"})
    page = world.url("datasets/imagenet/")
    assert made.headers["Location"] == page
    browser.send(page, {"racks": "r7", "required": "on"})
    first, second = DataSet.objects.order_by("version")
    assert (first.zones, first.required) == (["z1", "z2"], False)
    assert (second.racks, second.required, second.zones) == (["r7"], True, [])
    html = browser.get(page).content.decode()
    assert "Declare version 3" in html
    browser.send(f"{page}retire/")
    assert "retired" in browser.get(page).content.decode()
    assert "No data set yet" in browser.get(world.url("datasets/")).content.decode()


def test_data_that_lies_nowhere_is_refused_beside_its_field(world: World) -> None:
    answer = world.browser().send(world.url("datasets/"), {"name": "imagenet"})
    assert answer.status_code == 400
    assert 'id="id_zones_error"' in answer.content.decode()
    assert world.browser("viewer").send(world.url("datasets/"), {}).status_code == 403
    assert world.browser().get(world.url("datasets/nothing/")).status_code == 404


@pytest.mark.parametrize(
    ("outcome", "seen"), [("admitted", True), ("no_capacity", True), ("denied", False)]
)
def test_decisions_are_told_apart_by_how_they_ended(world: World, outcome: str, seen: bool) -> None:
    with pytest.raises(SkuUnavailable):
        world.acme.order(slots=8)
    html = world.browser().get(world.url(f"decisions/?outcome={outcome}")).content.decode()
    assert ("Nothing like this" not in html) == seen
    assert ("sku_unavailable" in html) == (outcome == "no_capacity")


def test_the_tenants_page_says_what_was_promised(world: World) -> None:
    html = world.browser("billing").get(world.url("tenant/")).content.decode()
    assert "Priority band" in html
    assert "Every published SKU" in html
    assert "Delete this tenant" not in html


def test_only_an_owner_who_types_the_address_deletes_the_tenant(world: World) -> None:
    page, given = world.url("tenant/delete/"), {"reason": "we leave", "address": "acme"}
    assert world.browser("admin").send(page, given).status_code == 403
    wrong = world.browser().send(page, {**given, "address": "globex"})
    assert wrong.status_code == 400
    assert 'id="id_address_error"' in wrong.content.decode()
    assert Tenant.objects.get(slug="acme").state == "active"
    world.browser().send(page, given)
    assert Tenant.objects.get(slug="acme").state == "deleting"
    html = world.browser().get(world.url("tenant/")).content.decode()
    assert "It is being deleted" in html


def test_a_project_of_its_own_may_be_named_as_a_deleted_one(world: World) -> None:
    project_create(tenant_id=world.acme.tenant.pk, name="short", actor=world.acme.actor)
    world.browser().send(world.url("team/projects/short/delete/"))
    again = world.browser().send(world.url("team/projects/"), {"name": "short"})
    assert again.status_code == 302


def test_what_is_anothers_is_not_there(world: World) -> None:
    stranger = Browser.of(world.globex.owner)
    for path in ("team/projects/default/", "datasets/", "tenant/", "workloads/new/"):
        assert stranger.get(world.url(path)).status_code == 404
    path = world.url(f"team/members/{member(world, 'viewer').pk}/remove/", tenant="globex")
    assert stranger.send(path).status_code == 404
    assert User.objects.filter(memberships=member(world, "viewer")).exists()
