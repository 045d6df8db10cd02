"""Does a parked request hear the news, and hold nothing while it waits?"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from django.db import connection, connections, transaction

from gpuaas.kernel import notify
from gpuaas.kernel.hub import Hub

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub(limit=3)
    yield made
    made.stop()


def until(true: Callable[[], bool], timeout_s: float = 10) -> bool:
    """Look often until it is so."""
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Parked(threading.Thread):
    """A request that waits until ``box`` holds something."""

    def __init__(self, hub: Hub, topic: str, box: list[str], timeout_s: float = 20) -> None:
        super().__init__(daemon=True)
        self.args = (hub, topic, box, timeout_s)
        self.answer: str | None = None
        self.looked = 0
        self.start()

    def run(self) -> None:
        hub, topic, box, timeout_s = self.args

        def check() -> str | None:
            self.looked += 1
            return box[0] if box else None

        self.answer = hub.wait([topic], timeout_s, check)
        connections.close_all()


def test_news_wakes_the_waiters_of_its_topic_when_it_commits(hub: Hub) -> None:
    box: list[str] = []
    mine, other = Parked(hub, "run:1", box), Parked(hub, "run:2", box)
    assert until(lambda: hub.listening and hub.parked == 2 and mine.looked >= 2)
    seen = other.looked
    with transaction.atomic():
        notify.publish("run:1", "run:1")
        box.append("done")
        time.sleep(0.1)
        assert mine.is_alive()
    mine.join(10)
    assert mine.answer == "done"
    assert other.is_alive()
    assert other.looked == seen
    notify.publish("run:2")
    other.join(10)
    assert (other.answer, hub.parked) == ("done", 0)


def test_what_is_rolled_back_is_not_told(hub: Hub) -> None:
    parked = Parked(hub, "run:1", box := [])
    assert until(lambda: hub.listening and parked.looked >= 2)
    with transaction.atomic():
        notify.publish("run:1")
        transaction.set_rollback(True)
    notify.publish("another")
    seen = parked.looked
    box.append("x")
    notify.publish("run:1")
    parked.join(10)
    assert (parked.answer, parked.looked) == ("x", seen + 1)


def test_a_parked_request_has_given_its_database_connection_back(hub: Hub) -> None:
    def held() -> int:
        connection.close()
        stats = cast("Any", connection).pool.get_stats()
        return int(stats["pool_size"] - stats["pool_available"])

    entered, leave = threading.Event(), threading.Event()

    def check() -> bool | None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        entered.set()
        return True if leave.is_set() else None

    def ask() -> None:
        hub.wait(["run:1"], 20, check)
        connections.close_all()

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert entered.wait(10)
    assert until(lambda: hub.listening and hub.parked == 1)
    assert until(lambda: held() == 0)
    assert waiting.is_alive()
    leave.set()
    notify.publish("run:1")
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_transaction_may_not_be_parked(hub: Hub) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="transaction"):
        hub.wait(["run:1"], 1, lambda: None)


def test_beyond_the_limit_the_answer_comes_at_once(hub: Hub) -> None:
    parked = [Parked(hub, "run:1", box := []) for _ in range(3)]
    assert until(lambda: hub.parked == 3)
    began = time.monotonic()
    assert hub.wait(["run:1"], 20, lambda: None) is None
    assert list(hub.stream(["run:1"])) == []
    assert time.monotonic() - began < 5
    for each in parked:
        each.args[2].append("done")
    box.append("done")
    notify.publish("run:1")
    for each in parked:
        each.join(10)
    assert hub.parked == 0


def test_an_answer_that_is_there_already_is_not_waited_for(hub: Hub) -> None:
    assert hub.wait(["run:1"], 20, lambda: "there") == "there"
    assert hub.wait(["run:1"], 0, lambda: None) is None
    assert not hub.listening


def test_a_lost_listener_comes_back_and_its_waiters_look_again(hub: Hub) -> None:
    parked = Parked(hub, "run:1", box := [])
    assert until(lambda: hub.listening and parked.looked >= 2)
    box.append("while deaf")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'gpuaas-listen' AND datname = current_database()"
        )
        # The process's own hub may listen too, if an earlier test woke it.
        assert cursor.fetchone()[0] >= 1
    parked.join(10)
    assert parked.answer == "while deaf"
    assert until(lambda: hub.listening)


def test_a_stream_gives_news_and_heartbeats(hub: Hub) -> None:
    stream = hub.stream(["a", "b"], heartbeat_s=0.05)
    assert next(stream) == {"a", "b"}
    first = next(stream)
    while first:
        first = next(stream)
    notify.publish("b")
    heard: set[str] = set()
    while not heard:
        heard = next(stream)
    assert heard == {"b"}
    stream.close()  # type: ignore[attr-defined]  # a generator, typed as an iterator
    assert hub.parked == 0


def test_a_forked_child_starts_with_nothing_and_listens_for_itself(hub: Hub) -> None:
    parked = Parked(hub, "run:1", box := [])
    assert until(lambda: hub.listening and parked.looked >= 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if (hub.parked, hub.listening) == (0, False) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    box.append("parent")
    notify.publish("run:1")
    parked.join(10)
    assert parked.answer == "parent"
