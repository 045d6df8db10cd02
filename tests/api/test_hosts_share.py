"""Do tenants get through while a whole fleet speaks?"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from gpuaas.api import errors, share
from gpuaas.api.share import HostsShareMiddleware, Share
from gpuaas.wsgi import application
from placement.services import signatures
from placement.services.signatures import heard_before
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


class Silent(io.RawIOBase):
    """A body that is announced and never comes, until the connection is lost."""

    def __init__(self) -> None:
        self.awaited, self.lost = threading.Event(), threading.Event()

    def read(self, size: int = -1) -> bytes:
        self.awaited.set()
        self.lost.wait(60)
        raise OSError("the connection is lost")


def announced(path: str, body: Silent) -> dict[str, Any]:
    """What the server hands on once it has the headers: all that somebody without a credential
    can write there."""
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": "100",
        "HTTP_GPUAAS_SEQUENCE": "1",
        "HTTP_GPUAAS_TIMESTAMP": "1",
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.url_scheme": "http",
    }


def asked(path: str) -> HttpRequest:
    return RequestFactory().post(path, b"{}", content_type="application/json")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Two hosts are answered at a time, and three more wait."""
    monkeypatch.setattr(share, "strangers", Share(at_once=2, in_line=3, patience_s=20))
    slow_one = Slow()
    yield slow_one
    slow_one.go.set()


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


@pytest.fixture
def known() -> Agent:
    """A host that this process has heard."""
    a_catalogue()
    agent = Agent()
    assert agent.join().status_code == 200
    assert agent.lease(signature="AAAA").status_code == 401
    assert not heard_before(agent.credential), "a wrong signature makes nobody known"
    assert agent.lease().status_code == 200
    assert heard_before(agent.credential)
    return agent


@pytest.mark.django_db
def test_a_host_without_a_place_is_told_when_to_come_again_and_loses_nothing(
    known: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Share(at_once=1, in_line=0)
    monkeypatch.setattr(share, "hosts", full)
    with full.turn():
        answer = known.lease()
        assert Caller().call("GET", "/livez").status_code == 200
    body = answer.json()
    assert (answer.status_code, body["code"]) == (503, "hosts_busy")
    assert share.AGAIN_S[0] <= body["retry_after_s"] <= share.AGAIN_S[1]
    assert answer.headers["Retry-After"] == str(body["retry_after_s"])
    assert body["facts"] == {"at_once": 1, "in_line": 0}
    known.sequence -= 1
    assert known.lease().status_code == 200, "its number was not used"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/agent/v1/tasks:lease", "/agent/v1/join"])
def test_bodies_that_never_come_hold_nobody_up(known: Agent, path: str) -> None:
    bodies = [Silent() for _ in range(share.AT_ONCE)]
    told: list[str] = []

    def speak(body: Silent) -> None:
        b"".join(application(announced(path, body), lambda status, _: told.append(status)))

    silent = [threading.Thread(target=speak, args=(body,)) for body in bodies]
    for one in silent:
        one.start()
    try:
        for body in bodies:
            assert body.awaited.wait(20), "each is waited for, on its own thread"
        assert known.lease().status_code == 200
        assert Agent("gpu-02").join().status_code == 200, "strangers neither"
        assert told == []
    finally:
        for body in bodies:
            body.lost.set()
        for one in silent:
            one.join(20)
    assert told == ["400 Bad Request"] * len(bodies)


@pytest.mark.django_db
def test_strangers_wait_for_strangers_and_the_known_for_the_known(
    known: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers, hosts = Share(at_once=1, in_line=0), Share(at_once=1, in_line=0)
    monkeypatch.setattr(share, "strangers", strangers)
    monkeypatch.setattr(share, "hosts", hosts)
    other = Agent("gpu-02")
    with strangers.turn():
        assert known.lease().status_code == 200
        assert other.join().status_code == 503
        made_up = known.lease(credential="00000000-0000-4000-8000-000000000000")
        assert made_up.status_code == 503
        named = known.http.call(
            "POST", "/agent/v1/join", b"{}", HTTP_GPUAAS_CREDENTIAL=known.credential
        )
        assert named.status_code == 503, "a join is a stranger's, whatever it names"
    with hosts.turn():
        assert other.join().status_code == 200
        assert other.lease().status_code == 200, "its first message here"
        assert other.lease().status_code == 503, "now it is known"


@pytest.mark.django_db
def test_a_body_that_is_far_too_large_is_told_so_and_not_read(known: Agent) -> None:
    body = Silent()
    told: list[str] = []
    announcement = announced("/agent/v1/tasks:lease", body) | {"CONTENT_LENGTH": "20000000"}
    answer = b"".join(application(announcement, lambda status, _: told.append(status)))
    assert told[0].startswith("413"), answer
    assert not body.awaited.is_set()


def test_the_memory_of_who_was_heard_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "KEYS_KEPT", 2)
    monkeypatch.setattr(signatures, "_heard", set())
    names = [uuid4() for _ in range(5)]
    for name in names:
        signatures._remember(name)
        assert heard_before(str(name))
    assert sum(heard_before(str(name)) for name in names) == 2
    assert not heard_before("nobody")
