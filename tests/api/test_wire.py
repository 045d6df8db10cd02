"""What does every answer have in common: ids, problems, limits, pages, keys, strict bodies?"""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from unittest import mock
from uuid import UUID

import pytest
from django.db import OperationalError, connections
from psycopg import errors as pg

from gpuaas.api import limits
from gpuaas.kernel.models import IdempotencyKey
from tenants.models import Project, SshKey
from tests.api.client import Caller, caller_of
from tests.builders import TenantWorld, a_catalogue, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


def test_a_sane_request_id_is_echoed_and_kept_with_the_event(acme: Caller) -> None:
    answer = acme.post("/projects", {"name": "research"}, HTTP_X_REQUEST_ID="ticket-42")
    assert answer.headers["X-Request-ID"] == "ticket-42"
    assert acme.get("/me", HTTP_X_REQUEST_ID="a b\n").headers["X-Request-ID"] != "a b\n"
    assert UUID(acme.get("/me").headers["X-Request-ID"]).version == 7


def test_nobody_is_told_how_to_sign_in(world: TenantWorld) -> None:
    answer = Caller().get("/me")
    body = answer.json()
    assert (answer.status_code, body["code"]) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert body["type"] == "/problems/unauthenticated"
    assert body["docs"] == "/docs/reasons/unauthenticated"
    assert body["request_id"] == answer.headers["X-Request-ID"]


@pytest.mark.parametrize(
    "header", ["Bearer nonsense", "Bearer gpuaas_pat_x", "Basic eDp5", "Bearer ", "Bearer \x00"]
)
def test_a_bad_credential_is_refused_even_where_a_session_might_do(header: str) -> None:
    assert Caller().get("/me", HTTP_AUTHORIZATION=header).status_code == 401


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/agent/v1/nothing", "/api/nothing"])
def test_an_address_that_leads_nowhere_is_told_as_a_problem(path: str) -> None:
    answer = Caller().get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"


def test_a_method_that_does_not_exist_is_told_with_those_that_do(acme: Caller) -> None:
    answer = acme.call("DELETE", "/projects")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["Allow"].split(", ")) >= {"GET", "POST"}
    assert acme.call("OPTIONS", "/projects").status_code == 405


def test_a_lost_database_is_told_as_503_and_when_to_come_again(acme: Caller) -> None:
    with mock.patch(
        "gpuaas.api.views.projects.selectors.project_list", side_effect=OperationalError("gone")
    ):
        answer = acme.get("/projects")
    body = answer.json()
    assert (answer.status_code, body["code"]) == (503, "service_unavailable")
    assert answer.headers["Retry-After"] == "2"
    assert b"gone" not in answer.content
    assert body["retryable"] is True


def test_a_deadlock_is_told_as_a_conflict_to_retry(acme: Caller) -> None:
    failure = OperationalError("deadlock detected")
    failure.__cause__ = pg.DeadlockDetected()
    with mock.patch("gpuaas.api.views.projects.tenancy.project_create", side_effect=failure):
        answer = acme.post("/projects", {"name": "x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "concurrent_update")


def test_an_unknown_failure_tells_nothing_of_the_inside(acme: Caller) -> None:
    with mock.patch(
        "gpuaas.api.views.projects.selectors.project_list", side_effect=RuntimeError("secret-xyz")
    ):
        answer = acme.get("/projects")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert b"secret-xyz" not in answer.content
    assert b"Traceback" not in answer.content


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        (b'{"name": "x", "name": "y"}', 400, "duplicate_key", "/name"),
        (b'{"name": NaN}', 400, "not_finite", "/name"),
        (b'{"name": Infinity}', 400, "not_finite", "/name"),
        (b'{"name": 1e999}', 400, "not_finite", "/name"),
        (b'{"name": "a\\u0000b"}', 400, "null_character", "/name"),
        (b'{"name": "\\ud800"}', 400, "lone_surrogate", "/name"),
        (b'{"name": 123456789012345678901234567890}', 400, "out_of_range", "/name"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", 400, "too_deep", "/a" + "/0" * 15),
        (b"[" * 100_000 + b"]" * 100_000, 400, "too_deep", ""),
        (b'{"name": "x"', 400, "not_json", ""),
        (b"\xff\xfe", 400, "not_utf8", ""),
        (b'{"a": [' + b"1," * 60_000 + b"1]}", 400, "too_many", ""),
        (b'{"name": 7}', 400, "wrong_type", "/name"),
        (b'{"name": true}', 400, "wrong_type", "/name"),
        (b'{"name": null}', 400, "null", "/name"),
        (b'{"name": ["x"]}', 400, "wrong_type", "/name"),
        (b'{"name": ""}', 400, "blank", "/name"),
        (b"{}", 400, "required", "/name"),
        (b"[]", 400, "invalid", ""),
        (b'"text"', 400, "invalid", ""),
        (b'{"name": "x", "tenant": "globex"}', 400, "unknown_field", "/tenant"),
        (b'{"name": "' + b"x" * 121 + b'"}', 400, "max_length", "/name"),
    ],
)
def test_a_bad_body_is_refused_and_the_place_is_named(
    acme: Caller, body: bytes, status: int, code: str, pointer: str
) -> None:
    answer = acme.call("POST", "/projects", body)
    assert answer.status_code == status
    named = answer.json()["errors"][0]
    assert (named["code"], named["pointer"]) == (code, pointer)
    assert Project.objects.count() == 1


def test_a_body_that_is_no_json_at_all_is_told_apart_from_one_with_wrong_fields(
    acme: Caller,
) -> None:
    assert acme.call("POST", "/projects", b'{"name": "x"').json()["code"] == "malformed_json"
    assert acme.call("POST", "/projects", b'{"name": 7}').json()["code"] == "invalid_request"


def test_a_host_that_is_not_ours_is_a_bad_request(acme: Caller) -> None:
    answer = acme.get("/projects", HTTP_HOST="evil.example")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert b"evil.example" not in answer.content


def test_a_body_over_a_mebibyte_is_refused_unread(acme: Caller) -> None:
    answer = acme.call("POST", "/projects", b'{"name": "' + b"x" * 1_100_000 + b'"}')
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "text/json"]
)
def test_a_body_that_is_not_json_is_refused(acme: Caller, kind: str) -> None:
    answer = acme.call("POST", "/projects", b'{"name": "x"}', content_type=kind)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_another_charset_is_refused(acme: Caller) -> None:
    answer = acme.call(
        "POST", "/projects", b'{"name": "x"}', content_type="application/json; charset=utf-16"
    )
    assert answer.status_code == 415


