"""Can people sign up, sign in, and keep tokens, keys and projects over the API?"""

from __future__ import annotations

import pytest
from allauth.mfa.totp.internal import auth as totp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.test import Client

from tenants.models import ApiToken, Member, Project, Role, SshKey, Tenant, User
from tenants.services import second_factor
from tests.api.client import PASSWORD, Caller, an_operator, caller_of, operator_caller, token_of
from tests.builders import TenantWorld, a_catalogue, a_member, a_tenant

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBn1Jd4YbS0nO0cC3m3h1wq0v6C4tqk1i0pC7a5hZ2qX me@host"


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


SIGNUP = {"email": "new@example.test", "password": PASSWORD, "tenant_name": "New Tenant"}


def test_whoever_signs_up_owns_a_tenant_that_waits_for_approval(world: TenantWorld) -> None:
    answer = Caller().post("/signup", SIGNUP)
    assert answer.status_code == 201
    assert answer.json()["state"] == "pending"
    member = Member.objects.get(user__email="new@example.test")
    assert (member.role, member.tenant.name) == (Role.OWNER, "New Tenant")
    assert PASSWORD.encode() not in answer.content


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"password": "short"}, "/password"),
        ({"password": "password1234"}, "/password"),
        ({"email": "not-an-address"}, "/email"),
        ({"tenant_name": "\u202edoog"}, "/tenant_name"),
        ({"operator": True}, "/operator"),
        ({"is_staff": True}, "/is_staff"),
    ],
)
def test_a_bad_signup_is_refused_and_leaves_nothing(
    world: TenantWorld, change: dict[str, object], pointer: str
) -> None:
    answer = Caller().post("/signup", {**SIGNUP, **change})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not User.objects.filter(email="new@example.test").exists()
    assert not Tenant.objects.filter(name="New Tenant").exists()


def test_an_address_signs_up_once(world: TenantWorld) -> None:
    Caller().post("/signup", SIGNUP)
    again = Caller().post("/signup", {**SIGNUP, "email": "NEW@example.test"})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")


def test_a_password_is_exchanged_for_a_token_that_works(world: TenantWorld) -> None:
    answer = Caller().post("/auth/token", {"email": "OWNER@acme.test", "password": PASSWORD})
    body = answer.json()
    assert answer.status_code == 201
    assert body["tenant"] == str(world.tenant.pk)
    assert Caller(body["token"]).get("/me").json()["email"] == "owner@acme.test"


OPERATOR = {"email": "operator@platform.test", "password": PASSWORD}


def test_in_the_demo_an_operator_gets_a_token_for_a_password(
    world: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "OPERATOR_FACTOR_GRACE", True)
    an_operator()
    answer = Caller().post("/auth/token", OPERATOR)
    me = Caller(answer.json()["token"]).get("/me").json()
    assert (me["operator"], me["tenant"], me["via"]) == (True, None, "token")


def test_elsewhere_an_operator_sets_a_second_factor_up_first(world: TenantWorld) -> None:
    an_operator()
    answer = Caller().post("/auth/token", OPERATOR)
    assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_setup_needed")
    assert not ApiToken.objects.exists()


def code_now(secret: str, step: int = 0) -> str:
    counter = next(iter(totp.yield_hotp_counters_from_time())) + step
    return str(totp.format_hotp_value(totp.hotp_value(secret, counter)))


def test_a_password_alone_is_not_enough_where_a_second_factor_is_set_up(
    world: TenantWorld,
) -> None:
    secret = second_factor.secret_new()
    spare = second_factor.factor_add(
        user=world.owner, secret=secret, code=code_now(secret), actor=world.actor
    )
    body = {"email": "owner@acme.test", "password": PASSWORD}
    bare = Caller().post("/auth/token", body)
    assert (bare.status_code, bare.json()["code"]) == (403, "second_factor_needed")
    wrong = Caller().post("/auth/token", {**body, "code": "000000"})
    assert (wrong.status_code, wrong.json()["code"]) == (403, "second_factor_wrong")
    assert not ApiToken.objects.exists()
    assert Caller().post("/auth/token", {**body, "code": spare[0]}).status_code == 201
    again = Caller().post("/auth/token", {**body, "code": spare[0]})
    assert again.json()["code"] == "second_factor_wrong"


def test_wrong_codes_lock_the_second_factor(world: TenantWorld) -> None:
    secret = second_factor.secret_new()
    second_factor.factor_add(
        user=world.owner, secret=secret, code=code_now(secret), actor=world.actor
    )
    body = {"email": "owner@acme.test", "password": PASSWORD, "code": "000000"}
    answers = [Caller().post("/auth/token", body) for _ in range(6)]
    assert answers[-1].json()["code"] == "second_factor_locked"


