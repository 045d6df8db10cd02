"""Do a host's measurements and differences come over the wire, and are they shown to operators?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.protocol import TelemetryReport
from nodeagent.simhost.backend import SimBackend
from nodeagent.simhost.hardware import HardwareConfig, create_host
from nodeagent.simhost.state import SimVm
from nodeagent.simhost.telemetry import SimTelemetry
from placement.domain.links import with_links
from placement.models import Node, TelemetryWindow
from placement.services.slots import slots_take
from tests.api.client import Caller, caller_of, operator_caller
from tests.api.test_agent import BOOT, Agent
from tests.builders import OPERATOR, a_catalogue, a_host, a_report, a_tenant
from tests.nodeagent.clock import FakeClock
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db
ADDRESS = "/nodes/self/telemetry"


@pytest.fixture
def operator() -> Caller:
    """An operator."""
    a_catalogue()
    return operator_caller()


@pytest.fixture
def simulated(tmp_path: Path) -> TelemetryReport:
    """What a simulated host measured in two minutes."""
    create_host(tmp_path / "h", HardwareConfig("gpu-01"), topology_file("azure-ndv5-topo.xml"))
    clock = FakeClock()
    feed = SimTelemetry(SimBackend(tmp_path / "h", clock), clock)
    for _ in range(2):
        clock.time += 61
        feed.windows()
    return TelemetryReport(BOOT, tuple(feed.windows().waiting()))


def test_a_simulated_host_measures_what_is_on_its_disk_and_says_that_it_is_made_up(
    tmp_path: Path, simulated: TelemetryReport
) -> None:
    first, second = simulated.windows
    assert {first.source, second.source} == {"simulated"}
    gpus = [one for one in first.devices if one.device is not None]
    assert len(gpus) == 8
    idle = {series.metric: series for series in gpus[0].series}
    assert (idle["gpu_utilisation"].most, idle["gpu_utilisation"].valid) == (0, 6)
    assert (idle["memory_temperature"].last, idle["memory_temperature"].reason) == (
        None,
        "simulated",
    )
    clock = FakeClock()
    backend = SimBackend(tmp_path / "h", clock)
    feed = SimTelemetry(backend, clock)
    machine_of(backend, gpus[0].device or "")
    clock.time += 61
    (window,) = feed.windows().waiting()
    busy = {one.device: {s.metric: s for s in one.series} for one in window.devices}
    least = busy[gpus[0].device]["gpu_utilisation"].least
    assert least is not None
    assert least >= 60
    assert busy[gpus[1].device]["gpu_utilisation"].most == 0


def machine_of(backend: SimBackend, gpu: str) -> None:
    """A machine runs on this GPU."""
    state = backend.store.state
    state.vms["a"] = SimVm("vm-a", "a", "x", "running", "i", [0], [gpu], "127.0.0.1", 22)
    backend.store.save()


def test_telemetry_is_signed_kept_once_and_shown(
    operator: Caller, simulated: TelemetryReport
) -> None:
    agent = Agent()
    agent.join()
    body = simulated.to_json()
    assert [agent.say("POST", ADDRESS, body).status_code for _ in range(2)] == [200, 200]
    assert TelemetryWindow.objects.count() == 2
    shown = operator.get("/nodes/gpu-01/telemetry?metric=gpu_utilisation").json()
    assert (shown["measured_by"], shown["stale"], shown["lost"]) == ("simulated", False, 0)
    assert len(shown["devices"]) == 9
    assert len(shown["history"]) == 16
    assert operator.get("/nodes/gpu-01/telemetry?metric=../x").status_code == 400


@pytest.mark.parametrize(
    "change",
    [
        {"windows": []},
        {"windows": [{"seq": 0}]},
        {"boot_id": "x"},
        {"more": 1},
        {"lost": -1},
        {"lost": "many"},
    ],
)
def test_a_report_that_is_none_is_refused_by_its_place(
    operator: Caller, simulated: TelemetryReport, change: dict[str, object]
) -> None:
    agent = Agent()
    agent.join()
    answer = agent.say("POST", ADDRESS, simulated.to_json() | change)
    assert (answer.status_code, answer.json()["code"]) == (400, "message_invalid")
    assert TelemetryWindow.objects.count() == 0


def test_a_tenant_sees_nothing_of_hosts(operator: Caller) -> None:
    a_host()
    tenant = caller_of(a_tenant())
    for place in ("telemetry", "identity"):
        assert tenant.get(f"/nodes/host-1/{place}").status_code == 403


def test_a_difference_is_shown_and_accepted(operator: Caller) -> None:
    host = a_host()
    report = a_report("host-1")
    without = replace(report, gpus=report.gpus[:7], slots=report.slots[:7], hostname="renamed")
    node = host.fresh()
    node.topology = without.to_json()
    node.save(update_fields=["topology"])
    slots_take(node, without, actor=OPERATOR)
    shown = operator.get("/nodes/host-1/identity").json()
    assert shown["hostname"] == "renamed"
    (one,) = [d for d in shown["differences"] if d["slot_index"] is not None]
    assert (one["code"], one["outcome"], one["to_accept"]) == ("card_vanished", "block", True)
    assert operator.get("/nodes/host-1").json()["slots_free"] == 7
    address = "/nodes/host-1/actions/accept"
    assert operator.post(address, {"slot_index": 7, "reason": ""}).status_code == 400
    assert operator.post(address, {"slot_index": 3, "reason": "x"}).status_code == 404
    accepted = operator.post(address, {"slot_index": 7, "reason": "sent back"})
    assert accepted.status_code == 200
    assert [d for d in accepted.json()["differences"] if d["slot_index"] is not None] == []


def test_slots_tell_their_direct_links_and_nothing_where_those_were_not_read(
    operator: Caller,
) -> None:
    host = a_host("host-1")
    shown = operator.get("/nodes/host-1/slots").json()["items"]
    assert [slot["nvlink_links"] for slot in shown] == [None] * 8
    layout = with_links(host.fresh().layout, {(0, 1): 2, (1, 2): 1})
    Node.objects.filter(pk=host.node.pk).update(layout=layout)
    shown = operator.get("/nodes/host-1/slots").json()["items"]
    told = [slot["nvlink_links"] for slot in shown]
    assert told == [{"1": 2}, {"0": 2, "2": 1}, {"1": 1}, *[{}] * 5]