def test_an_unknown_parameter_is_refused_by_name(acme: Caller) -> None:
    answer = acme.get("/projects?colour=red")
    assert answer.json()["errors"][0]["pointer"] == "/colour"
    assert answer.json()["errors"][0]["in"] == "query"
    assert acme.get("/projects?limit=1&limit=2").status_code == 400
    assert acme.get("/projects?limit=0").status_code == 400
    assert acme.get("/projects?limit=-1").status_code == 400
    assert acme.get("/projects?limit=99999").status_code == 200
    assert acme.get("/projects?limit=%00").status_code == 400


def pages_of(caller: Caller, path: str) -> list[list[str]]:
    """The names on each page."""
    found, cursor = [], ""
    while True:
        body = caller.get(f"{path}&cursor={cursor}").json()
        found.append([item["name"] for item in body["items"]])
        cursor = body["next"]
        if not cursor:
            return found


def test_pages_follow_each_other_without_gap_or_repeat(acme: Caller) -> None:
    for number in range(6):
        acme.post("/projects", {"name": f"project {number}"})
    pages = pages_of(acme, "/projects?limit=3")
    assert [len(page) for page in pages] == [3, 3, 1]
    names = [name for page in pages for name in page]
    assert sorted(names) == names
    assert len(set(names)) == 7


_NESTED = base64.urlsafe_b64encode(b"[" * 1400).decode().rstrip("=")
"""As long as a cursor may be, and deeper than a reader of JSON goes."""


def test_a_cursor_is_good_only_for_its_list_and_filters(acme: Caller) -> None:
    for number in range(3):
        acme.post("/projects", {"name": f"project {number}"})
    cursor = acme.get("/projects?limit=2").json()["next"]
    assert acme.get(f"/projects?limit=1&cursor={cursor}").status_code == 200
    for path in (
        f"/ssh-keys?cursor={cursor}",
        f"/projects?cursor={cursor}&tenant=acme",
        "/projects?cursor=nonsense",
        "/projects?cursor=%F0%9F%98%80",
        f"/projects?cursor={cursor[:-3]}",
        f"/projects?cursor={_NESTED}",
    ):
        answer = acme.get(path)
        assert (answer.status_code, answer.json()["code"]) == (400, "cursor_invalid"), path


