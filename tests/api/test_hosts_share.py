"""Do tenants get through while a whole fleet speaks?"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.http import HttpRequest, HttpResponse

from gpuaas.api import errors, share
from gpuaas.api.share import HostsShareMiddleware, Share
from tests.api.client import Caller
from tests.api.test_agent import Agent
from tests.builders import a_catalogue


class Slow:
    """An application whose answers wait until they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Semaphore(0)
        self.at_once, self.most = 0, 0
        self._lock = threading.Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.began.release()
        self.go.wait(20)
        with self._lock:
            self.at_once -= 1
        return HttpResponse("done")


def asked(path: str) -> HttpRequest:
    request = HttpRequest()
    request.path = request.path_info = path
    return request


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Two hosts are answered at a time, and three more wait."""
    monkeypatch.setattr(share, "hosts", Share(at_once=2, in_line=3, patience_s=20))
    application = Slow()
    yield application
    application.go.set()


def test_a_fleet_takes_its_share_of_the_threads_and_no_more(slow: Slow) -> None:
    door = HostsShareMiddleware(slow)
    answers: list[int] = []

    def speak() -> None:
        answers.append(door(asked("/agent/v1/tasks:lease")).status_code)

    crowd = [threading.Thread(target=speak) for _ in range(12)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(0.5)
    assert answers == [503] * 7, "those without a place do not wait"
    assert slow.most == 2
    tenant = threading.Thread(target=lambda: door(asked("/api/v1/me")))
    for _ in range(2):
        assert slow.began.acquire(timeout=5)
    tenant.start()
    assert slow.began.acquire(timeout=5), "a tenant's request is begun beside them"
    slow.go.set()
    for one in (*crowd, tenant):
        one.join(10)
    assert sorted(answers) == [200] * 5 + [503] * 7


def test_places_are_given_back_also_after_a_failure_and_a_wait_in_vain() -> None:
    few = Share(at_once=1, in_line=1, patience_s=0.01)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), few.turn():
            raise ValueError("broken")
    with few.turn(), pytest.raises(errors.HostsBusy), few.turn():
        raise AssertionError("there was no turn")
    with few.turn():
        pass


@pytest.mark.django_db
def test_a_host_without_a_place_is_told_when_to_come_again_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_catalogue()
    agent = Agent()
    assert agent.join().status_code == 200
    full = Share(at_once=1, in_line=0)
    monkeypatch.setattr(share, "hosts", full)
    with full.turn():
        answer = agent.lease()
        assert Caller().call("GET", "/livez").status_code == 200
    body = answer.json()
    assert (answer.status_code, body["code"]) == (503, "hosts_busy")
    assert share.AGAIN_S[0] <= body["retry_after_s"] <= share.AGAIN_S[1]
    assert answer.headers["Retry-After"] == str(body["retry_after_s"])
    assert body["facts"] == {"at_once": 1, "in_line": 0}
    assert len(agent.lease().json()["tasks"]) == 1
