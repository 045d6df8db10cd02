"""The stand-in library, and trees as a host's kernel shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.nvml import Nvml
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.fake import FakeNvml, build
from tests.nodeagent.host_facts.trees import TreeBuilder

PCI = ("0000:1a:00.0", "0000:1b:00.0")


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; loaded under NVIDIA's name, so that the real binding finds it."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A healthy host with two GPUs."""
    scenario = tmp_path / "scenario"
    monkeypatch.setenv("FAKE_NVML_SCENARIO", str(scenario))
    return FakeNvml(fake_library, scenario).play()


@pytest.fixture
def nvml() -> Nvml:
    """A door to the library."""
    return Nvml()


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml) -> TreeBuilder:
    """Two GPUs, each with its NIC below one switch, and a disk; NVML knows the GPUs."""
    tree = TreeBuilder(tmp_path / "root")
    tree.numa(0, "0-7")
    tree.numa(1, "8-15")
    tree.hugepages(0, 2048, 1024, 1000)
    for number, gpu in enumerate(PCI):
        bridge = f"0000:{0x10 + number:02x}:00.0"
        tree.device(bridge, trees.BRIDGE, "0x1000", numa=number)
        tree.device(
            gpu,
            trees.GPU,
            trees.NVIDIA,
            numa=number,
            above=bridge,
            driver="nvidia",
            group=10 + number,
            serial=0xABC000 + number,
        )
        nic = f"0000:{0x2A + number:02x}:00.0"
        tree.device(nic, trees.INFINIBAND, trees.MELLANOX, numa=number, above=bridge)
    tree.device("0000:40:00.0", trees.NVME, trees.SAMSUNG, numa=0, driver="nvme")
    return tree
