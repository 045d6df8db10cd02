"""Does a host's message that has to wait for somebody see what that one did?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, connections, transaction

from gpuaas.kernel.models import Event
from placement.models import Node, NodeCredential, NodeTelemetry, TelemetryWindow
from placement.services.nodes import locked, node_discover
from tests.api.test_agent import BOOT, Agent
from tests.builders import OPERATOR, a_catalogue

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
NEXT_BOOT = "boot-0000-0002"
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def joined() -> Agent:
    """A host whose discovery has been handed out."""
    a_catalogue()
    agent = Agent()
    assert agent.join().status_code == 200
    [task] = agent.lease().json()["tasks"]
    failed = {"code": "broken", "detail": "x", "retryable": False}
    failed |= {"lease_epoch": task["envelope"]["lease_epoch"], "boot_id": BOOT}
    path = f"/tasks/{task['envelope']['task_id']}/fail"
    assert agent.say("POST", path, failed).status_code == 200
    Node.objects.update(last_seen_at=LONG_AGO)
    return agent


def beside(agent: Agent, act: Callable[[], Any], *, until: Callable[[], Any]) -> Any:
    """What an act comes to that waits for the node's row until somebody else has done with it."""
    came: list[Any] = []

    def acting() -> None:
        try:
            came.append(act())
        finally:
            connections.close_all()

    with transaction.atomic():
        locked(agent.node.pk)
        thread = threading.Thread(target=acting)
        thread.start()
        wait_for_waiters(1)
        until()
    thread.join(20)
    return came[0]


def wait_for_waiters(count: int) -> None:
    """Until so many connections wait for a lock."""
    for _ in range(400):
        with connection.cursor() as cursor:
            cursor.execute(_WAITING)
            if cursor.fetchone()[0] >= count:
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


def test_a_poll_that_waited_for_its_host_is_given_what_was_left_for_it_meanwhile(
    joined: Agent,
) -> None:
    def leave() -> None:
        node_discover(node_id=joined.node.pk, actor=OPERATOR)

    answer = beside(joined, joined.lease, until=leave)
    assert [task["envelope"]["kind"] for task in answer.json()["tasks"]] == [
        "slice.topology_discover"
    ]


def test_two_polls_of_a_new_boot_begin_it_once(joined: Agent) -> None:
    def rebooted() -> Any:
        message = {"boot_id": NEXT_BOOT, "max": 4, "capabilities": [], "running": []}
        return joined.say("POST", "/tasks:lease", message)

    def sooner() -> None:
        node_discover(node_id=joined.node.pk, actor=OPERATOR)
        Node.objects.filter(pk=joined.node.pk).update(boot_id=NEXT_BOOT, observed_seq=7)

    answer = beside(joined, rebooted, until=sooner)
    assert len(answer.json()["tasks"]) == 1
    assert Node.objects.get(pk=joined.node.pk).observed_seq == 7
    assert not Event.objects.filter(kind="placement.node.boot").exists()


def test_a_message_that_finds_its_number_taken_has_done_nothing(joined: Agent) -> None:
    """Heard while the next one was: it must not count as said, nor show that the host lives."""
    report = {"boot_id": BOOT, "seq": 1, "at": 1, "vms": [], "devices": {}, "conditions": []}
    assert joined.say("PUT", "/nodes/self/observed", report).status_code == 200
    series = {"metric": "cpu", "unit": "percent", "valid": 1, "invalid": 0, "last": 3, "least": 3}
    series |= {"most": 3, "mean": 3000}
    window = {"seq": 1, "began_at": 1, "ended_at": 61, "source": "host"}
    window |= {"devices": [{"device": None, "series": [series]}]}
    told = {"boot_id": BOOT, "windows": [window], "lost": 0}
    assert joined.say("POST", "/nodes/self/telemetry", told).status_code == 200
    later = {**told, "windows": [{**window, "seq": 2, "ended_at": 121}], "lost": 5}
    for act in (
        lambda: joined.say("PUT", "/nodes/self/observed", {**report, "seq": 2}),
        lambda: joined.say("POST", "/nodes/self/telemetry", later),
        joined.lease,
    ):
        Node.objects.filter(pk=joined.node.pk).update(last_seen_at=LONG_AGO)
        before = kept_of(joined)

        def overtaken() -> None:
            joined.sequence += 1
            NodeCredential.objects.filter(pk=joined.credential).update(
                last_sequence=joined.sequence
            )

        answer = beside(joined, act, until=overtaken)
        assert (answer.status_code, answer.json()["code"]) == (409, "replayed_message")
        assert kept_of(joined) == before


def kept_of(agent: Agent) -> list[Any]:
    """What is known of the host."""
    rows = Node.objects.filter(pk=agent.node.pk)
    return [
        *rows.values_list("last_seen_at", "observed_at", "observed_seq", "health"),
        *NodeTelemetry.objects.values_list("place", "lost", "received_at"),
        *TelemetryWindow.objects.values_list("place", "seq"),
    ]
