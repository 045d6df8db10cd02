"""Does a fleet run as a real process, stop at once when asked, and survive being killed?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeagent.simfleet.__main__ import main as simfleet
from nodeagent.simfleet.spec import prepare
from nodeagent.simhost.hardware import HardwareError, read_config, read_hardware
from nodeagent.simhost.state import StateStore, address, gpu_uuid
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.control import TOKEN, Control, serve
from tests.topologies import topology_file


def write_spec(folder: Path, *hosts: dict[str, object]) -> Path:
    """A spec file for these hosts, all made from one topology."""
    path = folder / "hosts.json"
    topology = str(topology_file("azure-ndv5-topo.xml"))
    path.write_text(json.dumps([{"topology": topology, **host} for host in hosts]))
    return path


@contextmanager
def fleet(server: str, data: Path, spec: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A fleet's process; killed at the end if it still runs."""
    command = [sys.executable, "-m", "nodeagent.simfleet", "--server", server, "--data", str(data)]
    command += ["--spec", str(spec)] if spec else []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_for(condition: Callable[[], bool], within_s: float = 20) -> bool:
    """Wait until something is so; returns at once when it is."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def control() -> Iterator[Control]:
    """A control plane on the real clock."""
    plane = Control(FakeClock(time.time()))
    with serve(plane):
        yield plane


def test_a_fleet_joins_survives_a_kill_and_stops_when_asked(
    tmp_path: Path, control: Control
) -> None:
    data = tmp_path / "data"
    spec = write_spec(tmp_path, {"name": "host-1", "join_token": TOKEN})
    with fleet(control.url, data, spec) as process:
        assert wait_for(lambda: len(control.observed) > 0)
        process.kill()
    boot = control.observed[-1].boot_id
    with fleet(control.url, data) as process:
        seen = len(control.observed)
        assert wait_for(lambda: len(control.observed) > seen)
        assert len(control.joins) == 1
        assert control.observed[-1].boot_id == boot
        assert control.observed[-1].seq > 1
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - begin < 5
    assert control.problems == []


def test_a_token_dropped_into_a_running_fleet_is_taken(tmp_path: Path, control: Control) -> None:
    data = tmp_path / "data"
    with fleet(control.url, data, write_spec(tmp_path, {"name": "host-1"})) as process:
        assert wait_for(lambda: (data / "host-1" / "agent" / "agent.key").exists())
        assert control.joins == []
        (data / "host-1" / "join-token").write_text(TOKEN)
        assert wait_for(lambda: len(control.observed) > 0)
        process.terminate()
        assert process.wait(timeout=10) == 0


def test_a_second_fleet_on_the_same_disks_is_refused(tmp_path: Path, control: Control) -> None:
    data = tmp_path / "data"
    with fleet(control.url, data, write_spec(tmp_path, {"name": "host-1"})) as process:
        assert wait_for(lambda: (data / "host-1" / "agent" / "agent.key").exists())
        assert simfleet(["--server", control.url, "--data", str(data)]) == 2
        process.terminate()
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    "host",
    [
        {"name": "../escape"},
        {"name": "A"},
        {"name": 5},
        {},
        {"name": "a", "topology": "absent.xml"},
        {"name": "a", "topology": None},
        {"name": "a", "nvlinks": [[0, 0, 1]]},
        {"name": "a", "nvlinks": [[0, 999, 1]]},
        {"name": "a", "nvlinks": [[0, 1]]},
        {"name": "a", "nvlinks": [[0, 1, 0]]},
        {"name": "a", "nvswitch_links": -1},
    ],
)
def test_a_spec_that_is_of_no_use_is_refused(tmp_path: Path, host: dict[str, object]) -> None:
    with pytest.raises(HardwareError):
        prepare(tmp_path / "data", write_spec(tmp_path, host))


def test_a_spec_joins_gpus_where_the_topology_file_says_nothing(tmp_path: Path) -> None:
    pairs: dict[str, object] = {"name": "pairs", "nvlinks": [[0, 1, 12], [2, 3, 12]]}
    switched: dict[str, object] = {"name": "switched", "nvswitch_links": 18}
    for folder in prepare(tmp_path / "data", write_spec(tmp_path, pairs, switched)):
        report = read_hardware(folder, read_config(folder))
        domains = [slot.nvlink_domain for slot in report.slots]
        assert "nvlink_unknown" not in {finding.code for finding in report.findings}
        if folder.name == "pairs":
            assert domains[:4] == ["nvlink-0", "nvlink-0", "nvlink-1", "nvlink-1"]
            assert {link.count for link in report.nvlinks} == {12}
        else:
            assert set(domains) == {"nvlink-0"}
            assert len(report.nvlinks) == len(report.gpus)


def test_a_host_keeps_its_disk_when_the_spec_is_read_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folders = prepare(data, write_spec(tmp_path, {"name": "a"}, {"name": "b"}))
    boots = [StateStore(folder, folder.name).state.boot_id for folder in folders]
    changed = write_spec(tmp_path, {"name": "a", "gpu_model": "other"}, {"name": "c"})
    again = prepare(data, changed)
    assert [folder.name for folder in again] == ["a", "b", "c"]
    assert [StateStore(folder, folder.name).state.boot_id for folder in again[:2]] == boots


def test_identities_are_stable_per_host_and_differ_between_hosts() -> None:
    assert gpu_uuid("a", "0001:00:00.0", 0) == gpu_uuid("a", "0001:00:00.0", 5)
    made = {gpu_uuid(host, pci, 0) for host in "ab" for pci in ("1", "2", None)}
    assert len(made) == 6
    assert address("a", "x") == address("a", "x")
    assert address("a", "x") != address("b", "x")
    assert address("a", "x")[0].startswith("127.")