def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(world: TenantWorld) -> None:
    wrong = Caller().post("/auth/token", {"email": "owner@acme.test", "password": "x" * 12})
    unknown = Caller().post("/auth/token", {"email": "who@acme.test", "password": "x" * 12})
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json()["detail"] == unknown.json()["detail"]
    assert not ApiToken.objects.exists()


def test_guessing_a_password_locks_the_address_out(world: TenantWorld) -> None:
    for _ in range(8):
        Caller().post("/auth/token", {"email": "owner@acme.test", "password": "x" * 12})
    answer = Caller().post("/auth/token", {"email": "owner@acme.test", "password": PASSWORD})
    assert answer.json().get("code") == "sign_in_refused", answer.content
    assert answer.status_code == 401


def guess(password: str, address: str) -> int:
    body = {"email": "owner@acme.test", "password": password}
    status: int = Caller().post("/auth/token", body, REMOTE_ADDR=address).status_code
    return status


@pytest.mark.parametrize(
    ("addresses", "elsewhere"),
    [
        ([f"2001:db8:1:2::{number:x}" for number in range(8)], "2001:db8:1:3::1"),
        (["198.51.100.4", "::ffff:198.51.100.4"] * 4, "198.51.100.5"),
        (["unknown"] * 8, "198.51.100.5"),
    ],
)
def test_guessing_from_all_addresses_of_a_network_locks_the_network_out(
    world: TenantWorld, addresses: list[str], elsewhere: str
) -> None:
    assert {guess("x" * 12, address) for address in addresses} == {401}
    assert guess(PASSWORD, addresses[0]) == 401
    assert guess(PASSWORD, elsewhere) == 201


def test_a_token_is_refused_for_a_tenant_that_one_is_no_member_of(world: TenantWorld) -> None:
    globex = a_tenant("globex")
    for named in (globex.tenant.slug, str(globex.tenant.pk), "no-such-tenant"):
        answer = Caller().post(
            "/auth/token", {"email": "owner@acme.test", "password": PASSWORD, "tenant": named}
        )
        assert (answer.status_code, answer.json()["code"]) == (403, "tenant_required")


def test_a_tokens_text_is_shown_once(acme: Caller) -> None:
    made = acme.post("/tokens", {"name": "ci", "scopes": ["allocations:read"]}).json()
    assert Caller(made["token"]).get("/allocations").status_code == 200
    listed = acme.get("/tokens")
    assert made["token"].encode() not in listed.content
    assert {item["name"] for item in listed.json()["items"]} == {"ci", "test"}


def test_a_scoped_token_can_do_what_its_scopes_say_and_no_more(acme: Caller) -> None:
    made = acme.post("/tokens", {"name": "ci", "scopes": ["allocations:read"]}).json()
    scoped = Caller(made["token"])
    refused = scoped.get("/projects")
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert refused.json()["facts"]["scope"] == "projects:read"
    assert scoped.post("/tokens", {"name": "more"}).status_code == 403


def test_a_token_cannot_make_a_token_that_may_do_more(acme: Caller) -> None:
    scopes = ["tokens:write", "allocations:read"]
    made = acme.post("/tokens", {"name": "ci", "scopes": scopes}).json()
    scoped = Caller(made["token"])
    assert scoped.post("/tokens", {"name": "all"}).status_code == 403
    more = {"name": "more", "scopes": ["projects:write"]}
    assert scoped.post("/tokens", more).status_code == 403
    same = {"name": "same", "scopes": ["allocations:read"]}
    assert scoped.post("/tokens", same).status_code == 201


def test_a_revoked_token_opens_nothing(acme: Caller) -> None:
    made = acme.post("/tokens", {"name": "ci"}).json()
    assert acme.call("DELETE", f"/tokens/{made['id']}").status_code == 204
    assert Caller(made["token"]).get("/me").status_code == 401
    assert acme.call("DELETE", f"/tokens/{made['id']}").status_code == 404


def test_another_members_token_is_as_good_as_missing(acme: Caller, world: TenantWorld) -> None:
    viewer = a_member(world, "viewer")
    token_of(viewer, world)
    theirs = ApiToken.objects.get(user=viewer)
    assert acme.call("DELETE", f"/tokens/{theirs.pk}").status_code == 404
    assert ApiToken.objects.get(pk=theirs.pk).revoked_at is None


def test_a_key_is_kept_once_and_forgotten(acme: Caller) -> None:
    made = acme.post("/ssh-keys", {"public_key": KEY})
    assert made.status_code == 201
    assert made.json()["name"] == "me@host"
    assert acme.post("/ssh-keys", {"public_key": KEY}).json()["code"] == "name_taken"
    path = f"/ssh-keys/{made.json()['id']}"
    assert acme.get(path).json()["fingerprint"].startswith("SHA256:")
    assert acme.call("DELETE", path).status_code == 204
    assert acme.get(path).status_code == 404
    assert not SshKey.objects.exists()


