"""Does a host live through the driver's known bad days: lost, hung, old, updated, doubled?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.discovery import discover, observe_devices
from nodeagent.host.nvml import Nvml
from nodeagent.host.telemetry import HostTelemetry
from nodeagent.host.telemetry.exposition import render
from nodeagent.host.telemetry.xids import watch_xids
from nodeagent.protocol import Presence, TopologyReport
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.host_facts import prometheus
from tests.nodeagent.host_facts.conftest import PCI
from tests.nodeagent.host_facts.fake import FakeNvml, build, uuid_of
from tests.nodeagent.host_facts.test_discovery import codes, fact, report_of
from tests.nodeagent.host_facts.test_nvml import _run, records
from tests.nodeagent.host_facts.trees import TreeBuilder

LINKS = {f"gpu.{n}.link.{k}": "00000000:05:00.0 2" for n in range(2) for k in range(18)}


def reported(host: TreeBuilder, nvml: Nvml) -> TopologyReport:
    """A discovery as the control plane reads it."""
    return report_of(discover(host.root, nvml))


# Lost


@pytest.mark.gcc
@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8, 11, 12])
def test_a_gpu_lost_in_the_middle_of_a_look_is_unknown_and_its_neighbour_is_there(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, calls: int
) -> None:
    report = reported(host, nvml)
    fake.change({"gpu.0.lost_after": str(calls)})
    sight = observe_devices(report, host.root, nvml)
    assert [one.presence for one in sight.devices.gpus] == [Presence.UNKNOWN, Presence.PRESENT]
    assert {(one.code, one.device) for one in sight.conditions} == {("gpu_lost", uuid_of(0))}


@pytest.mark.gcc
def test_a_gpu_lost_in_the_middle_of_a_discovery_is_a_finding_of_it_alone(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({**LINKS, "gpu.0.lost_after": "30"})
    report = reported(host, nvml)
    lost = [one.device for one in report.findings if one.code == "gpu_lost"]
    assert lost == [PCI[0]]
    assert report.gpus[1].uuid == uuid_of(1)


@pytest.mark.gcc
@pytest.mark.parametrize("code", ["8", "11", "16"])
def test_a_gpu_that_cannot_be_reached_says_why_in_the_drivers_word(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, code: str
) -> None:
    report = reported(host, nvml)
    fake.change({"error.1.nvmlDeviceGetHandleByIndex_v2": code})
    sight = observe_devices(report, host.root, nvml)
    (condition,) = sight.conditions
    word = {"8": "insufficient_power", "11": "irq_issue", "16": "reset_required"}[code]
    assert (condition.code, condition.device) == ("gpu_unreadable", uuid_of(1))
    assert word in condition.detail


@pytest.mark.gcc
def test_the_last_word_of_a_gpu_that_fell_off_the_bus_is_told_of_it(
    fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({"xid.0": "1 79", "error.1.nvmlDeviceGetIndex": "15"})
    heard: list[tuple[str | None, int]] = []
    watch_xids(nvml, lambda *one: heard.append(one), lambda: not heard)
    assert heard == [(uuid_of(1), 79)]


@pytest.mark.gcc
@pytest.mark.parametrize("state", [1, 2])
def test_a_fabric_manager_that_has_not_started_is_a_finding_of_each_gpu(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, state: int
) -> None:
    fake.change({"gpu.*.fabric": f"{'0' * 32} 0 {state} 0"})
    report = reported(host, nvml)
    found = [one.device for one in report.findings if one.code == "fabric_not_ready"]
    assert found == list(PCI)
    assert {gpu.fabric.presence for gpu in report.gpus if gpu.fabric} == {Presence.UNKNOWN}


# Old, updated, not there


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("code", "reason", "presence"),
    [
        ("9", "driver_not_loaded", Presence.ABSENT),
        ("18", "version_mismatch", Presence.UNKNOWN),
        ("4", "no_permission", Presence.UNKNOWN),
        ("10", "timeout", Presence.UNKNOWN),
        ("999", "nvml_unknown", Presence.UNKNOWN),
    ],
)
def test_a_library_that_says_nothing_is_absent_only_where_nobody_is_there(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, code: str, reason: str, presence: Presence
) -> None:
    fake.change({"error.nvmlInitWithFlags": code})
    report = reported(host, nvml)
    told = fact(report, None, "nvml")
    assert (told.presence, told.reason) == (presence, reason)
    assert [gpu.pci for gpu in report.gpus] == list(PCI)
    helped = [one.detail for one in report.findings if one.code == "nvml_unavailable"]
    assert bool(helped) is (reason in ("driver_not_loaded", "version_mismatch", "no_permission"))


OLD = """
from nodeagent.host.nvml import Nvml
from nodeagent.host.telemetry.gpu import sample_gpus
with Nvml().session() as session:
    values = sample_gpus(session)[0].values
print(*(values[name].value for name in ("memory_used", "throttle_reasons", "power")),
      values["memory_reserved"].reason)
