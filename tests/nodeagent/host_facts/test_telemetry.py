"""Are samples put together honestly: value, unit, validity, and nothing made up?"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.embedded.processes import free_port
from nodeagent.client import Refused, Unreachable
from nodeagent.host.assemble import measuring
from nodeagent.host.config import HostConfig
from nodeagent.host.facts import Fact, present, unknown
from nodeagent.host.nvml import Nvml
from nodeagent.host.telemetry import HostTelemetry, MetricsEndpoint
from nodeagent.host.telemetry.exposition import render
from nodeagent.host.telemetry.xids import watch_xids
from nodeagent.protocol import (
    MAX_SERIES,
    MAX_WINDOWS,
    Problem,
    Series,
    TelemetryReport,
    TelemetryWindow,
    WireError,
)
from nodeagent.telemetry.metrics import METRICS, SENTINELS, Kind, invalid
from nodeagent.telemetry.sending import TelemetrySender, batch_of
from nodeagent.telemetry.window import WindowBuilder, WindowQueue
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.trees import TreeBuilder

GPU = "GPU-1"


def window_of(*facts: Fact[int], metric: str = "gpu_utilisation") -> Series:
    """One metric's series after these samples."""
    builder = WindowBuilder("host", 0)
    for fact in facts:
        builder.add(GPU, {metric: fact})
    (device,) = builder.close(60).devices
    (series,) = device.series
    return series


def test_a_window_has_least_most_mean_and_last() -> None:
    series = window_of(present(10), present(70), present(21))
    numbers = (series.least, series.most, series.mean, series.last, series.valid, series.invalid)
    assert numbers == (10, 70, 33_666, 21, 3, 0)
    assert series.unit == "percent"


def test_without_a_valid_sample_there_is_no_number_and_a_reason() -> None:
    series = window_of(unknown("gpu_lost"), present(101))
    assert (series.last, series.mean, series.valid, series.invalid) == (None, None, 0, 2)
    assert series.reason == "out_of_range"


def test_an_invalid_sample_is_left_out_and_counted() -> None:
    series = window_of(present(50), present(2**32 - 1), unknown("timeout"))
    assert (series.mean, series.valid, series.invalid, series.reason) == (50_000, 1, 2, "timeout")


def test_a_counter_counts_on_over_windows_and_begins_anew_after_a_reset() -> None:
    builder = WindowBuilder("host", 0)
    increases = []
    for values in ([100, 130], [150], [20, 25]):
        for value in values:
            builder.add(GPU, {"energy": present(value)})
        increases.append(builder.close(60).devices[0].series[0].increase)
    assert increases == [30, 20, 25]


def test_a_counter_that_was_gone_for_a_window_does_not_count_what_it_missed() -> None:
    builder = WindowBuilder("host", 0)
    builder.add(GPU, {"energy": present(100)})
    builder.close(60)
    assert builder.close(120).devices == ()
    builder.add(GPU, {"energy": present(900)})
    assert builder.close(180).devices[0].series[0].increase == 0


def test_throttle_reasons_are_joined_not_averaged() -> None:
    series = window_of(present(4), present(0), present(64), metric="throttle_reasons")
    assert (series.most, series.least, series.last) == (68, 0, 64)


@given(st.lists(st.integers(-(2**63), 2**64) | st.sampled_from(sorted(SENTINELS))))
def test_no_sample_outside_its_range_is_ever_a_number(values: list[int]) -> None:
    for name, metric in METRICS.items():
        builder = WindowBuilder("host", 0)
        for value in values:
            builder.add(GPU, {name: present(value)})
        good = [value for value in values if not invalid(metric, value)]
        for device in builder.close(60).devices:
            (series,) = device.series
            assert (series.valid, series.invalid) == (len(good), len(values) - len(good))
            assert (series.last is None) == (not good)
            if good and metric.kind is not Kind.BITS:
                assert (series.least, series.most) == (min(good), max(good))
            assert Series.from_json(series.to_json()) == series


