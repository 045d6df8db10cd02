"""Do programs, invitations and operators' looks work over REST, with the second factor?"""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.test import TestCase

from gpuaas.kernel.models import Event
from tenants.models import BreakGlass, Invitation, User
from tests.api.client import Caller, caller_of, operator_caller, token_of
from tests.builders import TenantWorld, a_catalogue, a_member, a_tenant
from tests.identity.factors import code_of, enrol

pytestmark = pytest.mark.django_db
WHY = "ticket 4711: the lease page is empty"


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant."""
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def owner(acme: TenantWorld) -> Caller:
    """Its owner's token."""
    return caller_of(acme)


def a_program(owner: Caller, role: str = "member") -> tuple[str, str]:
    """A service account's id, and a token of its."""
    made = owner.post("/service-accounts", {"name": "ci", "role": role}).json()
    token = owner.post(f"/service-accounts/{made['id']}/tokens", {"name": "runner"}).json()
    return made["id"], token["token"]


def test_a_program_calls_as_itself_until_it_is_disabled(owner: Caller) -> None:
    account, token = a_program(owner)
    program = Caller(token)
    me = program.get("/me").json()
    assert (me["service_account"]["name"], me["email"], me["role"]) == ("ci", "", "member")
    assert program.get("/allocations").status_code == 200
    assert program.post("/service-accounts", {"name": "x", "role": "viewer"}).status_code == 403
    assert program.get("/tokens").status_code == 403
    listed = owner.get("/service-accounts").json()["items"]
    assert [(one["name"], one["live_tokens"]) for one in listed] == [("ci", 1)]
    done = owner.post(f"/service-accounts/{account}/actions/disable", {"reason": "old"}).json()
    assert done["disabled_at"] is not None
    assert program.get("/me").status_code == 401


def test_one_token_of_a_program_is_revoked(owner: Caller) -> None:
    account, token = a_program(owner)
    (row,) = owner.get(f"/service-accounts/{account}/tokens").json()["items"]
    assert "token" not in row
    assert (
        owner.call("DELETE", f"/service-accounts/{account}/tokens/{row['id']}", None).status_code
        == 204
    )
    assert Caller(token).get("/me").status_code == 401
    assert (
        owner.call("DELETE", f"/service-accounts/{account}/tokens/{account}", None).status_code
        == 404
    )


@pytest.mark.parametrize("role", ["owner", "root", ""])
def test_a_program_gets_no_role_that_programs_may_not_have(owner: Caller, role: str) -> None:
    answer = owner.post("/service-accounts", {"name": "ci", "role": role})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/role"


def test_an_invitation_is_mailed_and_never_answered(owner: Caller) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        made = owner.post("/invitations", {"email": "grace@example.test", "role": "viewer"})
    assert made.status_code == 201
    secret = str(mail.outbox[-1].body).partition("/invitation/")[2].partition("/")[0]
    assert len(secret) > 40
    assert secret not in made.content.decode()
    assert secret not in owner.get("/invitations").content.decode()
    twice = owner.post("/invitations", {"email": "grace@example.test", "role": "viewer"})
    assert (twice.status_code, twice.json()["code"]) == (409, "invitation_exists")
    gone = owner.post(f"/invitations/{made.json()['id']}/actions/revoke", {}).json()
    assert gone["revoked_at"] is not None


def test_only_those_who_run_the_tenant_invite(acme: TenantWorld) -> None:
    admin = caller_of(acme, a_member(acme, "admin"))
    member = caller_of(acme, a_member(acme, "member"))
    body = {"email": "grace@example.test", "role": "owner"}
    assert member.post("/invitations", body).status_code == 403
    above = admin.post("/invitations", body)
    assert (above.status_code, above.json()["code"]) == (403, "role_above_own")
    assert admin.post("/invitations", {**body, "email": "no address"}).status_code == 400
    assert not Invitation.objects.exists()


def windows(caller: Caller, **headers: str) -> Any:
    """Ask for a window into acme."""
    return caller.call(
        "POST", "/break-glass", {"tenant": "acme", "reason": WHY, "minutes": 10}, **headers
    )


def test_through_a_window_an_operator_reads_what_the_tenant_does_and_writes_nothing(
    acme: TenantWorld, owner: Caller
) -> None:
    operator = operator_caller()
    inside = {"HTTP_GPUAAS_TENANT": "acme"}
    assert operator.call("GET", "/ssh-keys", None, **inside).status_code == 403
    assert windows(operator).status_code == 201
    assert operator.call("GET", "/ssh-keys", None, **inside).status_code == 200
    write = operator.call("POST", "/projects", {"name": "mine"}, **inside)
    assert write.status_code == 403
    (seen,) = owner.get("/break-glass").json()["items"]
    assert (seen["operator"], seen["reason"]) == ("operator@platform.test", WHY)
    looks = Event.objects.filter(kind="tenants.breakglass.look", tenant_id=acme.tenant.pk)
    assert [(e.facts["method"], e.facts["path"]) for e in looks.order_by("id")] == [
        ("GET", "/api/v1/ssh-keys"),
        ("POST", "/api/v1/projects"),
    ]
    assert operator.post(f"/break-glass/{seen['id']}/actions/end", {}).status_code == 200
    assert operator.call("GET", "/ssh-keys", None, **inside).status_code == 403


def test_a_token_of_somebody_with_a_factor_needs_a_code_for_what_is_sensitive(
    acme: TenantWorld,
) -> None:
    person = User.objects.create_user(
        "op@platform.test", "correct horse battery", is_staff=True, operator_role="administrator"
    )
    secret, spare = enrol(person)
    operator = Caller(token_of(person))
    bare = windows(operator)
    assert (bare.status_code, bare.json()["code"]) == (403, "second_factor_needed")
    wrong = windows(operator, HTTP_GPUAAS_SECOND_FACTOR="000000")
    assert (wrong.status_code, wrong.json()["code"]) == (403, "second_factor_wrong")
    assert not BreakGlass.objects.exists()
    code = code_of(secret)
    assert windows(operator, HTTP_GPUAAS_SECOND_FACTOR=code).status_code == 201
    assert operator.get("/nodes").status_code == 200
    again = windows(operator, HTTP_GPUAAS_SECOND_FACTOR=code)
    assert again.json()["code"] == "second_factor_wrong"
    BreakGlass.objects.all().delete()
    assert windows(operator, HTTP_GPUAAS_SECOND_FACTOR=spare[0]).status_code == 201


def test_the_tenant_reads_its_own_windows_only(acme: TenantWorld, owner: Caller) -> None:
    globex = caller_of(a_tenant("globex"))
    windows(operator_caller())
    assert len(owner.get("/break-glass").json()["items"]) == 1
    assert globex.get("/break-glass").json()["items"] == []
    assert globex.post("/break-glass", {"tenant": "acme", "reason": WHY}).status_code == 403
