"""What does a large fleet cost the control plane?  Statements a message, when there is no news."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import prepared
from nodeagent.protocol import ObservedReport, TelemetryReport, TelemetryWindow
from nodeagent.simhost.backend import SimBackend
from nodeagent.simhost.hardware import HardwareConfig, create_host
from nodeagent.simhost.state import SimVm
from placement.models import Node, NodeTelemetry, ReadinessEvidence, XidEvent
from placement.models import TelemetryWindow as KeptWindow
from placement.services import approvals, quiet, tasks
from placement.services.evidence import FRESH
from placement.services.quiet import IN_FULL_EVERY, JUDGED_EVERY
from placement.services.telemetry import RING
from tests.api.test_agent import Agent
from tests.builders import OPERATOR, a_catalogue
from tests.nodeagent.clock import FakeClock
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db


class Steady(Agent):
    """A host in service that has nothing new to say."""

    def __init__(self, folder: Path) -> None:
        a_catalogue()
        super().__init__("host-1")
        create_host(folder, HardwareConfig("host-1"), topology_file("azure-ndv5-topo.xml"))
        self.backend = SimBackend(folder, FakeClock(time.time()))
        self.boot = self.backend.boot_id()
        self.seq = 0
        assert self.join(boot_id=self.boot).status_code == 200
        [task] = self.poll()["tasks"]
        done = {
            "lease_epoch": task["envelope"]["lease_epoch"],
            "boot_id": self.boot,
            "result": self.backend.topology().to_json(),
        }
        path = f"/tasks/{task['envelope']['task_id']}/complete"
        assert self.say("POST", path, done).status_code == 200
        approvals.node_approve(node_id=self.node.pk, actor=OPERATOR, reason="x", family="h100x8")
        for _ in range(3):
            self.report()

    def poll(self) -> Any:
        """Ask for work."""
        message = {"boot_id": self.boot, "max": 4, "capabilities": [], "running": []}
        answer = self.say("POST", "/tasks:lease", message)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def report(self, **change: Any) -> None:
        """Say what is on the host."""
        self.seq += 1
        seen = asyncio.run(self.backend.observe())
        message = ObservedReport(
            self.boot, self.seq, int(time.time()), seen.vms, seen.devices, seen.conditions
        ).to_json()
        answer = self.say("PUT", "/nodes/self/observed", {**message, **change})
        assert answer.status_code == 200, answer.content


@pytest.fixture
def host(tmp_path: Path) -> Steady:
    """A host in service."""
    return Steady(tmp_path / "host-1")


def statements(seen: CaptureQueriesContext) -> int:
    """How many, without the marks of transactions."""
    marks = ("SAVEPOINT", "RELEASE", "ROLLBACK")
    return sum(not query["sql"].startswith(marks) for query in seen.captured_queries)


def prepared_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are sent prepared from now on, as they are sent."""
    asked: list[str] = []
    rows = prepared.rows

    def noted(sql: Any, params: Any) -> Any:
        asked.append(sql)
        return rows(sql, params)

    monkeypatch.setattr(prepared, "rows", noted)
    return asked