def test_a_queue_keeps_the_last_and_counts_what_it_lost() -> None:
    queue, builder = WindowQueue(most=3), WindowBuilder("host", 0)
    for _ in range(5):
        queue.put(builder.close(1))
    assert [window.seq for window in queue.waiting()] == [3, 4, 5]
    assert queue.lost == 2
    queue.taken(4, 2)
    assert ([window.seq for window in queue.waiting()], queue.lost) == ([5], 0)


def big_window(seq: int, series: int) -> TelemetryWindow:
    """A window with that many series."""
    builder = WindowBuilder("host", 0, seq)
    names = [name for name, metric in METRICS.items() if metric.most >= 1][:20]
    for place in range(series // 20):
        builder.add(f"GPU-{place}", {name: present(1) for name in names})
    return builder.close(60)


def test_a_report_is_bounded_and_one_big_window_still_goes() -> None:
    small = [big_window(seq, 20) for seq in range(1, 20)]
    assert [window.seq for window in batch_of(small)] == list(range(1, MAX_WINDOWS + 1))
    middle = [big_window(seq, MAX_SERIES // 2 - 100) for seq in range(1, 6)]
    assert [window.seq for window in batch_of(middle)] == [1, 2]
    huge = [big_window(1, MAX_SERIES + 1000), big_window(2, 20)]
    assert [window.seq for window in batch_of(huge)] == [1]
    report = TelemetryReport("boot-00000001", batch_of(middle))
    assert TelemetryReport.from_json(report.to_json()) == report


def test_a_report_that_is_too_big_or_out_of_order_is_refused() -> None:
    middle = [big_window(seq, MAX_SERIES // 2 + 100) for seq in (1, 2)]
    for windows in (middle, [big_window(2, 20), big_window(1, 20)], []):
        report = TelemetryReport("boot-00000001", tuple(windows))
        with pytest.raises(WireError):
            TelemetryReport.from_json(report.to_json())


def test_numbers_without_a_valid_sample_are_refused() -> None:
    told = window_of(present(3)).to_json()
    for lie in ({"valid": 0}, {"last": None}, {"mean": None}):
        with pytest.raises(WireError):
            Series.from_json({**told, **lie})


class Control:
    """A control plane that answers as it is told."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.reports: list[TelemetryReport] = []

    async def telemetry(self, report: TelemetryReport) -> None:
        """Take it, or do not."""
        self.reports.append(report)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer


class Waiting:
    """A feed with windows that wait."""

    def __init__(self, count: int) -> None:
        self.queue = WindowQueue()
        builder = WindowBuilder("host", 0)
        for _ in range(count):
            self.queue.put(builder.close(60))

    def windows(self) -> WindowQueue:
        """They."""
        return self.queue


@pytest.mark.parametrize(("status", "left"), [(503, 1), (429, 1), (404, 1), (400, 0)])
def test_what_is_refused_waits_and_what_is_never_taken_goes(status: int, left: int) -> None:
    clock = FakeClock()
    control = Control(Refused(status, Problem("x")))
    feed = Waiting(1)
    sender = TelemetrySender(feed, control, clock)  # type: ignore[arg-type]  # a stand-in
    asyncio.run(sender.send_if_due("boot-00000001"))
    assert len(feed.queue.waiting()) == left
    asyncio.run(sender.send_if_due("boot-00000001"))
    assert len(control.reports) == 1
    clock.time += 61
    asyncio.run(sender.send_if_due("boot-00000001"))
    assert feed.queue.waiting() == []


def test_a_lost_answer_sends_the_same_windows_again() -> None:
    control, feed = Control(Unreachable("lost")), Waiting(3)
    sender = TelemetrySender(feed, control, FakeClock())  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(Unreachable):
        asyncio.run(sender.send_if_due("boot-00000001"))
    asyncio.run(sender.send_if_due("boot-00000001"))
    assert control.reports[0] == control.reports[1]
    assert feed.queue.waiting() == []


# On a host

LIVE = {
    "gpu.0.util": "87",
    "gpu.0.used": str(40 * 2**30),
    "gpu.0.power": "512000",
    "gpu.0.temperature": "61",
    "gpu.0.throttle": "4",
    "gpu.0.ecc.dbe.volatile": "2",
    "gpu.0.pcie.tx": "1000",
    "gpu.0.process.0": "4242 1073741824",
    "gpu.0.process.1": "4243 18446744073709551615",
    "gpu.0.field.82": "1 70",
    "gpu.0.field.138": "3 2048",
}


@pytest.fixture
def machine(tmp_path: Path) -> TreeBuilder:
    """What /proc says."""
    tree = TreeBuilder(tmp_path / "root")
    tree.write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0")
    tree.write("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  400 kB")
    return tree


def series_of(window: TelemetryWindow, device: str | None) -> dict[str, Series]:
    """A device's series by name."""
    (found,) = [one for one in window.devices if one.device == device]
    return {series.metric: series for series in found.series}


@pytest.mark.gcc
def test_a_host_measures_itself_and_its_gpus(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    fake.change(dict(LIVE))
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=60)
    telemetry.sample()
    machine.write("proc/stat", "cpu  150 0 150 750 150 0 0 0 0 0")
    clock.time += 60
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    busy, idle, host = (series_of(window, one) for one in (uuid_of(0), uuid_of(1), None))
    assert (busy["gpu_utilisation"].last, busy["gpu_utilisation"].valid) == (87, 2)
    assert (busy["power"].mean, busy["power"].unit) == (512_000_000, "milliwatts")
    assert busy["memory_temperature"].last == 70
    assert busy["nvlink_tx"].last == 2048 * 1024
    assert busy["pcie_tx"].last == 1_000_000
    assert busy["processes"].last == 2
    assert (idle["memory_temperature"].last, idle["memory_temperature"].reason) == (
        None,
        "not_supported",
    )
    assert (host["cpu_utilisation"].last, host["cpu_utilisation"].invalid) == (50, 1)
    assert host["host_memory_available"].last == 400 * 1024
    assert host["disk_total"].valid == 2
    assert [(one.pid, one.memory_bytes) for one in window.processes] == [
        (4242, 2**30),
        (4243, None),
    ]
    assert (window.driver, window.cuda) == ("550.90.07", "12.4")
    report = TelemetryReport("boot-00000001", (window,))
    assert TelemetryReport.from_json(report.to_json()) == report


@pytest.mark.gcc
def test_a_lost_gpu_is_a_reason_and_its_neighbour_goes_on(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    fake.change({"error.0.nvmlDeviceGetHandleByIndex_v2": "15", "gpu.1.util": "5"})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=1)
    clock.time += 2
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    lost = series_of(window, "gpu-0")["gpu_utilisation"]
    assert (lost.valid, lost.last, lost.reason) == (0, None, "gpu_lost")
    assert series_of(window, uuid_of(1))["gpu_utilisation"].last == 5


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("line", "metric", "reason"),
    [
        ("util", "gpu_utilisation", "sentinel"),
        ("power", "power", "sentinel"),
        ("temperature", "temperature", "sentinel"),
        ("encutil", "encoder_utilisation", "sentinel"),
        ("pcie.tx", "pcie_tx", "sentinel"),
        ("clock.sm", "sm_clock", "sentinel"),
        ("used", "memory_used", "sentinel"),
        ("reserved", "memory_reserved", "sentinel"),
        ("throttle", "throttle_reasons", "sentinel"),
        ("energy", "energy", "sentinel"),
    ],
)
def test_a_driver_that_writes_all_ones_gives_no_number(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder, line: str, metric: str, reason: str
) -> None:
    fake.change({f"gpu.0.{line}": str(2**32 - 1)})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=1)
    clock.time += 2
    telemetry.sample()
    found = series_of(telemetry.windows().waiting()[0], uuid_of(0))[metric]
    assert (found.valid, found.reason) == (0, reason)


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("lines", "metric", "reason"),
    [
        # Degrees below zero come as the top of an unsigned number.
        ({"gpu.0.temperature": str(2**32 - 5)}, "temperature", "out_of_range"),
        ({"gpu.0.temperature": str(2**31 - 1)}, "temperature", "sentinel"),
        ({"gpu.0.field.82": "1 0"}, "memory_temperature", "out_of_range"),
        ({"gpu.0.util": "101"}, "gpu_utilisation", "out_of_range"),
        ({"error.0.nvmlDeviceGetMemoryInfo_v2": "16"}, "memory_used", "reset_required"),
        ({"error.0.nvmlDeviceGetPowerUsage": "15"}, "power", "gpu_lost"),
        ({"gpu.0.ecc": None, "gpu.*.ecc": None}, "ecc_uncorrected", "not_supported"),
        ({"gpu.0.field.52": "1 7 10"}, "nvlink_replay_errors", "timeout"),
    ],
)
def test_a_reading_that_is_none_says_why_and_is_never_a_number(
    fake: FakeNvml,
    nvml: Nvml,
    machine: TreeBuilder,
    lines: dict[str, str | None],
    metric: str,
    reason: str,
) -> None:
    fake.change(lines)
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=1)
    clock.time += 2
    telemetry.sample()
    found = series_of(telemetry.windows().waiting()[0], uuid_of(0))[metric]
    assert (found.valid, found.last, found.reason) == (0, None, reason)


@pytest.mark.gcc
def test_the_errors_of_each_end_of_a_link_are_counted_under_dcgms_names(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    fake.change({f"gpu.0.field.{field}": f"3 {field}" for field in (38, 45, 52, 59)})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root)
    telemetry.sample()
    page = render(telemetry.latest(), "h1", clock.now())
    for name, count in (("CRC_FLIT", 38), ("CRC_DATA", 45), ("REPLAY", 52), ("RECOVERY", 59)):
        shown = f"DCGM_FI_DEV_NVLINK_{name}_ERROR_COUNT_TOTAL{{"
        (line,) = [one for one in page.splitlines() if one.startswith(shown)]
        assert line.endswith(f" {count}")


@pytest.mark.gcc
def test_without_a_driver_the_host_itself_is_still_measured(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    fake.change({"error.nvmlInitWithFlags": "9"})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=1)
    clock.time += 2
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    assert [one.device for one in window.devices] == [None]
    page = render(telemetry.latest(), "h1", clock.now())
    assert 'gpuaas_agent_nvml_up{hostname="h1",reason="driver_not_loaded"} 0' in page
    assert "DCGM_FI_DEV_GPU_UTIL" not in page


@pytest.mark.gcc
def test_xids_are_heard_counted_and_shown(fake: FakeNvml, nvml: Nvml, machine: TreeBuilder) -> None:
    fake.change({"xid.0": "1 79", "xid.1": "0 48", "xid.2": "1 79"})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=1)
    heard: list[tuple[str | None, int]] = []

    def tell(device: str | None, xid: int) -> None:
        heard.append((device, xid))
        telemetry.take_xid(device, xid)

    watch_xids(nvml, tell, lambda: len(heard) < 3)
    assert heard == [(uuid_of(1), 79), (uuid_of(0), 48), (uuid_of(1), 79)]
    assert (fake.event_sets, fake.open_count) == (0, 0)
    clock.time += 2
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    assert {(one.device, one.xid, one.count) for one in window.xids} == {
        (uuid_of(1), 79, 2),
        (uuid_of(0), 48, 1),
    }
    page = render(telemetry.latest(), "h1", clock.now())
    assert f'DCGM_EXP_XID_ERRORS_COUNT{{UUID="{uuid_of(1)}",xid="79",hostname="h1"}} 2' in page


