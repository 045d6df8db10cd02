"""Which GPUs are linked directly, as their drivers say, and while those cannot say it?"""

from __future__ import annotations

import sys
import types
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.discovery import GpuMemory, discover
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import TopologyReport, UuidSource
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.conftest import PCI
from tests.nodeagent.host_facts.fake import FakeNvml
from tests.nodeagent.host_facts.test_discovery import report_of
from tests.nodeagent.host_facts.trees import TreeBuilder


def joined(report: TopologyReport) -> list[tuple[str, str, int | None]]:
    """The links that are told."""
    return [(link.from_, link.to, link.count) for link in report.nvlinks]


def test_links_of_gpus_that_machines_hold_are_those_that_were_read_before(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    path = tmp_path / "gpus.json"
    for n in (0, 1):
        fake.change({f"gpu.0.link.{n}": f"0000{PCI[1]} 0", f"gpu.1.link.{n}": f"0000{PCI[0]} 0"})
    before = report_of(discover(host.root, nvml, GpuMemory(path)))
    assert joined(before) == [(PCI[0], PCI[1], 2)]
    # One is handed out: its driver is gone, and the links of the other to it are down.
    host.rebind(PCI[1], "vfio-pci")
    fake.change({"count": "1", "gpu.0.link.0": "down", "gpu.0.link.1": "down"})
    for _ in range(2):
        now = report_of(discover(host.root, nvml, GpuMemory(path)))
        assert joined(now) == joined(before)
        assert [gpu.nvlink_domain for gpu in now.gpus] == ["nvlink-0"] * 2
    host.rebind(PCI[0], "vfio-pci")
    fake.change({"count": "0"})
    assert joined(report_of(discover(host.root, nvml, GpuMemory(path)))) == joined(before)
    # Both are seen again, and the links are down in truth.
    for address in PCI:
        host.rebind(address, "nvidia")
    fake.change({"count": "2", "gpu.1.link.0": "down", "gpu.1.link.1": "down"})
    assert joined(report_of(discover(host.root, nvml, GpuMemory(path)))) == []


def test_damaged_links_are_as_none_and_the_uuids_stay(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    discover(host.root, nvml, GpuMemory(tmp_path / "gpus.json"))
    host.rebind(PCI[1], "vfio-pci")
    fake.change({"count": "1"})
    bad = f'{{"{PCI[1]}": {{"marks": "", "links": [["x", null]]}}}}'
    for content in ("{", "[1]", '{"a": 2}', '{"a": {"marks": 1, "links": 3}}', bad):
        (tmp_path / "links.json").write_text(content)
        report = report_of(discover(host.root, nvml, GpuMemory(tmp_path / "gpus.json")))
        assert report.gpus[1].uuid_source is UuidSource.REMEMBERED
        assert report.nvlinks == ()


class Xgmi:
    """A stand-in for AMD's library on a host of four GPUs in one hive."""

    def __init__(self) -> None:
        self.far: set[frozenset[int]] = set()
        self.silent: set[frozenset[int]] = set()

    def module(self) -> Any:
        """The library as it is imported."""
        library: Any = types.ModuleType("amdsmi")
        library.amdsmi_init = library.amdsmi_shut_down = lambda: None
        library.amdsmi_get_processor_handles = lambda: list(range(4))
        library.amdsmi_get_gpu_device_bdf = lambda one: f"0000:6{one}:00.0"
        library.amdsmi_get_gpu_device_uuid = lambda one: f"deadbeef-0000-1000-8000-00000000000{one}"
        library.amdsmi_get_gpu_asic_info = lambda _: {"market_name": "AMD Instinct MI300X"}
        library.amdsmi_get_gpu_vram_usage = lambda _: {"vram_total": 196_592}
        library.amdsmi_get_xgmi_info = lambda _: {"xgmi_hive_id": "0x1f"}
        library.amdsmi_topo_get_link_type = self._way
        return library

    def _way(self, one: int, other: int) -> dict[str, int]:
        pair = frozenset((one, other))
        if pair in self.silent:
            raise RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
        return {"type": 2, "hops": 2 if pair in self.far else 1}


def test_amd_cards_one_hop_away_are_linked_and_a_silent_pair_leaves_that_unknown(
    host: TreeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = [f"0000:6{one}:00.0" for one in range(4)]
    for address in cards:
        host.device(address, "0x120000", trees.AMD, numa=0)
    xgmi = Xgmi()
    monkeypatch.setitem(sys.modules, "amdsmi", xgmi.module())
    full = joined(report_of(discover(host.root)))
    assert full == [(a, b, None) for a, b in combinations(cards, 2)]
    xgmi.far = {frozenset((0, 3))}
    assert (cards[0], cards[3], None) not in joined(report_of(discover(host.root)))
    assert len(joined(report_of(discover(host.root)))) == 5
    xgmi.silent = {frozenset((1, 2))}
    report = report_of(discover(host.root))
    assert joined(report) == []
    assert {gpu.nvlink_domain for gpu in report.gpus if gpu.pci in cards} == {"xgmi-0x1f"}


def three_gpus(host: TreeBuilder, fake: FakeNvml) -> str:
    """A third GPU on the host, all three joined through one NVSwitch; its address."""
    third = "0000:1c:00.0"
    host.device(third, trees.GPU, trees.NVIDIA, numa=0, driver="nvidia", serial=0xABC002)
    fake.play(gpus=3).change({"gpu.*.link.0": "00000000:05:00.0 2"})
    return third


def untold(report: TopologyReport) -> list[str | None]:
    """The GPUs of which nobody knows with which they are linked."""
    return [one.device for one in report.findings if one.code == "nvlink_unreadable"]


@pytest.mark.gcc
@pytest.mark.parametrize("code", ["4", "10", "17", "27", "999"])
def test_a_gpu_whose_links_cannot_be_read_is_not_taken_for_one_without(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, code: str
) -> None:
    third = three_gpus(host, fake)
    assert untold(report_of(discover(host.root, nvml))) == []
    fake.change({"error.2.nvmlDeviceGetNvLinkState": code})
    report = report_of(discover(host.root, nvml))
    assert [gpu.nvlink_domain for gpu in report.gpus] == ["nvlink-0", "nvlink-0", None]
    assert untold(report) == [third]


@pytest.mark.gcc
def test_a_divided_gpu_whose_links_are_down_is_not_taken_for_one_without(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    third = three_gpus(host, fake)
    fake.change({"gpu.2.link.0": "down"})
    assert untold(report_of(discover(host.root, nvml))) == []
    fake.change({"gpu.2.mig": "1 1"})
    assert untold(report_of(discover(host.root, nvml))) == [third]


@pytest.mark.gcc
def test_links_that_cannot_be_read_for_a_moment_are_those_of_before(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    path = tmp_path / "gpus.json"
    three_gpus(host, fake)
    before = report_of(discover(host.root, nvml, GpuMemory(path)))
    fake.change({"error.2.nvmlDeviceGetNvLinkState": "999"})
    for _ in range(2):
        now = report_of(discover(host.root, nvml, GpuMemory(path)))
        assert (joined(now), untold(now)) == (joined(before), [])
    assert {gpu.nvlink_domain for gpu in now.gpus} == {"nvlink-0"}


@pytest.mark.gcc
def test_a_gpu_that_is_remembered_without_its_links_is_not_taken_for_one_without(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    third = three_gpus(host, fake)
    discover(host.root, nvml, GpuMemory(tmp_path / "gpus.json"))
    (tmp_path / "links.json").unlink()
    host.rebind(third, "vfio-pci")
    fake.change({"count": "2"})
    assert untold(report_of(discover(host.root, nvml, GpuMemory(tmp_path / "gpus.json")))) == [
        third
    ]


@pytest.mark.parametrize(
    ("told", "domain", "unknown"),
    [
        ("0x1f", "xgmi-0x1f", False),
        ("0x0000000000000000", None, False),
        (0, None, False),
        ("N/A", None, True),
        (None, None, True),
    ],
)
def test_a_hive_of_zero_is_none_and_one_that_cannot_be_read_is_unknown(
    host: TreeBuilder,
    monkeypatch: pytest.MonkeyPatch,
    told: object,
    domain: str | None,
    unknown: bool,
) -> None:
    cards = [f"0000:6{one}:00.0" for one in range(4)]
    for address in cards:
        host.device(address, "0x120000", trees.AMD, numa=0)
    library = Xgmi().module()
    library.amdsmi_get_xgmi_info = lambda one: {"xgmi_hive_id": told if one == 3 else "0x1f"}
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    report = report_of(discover(host.root))
    domains = [gpu.nvlink_domain for gpu in report.gpus if gpu.pci in cards]
    assert domains == ["xgmi-0x1f"] * 3 + [domain]
    assert untold(report) == ([cards[3]] if unknown else [])
