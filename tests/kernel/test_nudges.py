"""Does a hint cost its sender nothing, whatever the broker does?"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from django.conf import settings
from redis import Redis

from gpuaas.embedded.processes import free_port
from gpuaas.kernel import nudges
from gpuaas.kernel.nudges import Publisher


def until(true: Callable[[], bool], timeout_s: float = 10) -> bool:
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def use(url: str) -> None:
        app = Celery("nudged", broker=url, set_as_current=False)
        app.conf.update(task_publish_retry=False, task_default_queue="nudged")
        monkeypatch.setattr(nudges, "current_app", app)

    return use


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A broker that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_hints_reach_the_broker(
    broker: Callable[[str], None],
) -> None:
    broker(settings.CONFIG.redis_url)
    with Redis.from_url(settings.CONFIG.redis_url) as redis:
        redis.delete("nudged")
        publisher = Publisher()
        publisher.send("warm.up")
        assert until(lambda: redis.llen("nudged") == 1)
        publisher.send("gpuaas.kernel.drive", "1")
        publisher.send("gpuaas.kernel.drive", "2")
        assert until(lambda: redis.llen("nudged") == 3)
        redis.delete("nudged")


def test_a_dead_broker_costs_the_sender_nothing(
    broker: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nudges, "PAUSE_S", 0.01)
    broker(f"redis://127.0.0.1:{free_port()}/0")
    publisher = Publisher()
    began = time.monotonic()
    for n in range(1000):
        publisher.send("gpuaas.kernel.drive", str(n))
    assert time.monotonic() - began < 1
    assert until(lambda: publisher.queued() == 0)


def test_a_broker_that_never_answers_holds_nobody_and_the_queue_stays_bounded(
    broker: Callable[[str], None], black_hole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nudges, "LIMIT", 50)
    broker(black_hole)
    publisher = Publisher()
    began = time.monotonic()
    for n in range(1000):
        publisher.send("gpuaas.kernel.drive", str(n))
    assert time.monotonic() - began < 1
    assert publisher.queued() <= 50


def test_a_hint_that_is_queued_already_is_not_queued_again(
    broker: Callable[[str], None], black_hole: str
) -> None:
    broker(black_hole)
    publisher = Publisher()
    publisher.send("gpuaas.kernel.drive", "first")
    for _ in range(10):
        publisher.send("gpuaas.kernel.drive", "again")
    assert publisher.queued() <= 2