@pytest.mark.gcc
def test_the_watch_lets_go_when_a_device_is_to_be_reset(fake: FakeNvml, nvml: Nvml) -> None:
    thread = threading.Thread(target=watch_xids, args=(nvml, lambda *_: None, lambda: True))
    thread.start()
    until = time.monotonic() + 5
    while fake.event_sets == 0 and time.monotonic() < until:
        time.sleep(0.01)
    with nvml.released(wait_s=10):
        assert (fake.open_count, fake.event_sets) == (0, 0)
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.gcc
def test_prometheus_reads_dcgms_names_on_the_loopback(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    fake.change(dict(LIVE) | {"gpu.1.name": 'odd "name" \\x5c'})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root)
    telemetry.sample()
    endpoint = MetricsEndpoint(lambda: render(telemetry.latest(), "h1", clock.now()), port=0)
    endpoint.start()
    try:
        host = f"http://127.0.0.1:{endpoint.port}"
        with urlopen(f"{host}/metrics?job=gpus", timeout=10) as answer:
            page = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with urlopen(Request(f"{host}/metrics", method="HEAD"), timeout=10) as answer:
            assert (answer.status, answer.read()) == (200, b"")
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{host}/", timeout=10)
    finally:
        endpoint.stop()
    labels = (
        f'{{gpu="0",UUID="{uuid_of(0)}",pci_bus_id="0000:1a:00.0",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",hostname="h1",DCGM_FI_DRIVER_VERSION="550.90.07"}'
    )
    lines = page.splitlines()
    for line in (
        f"DCGM_FI_DEV_GPU_UTIL{labels} 87",
        f"DCGM_FI_DEV_FB_USED{labels} 40960.000",
        f"DCGM_FI_DEV_POWER_USAGE{labels} 512.000",
        f"DCGM_FI_DEV_MEMORY_TEMP{labels} 70",
        f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{labels} 2",
    ):
        assert line in lines
    assert 'modelName="odd \\"name\\" \\\\"' in page
    assert sum(line.startswith("DCGM_FI_DEV_MEMORY_TEMP{") for line in lines) == 1
    assert len([line for line in lines if line.startswith("# TYPE")]) == len(
        {line.split()[2] for line in lines if line.startswith("# TYPE")}
    )


