"""How does a tenant change its members, end a project, and end itself?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tenants.models import ApiToken, Entitlement, Member, Project, Tenant, User
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import TenantWorld, a_catalogue, a_host, a_member, a_tenant

pytestmark = pytest.mark.django_db
REASON = {"reason": "a test"}


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def owner(acme: TenantWorld) -> Caller:
    return caller_of(acme)


@pytest.fixture
def operator(acme: TenantWorld) -> Caller:
    return operator_caller()


def member_path(user: User) -> str:
    return f"/members/{Member.objects.get(user=user).pk}"


def test_a_person_is_added_changed_and_removed(acme: TenantWorld, owner: Caller) -> None:
    grace = User.objects.create_user("grace@example.test", None)
    made = owner.post("/members", {"email": "grace@example.test", "role": "viewer"})
    assert (made.status_code, made.json()["email"]) == (202, "grace@example.test")
    assert not Member.objects.filter(user=grace).exists()
    Member.objects.create(tenant=acme.tenant, user=grace, role="viewer")
    path = member_path(grace)
    changed = owner.call("PUT", f"{path}/role", {"role": "admin"})
    assert (changed.status_code, changed.json()["role"]) == (200, "admin")
    assert len(owner.get("/members").json()["items"]) == 2
    assert owner.call("DELETE", path).status_code == 204
    assert owner.get(path).status_code == 404


def test_what_stood_on_a_membership_ends_with_it(acme: TenantWorld, owner: Caller) -> None:
    person = a_member(acme, "member")
    theirs = caller_of(acme, person)
    assert theirs.get("/members").status_code == 200
    owner.call("DELETE", member_path(person))
    assert theirs.get("/members").status_code == 401
    assert not ApiToken.objects.filter(user=person, revoked_at__isnull=True).exists()


def test_the_only_owner_stays(acme: TenantWorld, owner: Caller) -> None:
    path = member_path(acme.owner)
    for answer in (
        owner.call("PUT", f"{path}/role", {"role": "viewer"}),
        owner.call("DELETE", path),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "last_owner")
    assert Member.objects.get(user=acme.owner).role == "owner"


def test_an_admin_makes_no_owner(acme: TenantWorld) -> None:
    admin = caller_of(acme, a_member(acme, "admin"))
    viewer = a_member(acme, "viewer")
    answer = admin.call("PUT", f"{member_path(viewer)}/role", {"role": "owner"})
    assert answer.status_code == 403
    assert Member.objects.get(user=viewer).role == "viewer"


@pytest.mark.parametrize("role", ["king", "", None, 1])
def test_a_role_that_does_not_exist_is_refused_by_its_field(
    acme: TenantWorld, owner: Caller, role: Any
) -> None:
    answer = owner.call("PUT", f"{member_path(acme.owner)}/role", {"role": role})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/role"]


def test_an_address_is_answered_alike_with_and_without_an_account(owner: Caller) -> None:
    User.objects.create_user("somebody@example.test", None)
    answers = []
    for email in ("nobody@example.test", "somebody@example.test"):
        for _ in range(2):
            answer = owner.post("/members", {"email": email, "role": "viewer"})
            shown = answer.content.decode().replace(email, "MAIL")
            for key in ("id", "created_at", "expires_at", "request_id"):
                shown = re.sub(rf'"{key}":\s?"[^"]*"', "", shown)
            answers.append((answer.status_code, shown))
    assert answers[0][0] == 202
    assert answers[:2] == answers[2:]


def test_a_project_ends_only_when_it_holds_nothing(acme: TenantWorld, owner: Caller) -> None:
    host = a_host()
    owner.post("/projects", {"name": "short"})
    owner.post("/projects/short/allocations", order_body(slots=1, name="held"))
    host.work()
    full = owner.call("DELETE", "/projects/short")
    assert (full.status_code, full.json()["code"]) == (409, "project_not_empty")
    assert [one["name"] for one in full.json()["facts"]["held"]] == ["held"]
    (held,) = owner.get("/allocations").json()["items"]
    owner.post(f"/allocations/{held['id']}/actions/release", {})
    assert owner.call("DELETE", "/projects/short").status_code == 409
    host.work()
    assert owner.call("DELETE", "/projects/short").status_code == 204
    assert owner.get("/projects/short").status_code == 404
    assert "short" not in [p["slug"] for p in owner.get("/projects").json()["items"]]
    assert Project.objects.get(slug="short").deleted_at is not None
    assert owner.post("/projects/short/allocations", order_body()).status_code == 404


def test_a_listed_catalogue_admits_what_was_granted(
    acme: TenantWorld, owner: Caller, operator: Caller
) -> None:
    a_host()
    listed = operator.call("PUT", "/tenants/acme/catalogue", {**REASON, "catalogue": "listed"})
    assert listed.json() == {"catalogue": "listed", "items": [], "next": ""}
    refused = owner.post("/projects/default/allocations", order_body(slots=1))
    assert (refused.status_code, refused.json()["code"]) == (403, "entitlement_missing")
    granted = operator.post("/tenants/acme/entitlements", {**REASON, "sku": "h100.slice"})
    assert (granted.status_code, granted.json()["items"][0]["sku"]) == (201, "h100.slice")
    assert owner.get("/entitlements").json()["items"][0]["over"] is False
    assert owner.post("/projects/default/allocations", order_body(slots=1)).status_code == 202
    revoke = "/tenants/acme/entitlements/h100.slice/actions/revoke"
    assert operator.post(revoke, REASON).json()["items"] == []
    assert operator.post(revoke, REASON).status_code == 404
    assert not Entitlement.objects.exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"sku": "nothing"}, "/sku"),
        ({"sku": "h100.slice", "until": "2001-01-01T00:00:00Z"}, "/until"),
        ({"sku": "h100.slice", "until": "soon"}, "/until"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused_by_its_field(
    operator: Caller, body: dict[str, str], pointer: str
) -> None:
    answer = operator.post("/tenants/acme/entitlements", {**REASON, **body})
    assert answer.status_code in {400, 404}
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert not Entitlement.objects.exists()


def test_a_tenant_ends_when_its_last_proof_is_there(
    acme: TenantWorld, owner: Caller, operator: Caller
) -> None:
    host = a_host()
    owner.post("/projects/default/allocations", order_body(slots=1, name="last"))
    host.work()
    assert owner.get("/tenant").json()["state"] == "active"
    begun = owner.post("/tenant/deletion", REASON)
    assert begun.status_code == 202
    shown = operator.get("/tenants/acme/deletion").json()
    assert (shown["tenant"]["state"], shown["held_count"]) == ("deleting", 1)
    assert [one["name"] for one in shown["held"]] == ["last"]
    assert owner.get("/tenant").status_code == 401
    assert Tenant.objects.get(slug="acme").state == "deleting"
