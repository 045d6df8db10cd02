"""Does a creation ask the database no more than it must, and lose nothing by that?"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.http import HttpRequest
from rest_framework.renderers import JSONRenderer

from gpuaas.api import limits
from gpuaas.api.lane import straight
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.views.operations import operation_shown
from gpuaas.kernel import clock, ids, workflow
from gpuaas.kernel.models import RunState, WorkflowRun
from placement.models import Allocation
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    a_host()
    return a_tenant("acme")


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the database was asked, each statement as its first words."""
    asked: list[str] = []
    real: Callable[..., Any] = psycopg.Cursor.execute

    def spy(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        asked.append(" ".join(text.split())[:160])
        return real(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", spy)
    return asked


def test_a_creation_in_a_project_named_by_id_is_three_statements(
    acme: Caller, world: TenantWorld, said: list[str]
) -> None:
    path = f"/projects/{world.project.pk}/allocations"
    assert acme.post(path, order_body()).status_code == 202
    said.clear()
    assert acme.post(path, order_body()).status_code == 202
    assert [one.split()[0] for one in said] == ["SELECT", "WITH", "SELECT"]
    assert said[0].startswith("SELECT token.id")
    assert said[1].startswith("WITH ask")
    assert "placement_commit" in said[2]


def test_a_creation_in_a_project_named_by_its_name_keeps_its_key_by_itself(
    acme: Caller, said: list[str]
) -> None:
    assert acme.post("/projects/default/allocations", order_body()).status_code == 202
    words = [one.split()[0] for one in said]
    assert words.count("WITH") == 2
    assert said[-1].startswith("UPDATE kernel_idempotencykey")


def test_the_answer_tells_of_the_run_as_it_is_kept(acme: Caller, world: TenantWorld) -> None:
    answer = acme.post("/projects/default/allocations", order_body(name="one")).json()
    assert acme.get(f"/operations/{answer['id']}").json() == answer


def test_the_run_of_a_ticket_is_the_row_that_was_written(world: TenantWorld) -> None:
    begun = world.order(slots=2).run
    kept = WorkflowRun.objects.get(pk=begun.pk)
    for field in WorkflowRun._meta.concrete_fields:
        assert getattr(begun, field.attname) == getattr(kept, field.attname), field.attname


@pytest.mark.parametrize("operator", [True, False])
@pytest.mark.parametrize("state", list(RunState))
def test_an_operation_is_the_very_bytes_that_its_description_makes(
    world: TenantWorld, state: str, operator: bool
) -> None:
    run = world.order(slots=1).run
    run.state = state
    run.error = {"code": "task_overdue", "detail": "late", "facts": {"node": "n1"}}
    run.steps[0] |= {"started_at": "2030-01-01T00:00:00+00:00", "detail": "said", "percent": 7}
    run.steps[1] |= {"state": "failed", "error": {"code": "step_failed", "detail": "broke"}}
    run.result = {"host": "h"}
    run.ended_at = clock.db_now() + timedelta(microseconds=1)
    shown = operation_shown(run, operator=operator)
    described = dict(wire.OperationOut(shown).data)
    assert JSONRenderer().render(shown) == JSONRenderer().render(described)
    assert list(shown) == list(wire.OperationOut().fields)


def test_a_platforms_own_run_is_shown_without_a_tenant(world: TenantWorld) -> None:
    run = workflow.start(
        "allocation.create", subject_kind="x", subject_id=ids.new_id(), tenant_id=None, input={},
        actor=OPERATOR, done=("admit",),
    )  # fmt: skip
    shown = operation_shown(run, operator=True)
    assert shown["tenant"] is None
    assert JSONRenderer().render(shown) == JSONRenderer().render(wire.OperationOut(shown).data)


def test_a_project_of_nobody_is_missing_whatever_the_order_says(acme: Caller) -> None:
    other = a_tenant("umbrella")
    for project in (other.project.pk, ids.new_id(), "nowhere"):
        for body in (order_body(), order_body(sku="no.such"), order_body(slots=60)):
            answer = acme.post(f"/projects/{project}/allocations", body)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert not Allocation.objects.exists()


def test_a_reader_of_bodies_keeps_nothing_from_one_to_the_next() -> None:
    first = wire.OrderIn.read(order_body(name="one", ssh_keys=[str(ids.new_id())]))
    second = wire.OrderIn.read(order_body())
    assert (first["name"], second["name"]) == ("one", None)
    assert len(first["ssh_keys"]) == 1
    assert second["ssh_keys"] == []
    assert wire.OrderIn.read(order_body())["ssh_keys"] is not second["ssh_keys"]


def test_a_busy_programs_calls_do_not_each_ask_for_a_share_of_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = limits.Buckets(settings.CONFIG.redis_url)
    asked: list[int] = []
    take = shared._take

    def spy(**how: Any) -> Any:
        asked.append(1)
        return take(**how)

    monkeypatch.setattr(shared, "_take", spy)
    busy = limits.Policy("busy", 3000, 6_000_000)
    left = [shared.spend(busy, str(ids.new_id())).remaining for _ in range(2)]
    assert left == [2999, 2999]
    asked.clear()
    who = str(ids.new_id())
    assert [shared.spend(busy, who).remaining for _ in range(20)] == list(range(2999, 2979, -1))
    assert len(asked) == 3


def test_nobody_spends_more_than_the_limit_by_taking_ahead() -> None:
    few = limits.Policy("few", 300, 6_000_000)
    processes = [limits.Buckets(settings.CONFIG.redis_url) for _ in range(3)]
    who = str(ids.new_id())
    spent = [one.spend(few, who).allowed for _ in range(150) for one in processes]
    assert spent == [True] * 300 + [False] * 150
    many = limits.Policy("many", 1200, 6_000_000)
    allowed = sum(one.spend(many, who).allowed for _ in range(500) for one in processes)
    assert 1200 - 3 * 3 <= allowed <= 1200


def test_what_was_taken_ahead_is_not_kept_for_later() -> None:
    shared = limits.Buckets(settings.CONFIG.redis_url)
    busy = limits.Policy("late", 3000, 6_000_000)
    who = str(ids.new_id())
    with clock.use(clock.FakeClock(clock.now())) as fake:
        assert isinstance(fake, clock.FakeClock)
        assert shared.spend(busy, who).remaining == 2999
        fake.advance(2)
        assert shared.spend(busy, who).remaining == 2991


def request_of(path: str, **meta: str) -> HttpRequest:
    request = HttpRequest()
    request.path = request.path_info = path
    request.META = meta
    return request


@pytest.mark.parametrize(
    ("path", "meta", "goes"),
    [
        ("/api/v1/projects/p/allocations", {"HTTP_AUTHORIZATION": "Bearer x"}, True),
        ("/api/v1/me", {"HTTP_AUTHORIZATION": ""}, False),
        ("/api/v1/projects/p/allocations", {}, False),
        ("/api/v1/auth/token", {"HTTP_AUTHORIZATION": "Bearer x"}, False),
        ("/api/v1/signup", {"HTTP_AUTHORIZATION": "Bearer x"}, False),
        ("/console/", {"HTTP_AUTHORIZATION": "Bearer x"}, False),
        ("/agent/v1/tasks:lease", {}, True),
        ("/agents", {}, False),
        (
            "/api/v1/nodes",
            {"HTTP_AUTHORIZATION": "Bearer x", "HTTP_GPUAAS_SECOND_FACTOR": "1"},
            False,
        ),
    ],
)
def test_only_a_program_with_its_token_and_a_host_go_straight(
    path: str, meta: dict[str, str], goes: bool
) -> None:
    assert straight(request_of(path, **meta)) is goes


def test_a_header_that_is_wrong_never_falls_back_on_a_session(
    world: TenantWorld,
) -> None:
    browser = Browser.of(world.owner)
    assert browser.get("/api/v1/me").status_code == 200
    for header in ("Bearer nonsense", "Basic eA==", "x"):
        answer = browser.get("/api/v1/me", HTTP_AUTHORIZATION=header)
        assert answer.status_code == 401, header
        assert json.loads(answer.content)["code"] == "unauthenticated"


def test_a_program_is_answered_with_every_header_of_protection(acme: Caller) -> None:
    for caller, path in ((acme, "/me"), (acme, "/nowhere"), (operator_caller(), "/nodes")):
        headers = caller.get(path).headers
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Content-Length"].isdigit()
        assert headers["X-Request-ID"]