def test_the_same_key_has_one_effect_and_one_answer(acme: Caller) -> None:
    first = acme.post("/projects", {"name": "once"}, key="k1")
    again = acme.post("/projects", {"name": "once"}, key="k1")
    assert first.status_code == again.status_code == 201
    assert again.headers["Idempotent-Replayed"] == "true"
    assert json.loads(again.content) == json.loads(first.content)
    assert Project.objects.filter(name="once").count() == 1
    other = acme.post("/projects", {"name": "twice"}, key="k1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_key_belongs_to_its_principal(acme: Caller) -> None:
    acme.post("/projects", {"name": "once"}, key="k1")
    other = caller_of(a_tenant("globex")).post("/projects", {"name": "other"}, key="k1")
    assert (other.status_code, other.json()["name"]) == (201, "other")


def test_a_failed_request_frees_its_key(acme: Caller) -> None:
    assert acme.post("/projects", {"name": ""}, key="k1").status_code == 400
    assert acme.post("/projects", {"name": "now"}, key="k1").status_code == 201


def test_a_lease_without_a_key_is_refused(acme: Caller) -> None:
    answer = acme.post("/projects/default/allocations", {"sku": "h100.slice"}, key=None)
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_required")
    bad = acme.post("/projects/default/allocations", {"sku": "h100.slice"}, key="x" * 256)
    assert bad.json()["code"] == "idempotency_key_malformed"


def test_a_refusal_that_was_kept_is_replayed_too(acme: Caller) -> None:
    body = {"sku": "h100.slice", "slots": 1}
    first = acme.post("/projects/default/allocations", body, key="k1")
    again = acme.post("/projects/default/allocations", body, key="k1")
    assert first.status_code == again.status_code == 409
    assert again.headers["Content-Type"] == "application/problem+json"
    assert again.json()["decision"] == first.json()["decision"]
    assert len(acme.get("/admission-requests").json()["items"]) == 1


def test_no_secret_is_kept_for_a_replay(acme: Caller) -> None:
    first = acme.post("/tokens", {"name": "ci"}, key="k1")
    assert first.json()["token"].startswith("gpuaas_pat_")
    assert not IdempotencyKey.objects.exists()


def test_every_answer_tells_the_limit(acme: Caller) -> None:
    answer = acme.get("/me")
    assert answer.headers["RateLimit-Policy"] == '"api";q=3000;w=60'
    assert answer.headers["RateLimit"].startswith('"api";r=')


@pytest.mark.parametrize("shared", [True, False])
def test_too_many_requests_are_told_when_to_come_again(
    acme: Caller, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(limits, "API", limits.Policy("api", 3, 600))
    monkeypatch.setattr("gpuaas.api.base.ProductView.policy", limits.API)
    if not shared:
        monkeypatch.setattr(limits.buckets, "_shared_again_at", float("inf"))
    answers = [acme.get("/me") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    body = answers[-1].json()
    assert body["code"] == "rate_limited"
    assert 0 < body["retry_after_s"] <= 201
    assert answers[-1].headers["Retry-After"] == str(body["retry_after_s"])
    assert answers[-1].headers["RateLimit"].startswith('"api";r=0')


def test_strangers_of_one_network_share_a_limit(
    world: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = limits.Policy("few", 2, 6000, shared=False)
    monkeypatch.setattr(limits, "ANONYMOUS", few)
    addresses = ["2001:db8:9:9::1", "2001:db8:9:9::2", "2001:db8:9:9::3", "2001:db8:9:8::1"]
    answers = [Caller().get("/me", REMOTE_ADDR=address) for address in addresses]
    assert [answer.status_code for answer in answers] == [401, 401, 429, 401]


def test_a_dead_broker_stops_no_request(acme: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "buckets", limits.Buckets("redis://127.0.0.1:1/0"))
    assert acme.get("/me").status_code == 200


def test_list_queries_do_not_grow_with_the_list(
    acme: Caller, world: TenantWorld, django_assert_max_num_queries: object
) -> None:
    for number in range(30):
        SshKey.objects.create(
            tenant=world.tenant,
            user=world.owner,
            name=f"key {number}",
            public_key="ssh-ed25519 AAAA",
            fingerprint=f"SHA256:{number}",
        )
    with django_assert_max_num_queries(14):  # type: ignore[operator]  # pytest-django's fixture
        assert len(acme.get("/ssh-keys").json()["items"]) == 30


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/projects/%00",
        "/api/v1/projects/a%00b",
        "/api/v1/allocations/not-a-uuid",
        "/api/v1/allocations/00000000-0000-0000-0000-00000000000g",
        "/api/v1/projects/" + "x" * 4000,
        "/api/v1/projects/%F0%9F%98%80",
        "/api/v1/projects/%ff",
        "/api/v1/projects/..%2f..%2fetc",
        "/api/v1//projects",
        "/api/v1/projects/",
    ],
)
def test_an_address_that_no_route_takes_is_not_found(acme: Caller, path: str) -> None:
    answer = acme.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_head_is_answered_like_get_without_a_body(acme: Caller) -> None:
    answer = acme.call("HEAD", "/projects")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_problems_type_leads_to_its_page() -> None:
    answer = Caller().call("GET", "/problems/sku-unavailable")
    assert (answer.status_code, answer.headers["Location"]) == (
        302,
        "/docs/reasons/sku_unavailable",
    )
    assert Caller().call("GET", "/problems/no-such-thing").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_twins_with_one_key_have_one_effect_and_the_same_answer(acme: Caller) -> None:
    def once(number: int) -> tuple[int, str]:
        try:
            answer = Caller(acme.token).post("/projects", {"name": "once"}, key="k1")
            return answer.status_code, str(json.loads(answer.content).get("id"))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(once, range(24)))
    assert {status for status, _ in answers} == {201}
    assert len(answers) == 1
    assert Project.objects.filter(name="once").count() == 1
