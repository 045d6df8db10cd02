"""Is one of AMD's GPUs measured like any other, by its own library, and never by a guess?"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.discovery import discover
from nodeagent.host.nvml import Nvml
from nodeagent.host.telemetry import HostTelemetry
from nodeagent.host.telemetry.exposition import render
from nodeagent.protocol import Series, TelemetryWindow, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.trees import TreeBuilder

UUID = "deadbeef-0000-1000-8000-0123456789ab"
ANSWERS: dict[str, Any] = {
    "amdsmi_init": None,
    "amdsmi_shut_down": None,
    "amdsmi_get_processor_handles": ["handle"],
    "amdsmi_get_gpu_device_bdf": "0000:60:00.0",
    "amdsmi_get_gpu_device_uuid": UUID,
    "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
    "amdsmi_get_gpu_activity": {"gfx_activity": 87, "umc_activity": 41, "mm_activity": "N/A"},
    "amdsmi_get_gpu_vram_usage": {"vram_total": 196_592, "vram_used": 1_024},
    "amdsmi_get_power_info": {"current_socket_power": 612, "average_socket_power": "N/A"},
    "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 3, "uncorrectable_count": 1},
    "amdsmi_get_gpu_process_list": [{"pid": 4242, "mem": 2**30}, {"pid": "?"}, "odd"],
}


class Library:
    """A stand-in for the binding that AMD's stack brings."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, Any] = {**ANSWERS, "HOTSPOT": 71, "VRAM": 64}
        self.opened = 0
        module: Any = types.ModuleType("amdsmi")
        for name in ANSWERS:
            setattr(module, name, lambda *given, name=name: self._answer(name, *given))
        module.amdsmi_get_temp_metric = lambda _handle, sensor, _metric: self._answer(sensor)
        module.AmdSmiTemperatureType = types.SimpleNamespace(HOTSPOT="HOTSPOT", VRAM="VRAM")
        module.AmdSmiTemperatureMetric = types.SimpleNamespace(CURRENT="CURRENT")
        self.module = module
        patch.setitem(sys.modules, "amdsmi", module)

    def _answer(self, name: str, *_: object) -> Any:
        self.opened += {"amdsmi_init": 1, "amdsmi_shut_down": -1}.get(name, 0)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """The library, installed."""
    return Library(monkeypatch)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with one of AMD's cards and no driver of NVIDIA's."""
    monkeypatch.setenv("FAKE_NVML_SCENARIO", "")
    tree = TreeBuilder(tmp_path)
    tree.device("0000:60:00.0", "0x120000", trees.AMD)
    return tree.root


def measured(root: Path) -> tuple[TelemetryWindow, str]:
    """One look's window, and what Prometheus reads."""
    clock = FakeClock()
    telemetry = HostTelemetry(Nvml(), clock, root, window_s=1)
    clock.time += 2
    telemetry.sample()
    (window,) = telemetry.windows().waiting()
    return window, render(telemetry.latest(), "h1", clock.now())


def series(window: TelemetryWindow, device: str = UUID) -> dict[str, Series]:
    """The card's series by metric."""
    return {one.metric: one for d in window.devices if d.device == device for one in d.series}


def test_it_has_the_record_of_any_gpu_and_amds_names(library: Library, root: Path) -> None:
    window, page = measured(root)
    found = {name: one.last for name, one in series(window).items()}
    assert found == {
        "gpu_utilisation": 87,
        "memory_utilisation": 41,
        "memory_used": 1_024 * 2**20,
        "memory_free": 195_568 * 2**20,
        "temperature": 71,
        "memory_temperature": 64,
        "power": 612_000,
        "ecc_corrected": 3,
        "ecc_uncorrected": 1,
        "processes": 1,
    }
    assert [(one.pid, one.memory_bytes) for one in window.processes] == [(4242, 2**30)]
    labels = (
        f'{{gpu="0",UUID="{UUID}",pci_bus_id="0000:60:00.0",'
        'modelName="AMD Instinct MI300X",hostname="h1"}'
    )
    for line in (
        f"gpu_gfx_activity{labels} 87",
        f"gpu_used_vram{labels} 1024.000",
        f"gpu_free_vram{labels} 195568.000",
        f"gpu_package_power{labels} 612.000",
        f"gpu_junction_temperature{labels} 71",
        f"gpu_ecc_uncorrect_total{labels} 1",
        f"gpuaas_gpu_processes{labels} 1",
    ):
        assert line in page.splitlines()
    assert "DCGM_" not in page
    assert library.opened == 0