def test_two_keys_of_a_tenant_never_have_one_name(acme: Caller) -> None:
    def another() -> str:
        public = Ed25519PrivateKey.generate().public_key()
        return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    assert acme.post("/ssh-keys", {"name": "laptop", "public_key": KEY}).status_code == 201
    twice = acme.post("/ssh-keys", {"name": "laptop", "public_key": another()})
    assert (twice.status_code, twice.json()["code"]) == (409, "name_taken")
    assert twice.json()["errors"][0]["pointer"] == "/name"
    assert acme.post("/ssh-keys", {"name": "other", "public_key": another()}).status_code == 201
    unnamed = [acme.post("/ssh-keys", {"public_key": another()}) for _ in range(2)]
    assert [answer.status_code for answer in unnamed] == [201, 201]
    assert len({answer.json()["name"] for answer in unnamed}) == 2


def test_what_is_no_public_key_is_refused_by_name(acme: Caller) -> None:
    private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END"
    answer = acme.post("/ssh-keys", {"public_key": private})
    assert (answer.status_code, answer.json()["code"]) == (400, "ssh_key_invalid")
    assert answer.json()["errors"][0]["pointer"] == "/public_key"


def test_a_project_is_found_by_slug_and_by_id(acme: Caller) -> None:
    made = acme.post("/projects", {"name": "Deep Research"}).json()
    assert made["slug"] == "deep-research"
    assert acme.get("/projects/deep-research").json() == made
    assert acme.get(f"/projects/{made['id']}").json() == made
    assert acme.get("/projects/other").status_code == 404


def test_a_member_may_not_make_a_project(world: TenantWorld) -> None:
    member = caller_of(world, a_member(world, "member"))
    answer = member.post("/projects", {"name": "x"})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


def test_the_envelope_shows_limit_and_use(acme: Caller) -> None:
    (item,) = acme.get("/envelopes").json()["items"]
    assert (item["resource_class"], item["limit_milli"], item["free_milli"]) == (
        "h100-slot",
        64000,
        64000,
    )


def signed_in(world: TenantWorld, *, csrf: bool = False) -> Client:
    client = Client(enforce_csrf_checks=csrf)
    client.force_login(world.owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_the_portals_session_reads_in_the_first_tenant(world: TenantWorld) -> None:
    me = signed_in(world).get("/api/v1/me").json()
    assert (me["tenant"]["name"], me["via"], me["role"]) == ("acme", "user", "owner")


def test_the_portals_session_changes_only_with_the_pages_token(world: TenantWorld) -> None:
    client = signed_in(world, csrf=True)
    answer = client.post("/api/v1/projects", {"name": "x"}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_refused")
    unchecked = signed_in(world)
    made = unchecked.post("/api/v1/projects", {"name": "x"}, content_type="application/json")
    assert made.status_code == 201


def test_a_person_works_in_the_tenant_they_name_if_it_is_theirs(world: TenantWorld) -> None:
    globex = a_tenant("globex")
    Member.objects.create(tenant=globex.tenant, user=world.owner, role=Role.VIEWER)
    client = signed_in(world)
    assert client.get("/api/v1/me?tenant=globex").json()["role"] == "viewer"
    named = client.get("/api/v1/projects", headers={"Gpuaas-Tenant": "globex"}).json()
    assert {item["tenant"] for item in named["items"]} == {str(globex.tenant.pk)}
    a_tenant("initech")
    theirs = client.get("/api/v1/projects?tenant=initech")
    missing = client.get("/api/v1/projects?tenant=nobody")
    assert theirs.status_code == missing.status_code == 403
    assert theirs.json()["detail"] == missing.json()["detail"]


def test_a_tokens_tenant_cannot_be_changed_by_naming_another(acme: Caller) -> None:
    globex = a_tenant("globex")
    for refused in (
        acme.get("/projects?tenant=globex"),
        acme.get(f"/projects?tenant={globex.tenant.pk}"),
        acme.get("/projects?tenant=nobody"),
        acme.get("/me", HTTP_GPUAAS_TENANT="globex"),
        # Not made in the token's own tenant instead.
        acme.post("/projects", {"name": "astray"}, HTTP_GPUAAS_TENANT="globex"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "tenant_required")
    assert not Project.objects.filter(name="astray").exists()
    assert acme.get("/projects?tenant=acme").status_code == 200
    assert acme.get("/me", HTTP_GPUAAS_TENANT="acme").json()["tenant"]["name"] == "acme"


def test_an_operator_looks_into_one_tenant_by_naming_it(world: TenantWorld) -> None:
    a_tenant("globex")
    operator = operator_caller()
    every = operator.get("/projects").json()["items"]
    one = operator.get("/projects?tenant=globex").json()["items"]
    assert (len(every), len(one)) == (2, 1)
    assert operator.get("/me?tenant=globex").json()["tenant"]["name"] == "globex"