def test_a_poll_with_nothing_to_do_takes_one_prepared_statement(
    host: Steady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who speaks, that it is alive, the time, and whether anything is due."""
    # The hosts are counted twice a minute, which is not this poll's cost.
    monkeypatch.setattr(tasks, "_fleet", (float("inf"), 1))
    host.poll()
    asked = prepared_statements(monkeypatch)
    with CaptureQueriesContext(connection) as seen:
        assert host.poll()["tasks"] == []
    assert (statements(seen), len(asked)) == (0, 1), seen.captured_queries


def test_a_report_without_news_takes_one_prepared_statement(
    host: Steady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who speaks; the time; that it is all as before; and what is held there."""
    host.report()
    asked = prepared_statements(monkeypatch)
    with CaptureQueriesContext(connection) as seen:
        host.report()
    assert (statements(seen), len(asked)) == (0, 1), seen.captured_queries
    row = Node.objects.get(pk=host.node.pk)
    assert (row.observed_seq, row.health) == (host.seq, "ok")
    assert row.observed_at == row.last_seen_at


def test_a_report_without_news_reads_no_lease_that_is_over() -> None:
    """Its plan is the same for all values, so that each index has to be found by words alone."""
    text, _ = prepared._numbered(quiet._SAME)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN (GENERIC_PLAN) " + text.decode())
        plan = [line for (line,) in cursor.fetchall()]
    assert [line for line in plan if "Seq Scan" in line] == []
    assert any("allocation_live" in line for line in plan)


def test_every_so_many_reports_one_is_taken_in_full(host: Steady) -> None:
    assert in_full_of_the_next(host, IN_FULL_EVERY) == 1


def test_a_look_in_full_that_is_lost_comes_with_the_next_report(host: Steady) -> None:
    while (host.seq + 1) % IN_FULL_EVERY:
        host.report()
    host.seq += 1  # sent, and never heard
    assert in_full_of_the_next(host, 1) == 1
    assert in_full_of_the_next(host, IN_FULL_EVERY - 2) == 0
    with pytest.raises(AssertionError):
        host.report(conditions="none")  # heard, and not understood
    assert in_full_of_the_next(host, 1) == 1
    assert in_full_of_the_next(host, 1) == 0


def test_the_age_of_evidence_is_judged_also_where_every_eighth_report_is_lost(
    host: Steady,
) -> None:
    while (host.seq + 1) % JUDGED_EVERY:
        host.report()
    known = ReadinessEvidence.objects.get(node=host.node, check_name="runtime", device="")
    old = known.observed_at - 2 * FRESH
    ReadinessEvidence.objects.filter(pk=known.pk).update(observed_at=old)
    host.seq += 1
    host.report()
    known.refresh_from_db()
    assert known.observed_at > old + FRESH


def in_full_of_the_next(host: Steady, count: int) -> int:
    """How many of the next reports are taken in full."""
    took = []
    for _ in range(count):
        with CaptureQueriesContext(connection) as seen:
            host.report()
        took.append(statements(seen) > 0)
    return took.count(True)


def test_where_an_error_or_the_age_of_evidence_counts_reports_are_judged_sooner(
    host: Steady,
) -> None:
    host.report()
    known = ReadinessEvidence.objects.get(node=host.node, check_name="runtime", device="")
    assert in_full_of_the_next(host, JUDGED_EVERY) == 0
    old = known.observed_at - 2 * FRESH
    ReadinessEvidence.objects.filter(pk=known.pk).update(observed_at=old)
    assert in_full_of_the_next(host, JUDGED_EVERY) == 1
    known.refresh_from_db()
    assert known.observed_at > old + FRESH, "and written down again"
    assert in_full_of_the_next(host, JUDGED_EVERY) == 0
    XidEvent.objects.create(
        node=host.node, gpu_uuid="GPU-1", xid=13, count=1, at=known.observed_at, boot_id=host.boot
    )
    assert in_full_of_the_next(host, JUDGED_EVERY) >= 1


def test_news_is_never_taken_for_none(host: Steady) -> None:
    host.report()
    gone = {"code": "prerequisite_missing", "detail": "no vfio", "device": None}
    host.report(conditions=[{**gone, "claim_ref": None}])
    assert Node.objects.get(pk=host.node.pk).health == "degraded"
    host.report()
    assert Node.objects.get(pk=host.node.pk).health == "ok"
    Node.objects.filter(pk=host.node.pk).update(health="unknown")
    host.report()
    assert Node.objects.get(pk=host.node.pk).health == "ok"
    stray = SimVm("x", "", "stray", "running", "i", [0], [], "127.0.0.1", 22)
    host.backend.store.state.vms["x"] = stray
    host.backend.store.save()
    host.report()
    assert [c["code"] for c in Node.objects.get(pk=host.node.pk).conditions] == ["unknown_vm"]


def a_window(host: Steady, seq: int, **change: Any) -> dict[str, Any]:
    """A report of one window with one number of the host itself."""
    ended = int(time.time()) + seq
    series = {"metric": "cpu", "unit": "percent", "valid": 1, "invalid": 0, "last": 3, "least": 3,
              "most": 3, "mean": 3000}  # fmt: skip
    window = TelemetryWindow.from_json(
        {"seq": seq, "began_at": ended - 60, "ended_at": ended, "source": "host",
         "devices": [{"device": None, "series": [series]}], "driver": "570.1"} | change
    )  # fmt: skip
    return TelemetryReport(host.boot, (window,), lost=seq).to_json()


def test_a_window_with_nothing_to_act_upon_takes_one_prepared_statement(
    host: Steady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who speaks; whether the window is known; its place in the ring; and the window."""
    path = "/nodes/self/telemetry"
    assert host.say("POST", path, a_window(host, 1)).status_code == 200
    message = a_window(host, 2)
    asked = prepared_statements(monkeypatch)
    with CaptureQueriesContext(connection) as seen:
        assert host.say("POST", path, message).status_code == 200
    assert (statements(seen), len(asked)) == (0, 1), seen.captured_queries
    ring = NodeTelemetry.objects.get(node=host.node)
    assert (ring.place, ring.lost) == (1, 3)
    kept = TelemetryWindow.from_json(
        KeptWindow.objects.get(node=host.node, place=1).body  # as it was sent, whole
    )
    assert kept.to_json() == message["windows"][0]
    assert host.say("POST", path, message).status_code == 200
    assert KeptWindow.objects.filter(node=host.node).count() == 2, "said again, it is one"
    assert NodeTelemetry.objects.get(node=host.node).lost == 3


def test_a_window_that_says_more_is_taken_the_long_way(host: Steady) -> None:
    path = "/nodes/self/telemetry"
    for seq in (1, 2):
        assert host.say("POST", path, a_window(host, seq)).status_code == 200
    assert host.say("POST", path, a_window(host, 3, driver="570.2")).status_code == 200
    assert Node.objects.get(pk=host.node.pk).driver == [570, 2]
    gpu = host.backend.topology().gpus[0].uuid
    xid = {"device": gpu, "xid": 79, "count": 1, "last_at": int(time.time())}
    assert host.say("POST", path, a_window(host, 4, driver="570.2", xids=[xid])).status_code == 200
    assert XidEvent.objects.filter(node=host.node).count() == 1
    assert host.say("POST", path, a_window(host, 5, driver=None)).status_code == 200
    assert KeptWindow.objects.filter(node=host.node).count() == 5
    assert Node.objects.get(pk=host.node.pk).driver == [570, 2]


def test_the_ring_turns_and_begins_again_at_its_first_place(host: Steady) -> None:
    path = "/nodes/self/telemetry"
    for seq in range(1, RING + 3):
        assert host.say("POST", path, a_window(host, seq)).status_code == 200
    kept = dict(KeptWindow.objects.filter(node=host.node).values_list("place", "seq"))
    assert len(kept) == RING
    assert (kept[0], kept[1], kept[2]) == (RING + 1, RING + 2, 3)