@pytest.mark.parametrize(
    ("call", "answer", "metric", "reason"),
    [
        ("amdsmi_get_gpu_activity", {"gfx_activity": "N/A"}, "gpu_utilisation", "sentinel"),
        ("amdsmi_get_gpu_activity", {"gfx_activity": 65535}, "gpu_utilisation", "sentinel"),
        ("amdsmi_get_gpu_activity", {"gfx_activity": 101}, "gpu_utilisation", "out_of_range"),
        ("amdsmi_get_gpu_activity", {"gfx_activity": 1.5}, "gpu_utilisation", "unreadable_answer"),
        ("amdsmi_get_gpu_activity", {"gfx_activity": True}, "gpu_utilisation", "unreadable_answer"),
        ("amdsmi_get_gpu_activity", {}, "gpu_utilisation", "not_told"),
        ("amdsmi_get_gpu_activity", "busy", "gpu_utilisation", "not_told"),
        ("amdsmi_get_gpu_activity", RuntimeError("2"), "gpu_utilisation", "amdsmi_error"),
        ("amdsmi_get_gpu_vram_usage", {"vram_total": 9, "vram_used": "N/A"}, "memory_free",
         "sentinel"),
        ("amdsmi_get_gpu_vram_usage", {"vram_used": 9}, "memory_free", "not_told"),
        ("amdsmi_get_gpu_vram_usage", {"vram_total": 9, "vram_used": 10}, "memory_free",
         "out_of_range"),
        ("amdsmi_get_power_info", {"current_socket_power": "N/A"}, "power", "not_told"),
        ("amdsmi_get_power_info", {"current_socket_power": 4294967295,
                                   "average_socket_power": 65535}, "power", "sentinel"),
        ("HOTSPOT", -40, "temperature", "out_of_range"),
        ("HOTSPOT", RuntimeError("no sensor"), "temperature", "amdsmi_error"),
        ("amdsmi_get_gpu_process_list", RuntimeError("10"), "processes", "not_told"),
    ],
)  # fmt: skip
def test_what_it_cannot_say_is_a_reason_and_the_rest_is_still_measured(
    library: Library, root: Path, call: str, answer: object, metric: str, reason: str
) -> None:
    library.answers[call] = answer
    window, _ = measured(root)
    found = series(window)
    assert (found[metric].valid, found[metric].last, found[metric].reason) == (0, None, reason)
    assert found["ecc_corrected"].last == 3
    assert library.opened == 0


def test_an_average_stands_in_for_a_power_that_is_not_told_now(
    library: Library, root: Path
) -> None:
    library.answers["amdsmi_get_power_info"] = {"average_socket_power": 300}
    assert series(measured(root)[0])["power"].last == 300_000


def test_a_card_without_a_uuid_goes_by_its_address(library: Library, root: Path) -> None:
    library.answers["amdsmi_get_gpu_device_uuid"] = "N/A"
    assert series(measured(root)[0], "0000:60:00.0")["gpu_utilisation"].last == 87


def test_an_older_library_without_a_call_costs_what_it_would_have_told(
    library: Library, root: Path
) -> None:
    del library.module.amdsmi_get_gpu_activity
    del library.module.AmdSmiTemperatureType
    found = series(measured(root)[0])
    assert (found["gpu_utilisation"].reason, found["temperature"].reason) == ("amdsmi_error",) * 2
    assert found["power"].last == 612_000


def test_while_gpus_are_let_go_of_its_library_is_not_asked(library: Library, root: Path) -> None:
    library.answers["amdsmi_init"] = RuntimeError("asked")
    nvml = Nvml()
    telemetry = HostTelemetry(nvml, FakeClock(), root)
    with nvml.released():
        telemetry.sample()
    assert (library.opened, telemetry.latest().gpus) == (0, [])
    library.answers["amdsmi_init"] = None
    telemetry.sample()
    assert [gpu.device for gpu in telemetry.latest().gpus] == [UUID]


@pytest.mark.parametrize("call", ["amdsmi_init", "amdsmi_get_processor_handles"])
def test_a_library_that_cannot_be_used_measures_nothing_and_the_host_is_still_measured(
    library: Library, root: Path, call: str
) -> None:
    library.answers[call] = RuntimeError("AMDSMI_STATUS_NOT_INIT")
    window, page = measured(root)
    assert [one.device for one in window.devices] == [None]
    assert "gpu_gfx_activity" not in page


def test_without_its_card_its_library_is_not_asked(library: Library, tmp_path: Path) -> None:
    library.answers["amdsmi_init"] = AssertionError("asked")
    assert [one.device for one in measured(TreeBuilder(tmp_path).root)[0].devices] == [None]


@pytest.mark.parametrize(
    "name", [name for name in ANSWERS if name not in ("amdsmi_init", "amdsmi_get_gpu_device_bdf")]
)
@pytest.mark.parametrize("answer", ["gone", None, [], {}, {"vram_total": "N/A"}, 7])
def test_an_odd_answer_at_discovery_costs_what_it_would_have_told_and_no_node(
    library: Library, root: Path, name: str, answer: object
) -> None:
    if answer == "gone":
        delattr(library.module, name)
    else:
        library.answers[name] = answer
    found = discover(root)
    assert [gpu.pci for gpu in found.gpus] == ["0000:60:00.0"]
    report = topology_report(found, "h")
    assert TopologyReport.from_json(report.to_json()) == report


def test_a_card_in_partitions_is_one_gpu_by_its_first(library: Library, root: Path) -> None:
    library.answers["amdsmi_get_processor_handles"] = ["first", "second", "third"]
    library.module.amdsmi_get_gpu_device_uuid = lambda handle: f"{UUID}-{handle}"
    found = discover(root)
    assert [gpu.uuid for gpu in found.gpus] == [f"{UUID}-first"]
    (divided,) = [one for one in found.findings if one.code == "gpu_partitioned"]
    assert (divided.device, "3 partitions" in divided.detail) == ("0000:60:00.0", True)
