"""Is a driver that hangs told from one that is only slow, and is neither waited for too long?"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from nodeagent.host.discovery import GpuMemory, discover, gpus, observe_devices
from nodeagent.host.nvml import Nvml, NvmlUnavailable
from nodeagent.protocol import Presence
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.test_discovery import codes, fact, report_of
from tests.nodeagent.host_facts.test_field import reported
from tests.nodeagent.host_facts.trees import TreeBuilder


def ended(nvml: Nvml) -> None:
    """Wait until nothing asks the driver any more."""
    until = time.monotonic() + 20
    while nvml.open_sessions and time.monotonic() < until:
        time.sleep(0.02)
    assert not nvml.open_sessions


@pytest.mark.gcc
@pytest.mark.parametrize("call", ["nvmlDeviceGetName", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_call_that_hangs_is_waited_for_once_and_then_by_nobody(
    host: TreeBuilder,
    fake: FakeNvml,
    nvml: Nvml,
    call: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus, "_LOOK_CALL_S", 0.3)
    monkeypatch.setattr(gpus, "_READ_CALL_S", 0.3)
    report = reported(host, nvml)
    fake.change({f"sleep.0.{call}": "2500"})
    began = time.monotonic()
    first = observe_devices(report, host.root, nvml)
    second = observe_devices(report, host.root, nvml)
    again = reported(host, nvml)
    assert time.monotonic() - began < 2
    for sight in (first, second):
        assert {one.presence for one in sight.devices.gpus} == {Presence.UNKNOWN}
        assert {one.presence for one in sight.devices.nics} == {Presence.PRESENT}
        assert [one.code for one in sight.conditions] == ["driver_hangs", *["gpu_unreadable"] * 2]
        assert all("driver_hangs" in one.detail for one in sight.conditions[1:])
    assert fact(again, None, "nvml").presence is Presence.UNKNOWN
    assert fact(again, None, "nvml").reason == "driver_hangs"
    assert "nvml_unavailable" in codes(again)
    fake.change({f"sleep.0.{call}": None})
    ended(nvml)
    back = observe_devices(report, host.root, nvml)
    assert {one.presence for one in back.devices.gpus} == {Presence.PRESENT}
    assert (fake.open_count, nvml.open_sessions) == (0, 0)


# Some thirty calls of a tenth of a second: each comes back, and all of them take long.
SLOWLY = {f"sleep.{n}.{call}": "100" for n in range(2) for call in (
    "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetUUID",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetVbiosVersion")}  # fmt: skip


@pytest.mark.gcc
def test_a_driver_that_is_only_slow_is_waited_for_and_hangs_nowhere(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "_LOOK_CALL_S", 0.3)
    monkeypatch.setattr(gpus, "_READ_CALL_S", 0.3)
    monkeypatch.setattr(gpus, "_MOST_LOOK_S", 0.4)
    fake.change(SLOWLY)
    began = time.monotonic()
    report = reported(host, nvml)
    assert time.monotonic() - began > 0.6
    assert [gpu.uuid for gpu in report.gpus] == [uuid_of(0), uuid_of(1)]
    assert "nvml_unavailable" not in codes(report)
    first = observe_devices(report, host.root, nvml)
    assert {one.presence for one in first.devices.gpus} == {Presence.UNKNOWN}
    assert first.conditions == ()
    # What came too late for it is what the next look says.
    ended(nvml)
    began = time.monotonic()
    second = observe_devices(report, host.root, nvml)
    assert time.monotonic() - began < 0.2
    assert {one.presence for one in second.devices.gpus} == {Presence.PRESENT}
    assert second.conditions == ()


@pytest.mark.gcc
def test_a_driver_that_hangs_is_said_also_where_every_gpu_is_remembered(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpus, "_LOOK_CALL_S", 0.3)
    memory = GpuMemory(tmp_path / "gpus.json")
    report = report_of(discover(host.root, nvml, memory))
    fake.change({"sleep.0.nvmlDeviceGetName": "1500"})
    sight = observe_devices(report, host.root, nvml, memory)
    assert [(one.code, one.device) for one in sight.conditions] == [("driver_hangs", None)]
    assert {one.presence for one in sight.devices.gpus} == {Presence.PRESENT}
    ended(nvml)


def test_calls_that_come_back_are_a_slow_driver_and_one_that_does_not_is_one_that_hangs(
    nvml: Nvml,
) -> None:
    leave = threading.Event()

    def slow() -> int:
        while not leave.wait(0.02):
            nvml.answered()
        return 7

    with pytest.raises(NvmlUnavailable, match="driver_slow"):
        nvml.within(0.3, slow, most_s=0.5, late="look")
    # Another work waits for its turn, and this one's answer is nobody else's.
    with pytest.raises(NvmlUnavailable, match="driver_slow"):
        nvml.within(0.3, lambda: 1, most_s=0.1)
    leave.set()
    assert nvml.within(0.3, lambda: 1, most_s=5) == 1
    assert nvml.within(0.3, slow, most_s=5, late="look") == 7
    leave.clear()

    def halfway() -> None:
        for _ in range(5):
            nvml.answered()
        leave.wait(5)

    with pytest.raises(NvmlUnavailable, match="driver_hangs"):
        nvml.within(0.2, halfway, most_s=5)
    leave.set()


def test_what_goes_wrong_in_time_goes_wrong_where_it_was_asked_for(nvml: Nvml) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nvml.within(5, broken)
    assert nvml.within(5, lambda: 7) == 7


def test_many_that_ask_at_once_wait_for_each_other_and_not_for_one_that_hangs(nvml: Nvml) -> None:
    def a_moment() -> int:
        time.sleep(0.01)
        return 1

    leave = threading.Event()
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(nvml.within(5, a_moment))
        except NvmlUnavailable as error:
            answers.append(error.reason)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [1] * 8
    with pytest.raises(NvmlUnavailable):
        nvml.within(0.05, lambda: leave.wait(10))
    before = threading.active_count()
    for _ in range(20):
        with pytest.raises(NvmlUnavailable, match="driver_hangs"):
            nvml.within(5, lambda: 1)
    assert threading.active_count() <= before
    leave.set()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            assert nvml.within(1, lambda: 2) == 2
            break
        except NvmlUnavailable:
            time.sleep(0.01)
    else:
        pytest.fail("it never came back")
