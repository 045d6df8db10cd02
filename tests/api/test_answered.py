"""Is every problem that the API answers with counted by its code, over all processes?"""

from __future__ import annotations

import pytest
import redis
from django.conf import settings

from gpuaas.api import answered
from gpuaas.api.answered import Problems
from gpuaas.kernel import ids
from tests.api.client import Caller, caller_of, order_body
from tests.builders import a_catalogue, a_host, a_tenant
from tests.flows.everywhere import metrics

pytestmark = pytest.mark.django_db
KEY = f"gpuaas:test:problems:{ids.new_id()}"


def counting() -> Problems:
    """What one process counts."""
    return Problems(settings.CONFIG.redis_url, KEY)


@pytest.fixture(autouse=True)
def none_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of this test alone: what other tests counted is handed on elsewhere."""
    redis.Redis.from_url(settings.CONFIG.redis_url).delete(KEY)
    monkeypatch.setattr(answered, "problems", counting())


@pytest.fixture
def acme() -> Caller:
    a_catalogue()
    a_host()
    return caller_of(a_tenant("acme"))


def told(code: str, status: int) -> float:
    labels = frozenset({("code", code), ("status", str(status))})
    return metrics().get(("gpuaas_api_problems_total", labels), 0)


def test_bad_input_is_counted_by_its_code(acme: Caller) -> None:
    before = told("invalid_request", 400)
    for slots in (-1, "many"):
        answer = acme.post("/projects/default/allocations", {**order_body(), "slots": slots})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert told("invalid_request", 400) == before + 2


def test_an_address_that_is_none_is_counted_too(acme: Caller) -> None:
    before = told("not_found", 404)
    assert acme.get("/no-such-thing").status_code == 404
    assert told("not_found", 404) == before + 1


def test_what_was_answered_well_is_not_counted(acme: Caller) -> None:
    assert acme.get("/me").status_code == 200
    assert sum(answered.problems.read().values()) == 0


def test_processes_count_together() -> None:
    processes = [counting() for _ in range(3)]
    for one in processes:
        for _ in range(4):
            one.add("quota_exceeded", 403)
    for one in processes:
        one.read()
    assert [one.read()["quota_exceeded", 403] for one in processes] == [12, 12, 12]


def test_without_a_broker_a_process_tells_what_it_counted_and_hands_it_on_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lonely = Problems("redis://127.0.0.1:1/0", KEY)
    for _ in range(5):
        lonely.add("not_found", 404)
    assert lonely.read()["not_found", 404] == 5
    there = counting()
    monkeypatch.setattr(lonely._counts, "_client", there._counts._client)
    assert lonely.read()["not_found", 404] == 5
    assert counting().read()["not_found", 404] == 5


def test_while_the_broker_is_away_the_last_known_counts_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = counting()
    for _ in range(7):
        one.add("not_found", 404)
    assert one.read()["not_found", 404] == 7
    away = Problems("redis://127.0.0.1:1/0", KEY)
    monkeypatch.setattr(one._counts, "_client", away._counts._client)
    one.add("not_found", 404)
    assert one.read()["not_found", 404] == 8