"""


@pytest.mark.gcc
def test_a_driver_from_before_the_newer_calls_is_asked_by_the_older_ones(
    tmp_path: Path, fake: FakeNvml
) -> None:
    hidden = ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons"]
    build(tmp_path, hidden)
    fake.change({"gpu.0.used": "4096", "gpu.0.throttle": "4"})
    assert _run(OLD, tmp_path) == "4096 4 70000 not_told"


UPDATED = """
import os
from pathlib import Path
from nodeagent.host.nvml import Nvml, NvmlUnavailable, read_gpus
here, scenario = Path("{here}"), Path(os.environ["FAKE_NVML_SCENARIO"])
text = scenario.read_text()

def look(nvml):
    with nvml.session() as session:
        return read_gpus(session)[0].facts["mig_mode"]

nvml = Nvml()
print(look(nvml).reason)
(here / "libnvidia-ml.so.1").unlink()
(here / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.65.06")
scenario.write_text(text + "error.nvmlInitWithFlags=18\\n")
try:
    look(nvml)
except NvmlUnavailable as error:
    print(error.reason)
scenario.write_text(text)
print(look(nvml).value)
"""


@pytest.mark.gcc
def test_a_driver_updated_under_the_agent_is_spoken_to_by_its_own_library(
    tmp_path: Path, fake: FakeNvml
) -> None:
    build(tmp_path).rename(tmp_path / "libnvidia-ml.so.580.65.06")
    old = build(tmp_path, ["nvmlDeviceGetMigMode"])
    # As a package of the driver lays them out.
    old.rename(tmp_path / "libnvidia-ml.so.550.90.07")
    old.symlink_to("libnvidia-ml.so.550.90.07")
    said = _run(UPDATED.format(here=tmp_path), tmp_path).split()
    assert said == ["symbol_missing", "version_mismatch", "disabled"]


@pytest.mark.gcc
def test_a_driver_that_counts_more_processes_than_there_can_be_says_nothing_of_them(
    fake: FakeNvml, nvml: Nvml
) -> None:
    def too_many(*_: object) -> None:
        raise MemoryError

    with nvml.session() as session:
        assert session.ask(too_many).reason == "out_of_range"


# Boards of another kind


@pytest.mark.gcc
def test_a_superchip_without_a_memory_of_its_own_is_a_gpu_of_unknown_size(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change(
        {
            "gpu.*.name": "NVIDIA GB10",
            "error.*.nvmlDeviceGetMemoryInfo": "3",
            "gpu.*.ecc": None,
            "gpu.*.mig": None,
            "gpu.*.remapped": None,
            "gpu.*.field.230": None,
        }
    )
    report = reported(host, nvml)
    assert [(gpu.uuid, gpu.memory_bytes) for gpu in report.gpus] == [
        (uuid_of(0), None),
        (uuid_of(1), None),
    ]
    assert "gpu_memory_unknown" in codes(report)
    assert not codes(report) & {"ecc_off", "ecc_mode_pending", "mig_mode_pending", "gpu_lost"}
    sight = observe_devices(report, host.root, nvml)
    assert sight.conditions == ()


@pytest.mark.gcc
def test_a_tray_of_four_in_a_domain_of_a_rack_is_one_place(
    tmp_path: Path, fake: FakeNvml, nvml: Nvml
) -> None:
    tree = TreeBuilder(tmp_path / "tray")
    tree.numa(0, "0-71")
    tree.numa(1, "72-143")
    # The memory of each GPU is a NUMA node without CPUs, and so are those kept for MIG.
    for number in range(2, 34):
        tree.numa(number, "", 195_000_000 if number % 8 == 2 else 0)
    fake.play(gpus=4)
    domains = ("0008", "0009", "0018", "0019")
    lines: dict[str, str | None] = {"gpu.*.fabric": "0123456789abcdef0123456789abcdef 1 3 0"}
    for number, domain in enumerate(domains):
        address = f"{domain}:01:00.0"
        tree.device(address, "0x030200", "0x10de", numa=number // 2, driver="nvidia")
        lines[f"gpu.{number}.pci"] = f"0000{domain}:01:00.0"
        # Its switches are on trays of their own: the far ends have no address here.
        lines |= {f"gpu.{number}.link.{k}": "00000000:00:00.0 2" for k in range(18)}
    fake.change(lines)
    report = report_of(discover(tree.root, nvml))
    assert [gpu.pci for gpu in report.gpus] == [f"{domain}:01:00.0" for domain in domains]
    assert len({gpu.fabric for gpu in report.gpus}) == 1
    assert {gpu.nvlink_domain for gpu in report.gpus} == {"nvlink-0"}
    assert [slot.cpuset for slot in report.slots] == ["0-35", "36-71", "72-107", "108-143"]
    assert not codes(report) & {"cpuset_unknown", "numa_memory_unknown", "fabric_not_common"}


@pytest.mark.gcc
def test_links_of_no_known_kind_are_one_finding_a_gpu(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({f"gpu.*.link.{k}": "00000000:00:00.0 255" for k in range(18)})
    report = reported(host, nvml)
    unknown = [one.device for one in report.findings if one.code == "nvlink_target_unknown"]
    assert unknown == list(PCI)


# The page for Prometheus


def page_of(nvml: Nvml, root: Path, name: str = "h1") -> prometheus.Page:
    """The page after one look, read strictly."""
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, root)
    telemetry.sample()
    telemetry.take_xid(None, 79)
    telemetry.take_xid(uuid_of(0), 48)
    telemetry.take_xid("GPU-that-is-gone", 79)
    return prometheus.parse(render(telemetry.latest(), name, clock.now()))


ODD: list[tuple[str, dict[str, str | None]]] = [
    ("as it is", {}),
    ("two of one UUID", {"gpu.1.uuid": uuid_of(0)}),
    ("two of one UUID at one address", {"gpu.1.uuid": uuid_of(0), "gpu.1.pci": "00000000:1A:00.0"}),
    (
        "two blank UUIDs",
        {
            "gpu.*.uuid": None,
            "gpu.0.uuid": f"GPU-{'0' * 8}-0000",
            "gpu.1.uuid": f"GPU-{'0' * 8}-0000",
        },
    ),
    (
        "no UUID and no address",
        {"gpu.0.uuid": None, "gpu.1.uuid": None, "gpu.0.pci": None, "gpu.1.pci": None},
    ),
    ("both lost", {"error.*.nvmlDeviceGetHandleByIndex_v2": "15"}),
    ("one lost on the way", {"gpu.0.lost_after": "5"}),
    ("odd names", {"gpu.0.name": 'a "b" \\x5c} 1', "gpu.1.name": "\\x0a\\x00"}),
    ("names of no language", {"gpu.0.name": "\\xff\\xfe", "driver": "\\xff"}),
    ("a driver with quotes", {"driver": 'x"y'}),
    ("all ones", {f"gpu.*.{name}": str(2**32 - 1) for name in ("util", "power", "energy", "used")}),
    ("no driver", {"error.nvmlInitWithFlags": "9"}),
    ("no GPU", {"count": "0"}),
    ("memory not told", {"error.*.nvmlDeviceGetMemoryInfo_v2": "3"}),
]


@pytest.mark.gcc
@pytest.mark.parametrize("lines", [pytest.param(lines, id=what) for what, lines in ODD])
def test_a_strict_reader_takes_the_page_of_any_host(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, lines: dict[str, str | None]
) -> None:
    fake.change(lines)
    page = page_of(nvml, host.root, 'h"1\\')
    for labels in (labels for _, labels in page.samples):
        assert dict(labels)["hostname"] == 'h"1\\'
    assert page.kinds["DCGM_FI_DEV_XID_ERRORS"] == "gauge"


@pytest.mark.gcc
def test_what_cannot_be_read_has_no_line_and_is_never_zero(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change(
        {
            "error.0.nvmlDeviceGetMemoryInfo_v2": "3",
            "error.0.nvmlDeviceGetUtilizationRates": "15",
            "error.0.nvmlDeviceGetPowerUsage": "999",
            "gpu.0.temperature": str(2**32 - 1),
            "gpu.*.ecc": None,
        }
    )
    page = page_of(nvml, host.root)
    for name in ("FB_USED", "GPU_UTIL", "POWER_USAGE", "GPU_TEMP"):
        (labels,) = page.of(f"DCGM_FI_DEV_{name}")
        assert dict(labels)["UUID"] == uuid_of(1)
    assert page.of("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL") == {}


@pytest.mark.gcc
def test_counters_of_the_driver_go_on_over_a_restart_of_the_agent(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({"gpu.0.energy": "1000", "gpu.0.pcie.replay": "5"})
    before = page_of(nvml, host.root)
    fake.change({"gpu.0.energy": "1700", "gpu.0.pcie.replay": "6"})
    after = page_of(nvml, host.root)
    counters = [name for name, kind in before.kinds.items() if kind == "counter"]
    assert len(counters) >= 4
    for name in counters:
        for labels, value in before.of(name).items():
            assert after.of(name)[labels] >= value


@pytest.mark.gcc
def test_a_page_may_be_made_while_errors_come_in(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, host.root)
    telemetry.sample()
    latest = telemetry.latest()
    page = render(latest, "h1", clock.now())
    for xid in range(50):
        telemetry.take_xid(f"GPU-{xid}", xid)
    assert render(latest, "h1", clock.now()) == page
    assert len(telemetry.latest().xids) == 50


@pytest.mark.gcc
def test_windows_of_two_gpus_of_one_uuid_stay_apart(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({"gpu.1.uuid": uuid_of(0), "gpu.0.util": "10", "gpu.1.util": "90"})
    clock = FakeClock()
    telemetry = HostTelemetry(nvml, clock, host.root, window_s=1)
    clock.time += 2
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    told = {
        device.device: series.last
        for device in window.devices
        for series in device.series
        if series.metric == "gpu_utilisation"
    }
    assert told == {PCI[0]: 10, PCI[1]: 90}
    assert [one.uuid.value for one in records(nvml)] == [uuid_of(0)] * 2