@pytest.mark.gcc
def test_its_threads_measure_and_end(fake: FakeNvml, nvml: Nvml, machine: TreeBuilder) -> None:
    telemetry = HostTelemetry(nvml, FakeClock(), machine.root, sample_s=0.01)
    telemetry.start()
    until = time.monotonic() + 10
    while telemetry.latest().at is None and time.monotonic() < until:
        time.sleep(0.01)
    telemetry.stop()
    assert len(telemetry.latest().gpus) == 2
    assert (fake.open_count, fake.event_sets, nvml.open_sessions) == (0, 0, 0)


def test_a_clock_set_back_does_not_make_a_window_last_for_ever(
    nvml: Nvml, machine: TreeBuilder
) -> None:
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, machine.root, window_s=60)
    clock.time += -86_400
    telemetry.sample()
    clock.time += 61
    telemetry.sample()
    assert len(telemetry.windows().waiting()) == 1


@pytest.mark.gcc
def test_an_agent_measures_while_it_runs_and_a_taken_port_stops_nobody(
    fake: FakeNvml, nvml: Nvml, machine: TreeBuilder
) -> None:
    port = free_port()
    config = HostConfig("https://x", "h1", root=machine.root, metrics_port=port)
    with measuring(config, nvml, FakeClock()) as first:
        first.sample()
        with measuring(config, nvml, FakeClock()) as second:
            second.sample()
            assert len(second.latest().gpus) == 2
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b'gpuaas_agent_nvml_up{hostname="h1",reason="none"} 1' in answer.read()
    assert (fake.open_count, nvml.open_sessions) == (0, 0)
