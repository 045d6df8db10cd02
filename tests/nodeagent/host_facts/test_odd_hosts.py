"""Does no odd device of any odd host fail its node, or change what is said of those beside it?"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.host.discovery import discover, observe_devices
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import Presence, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.trees import TreeBuilder

KINDS = {
    "an NVIDIA GPU": (trees.GPU, trees.NVIDIA),
    "an AMD GPU": ("0x038000", trees.AMD),
    "a NIC": (trees.ETHERNET, trees.MELLANOX),
    "an NVMe": (trees.NVME, trees.SAMSUNG),
    "an NVSwitch": (trees.NVSWITCH, trees.NVIDIA),
}
DOMAINS = ("0000", "0001", "10000", "ffff")
FILES = ("class", "vendor", "device", "numa_node", "max_link_speed", "max_link_width", "config")
LINKS = ("driver", "iommu_group", "physfn")


def _junk(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def _long(path: Path) -> None:
    path.write_text("n" * 4096)


def _gone(path: Path) -> None:
    path.unlink(missing_ok=True)


def _empty(path: Path) -> None:
    path.write_text("")


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _unreadable(path: Path) -> None:
    # What root may not read either: the kernel answers EIO for a memory that is not mapped.
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/self/mem")


def _loop(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def _huge(path: Path) -> None:
    path.write_text("9" * 5000)


def _minus(path: Path) -> None:
    path.write_text("-1")


SPOIL: tuple[Callable[[Path], None], ...] = (
    _junk,
    _long,
    _gone,
    _empty,
    _folder,
    _unreadable,
    _loop,
    _huge,
    _minus,
)


def a_host(root: Path, chance: random.Random) -> tuple[TreeBuilder, dict[str, str]]:
    """Some devices of some kinds, by address with their kind."""
    tree = TreeBuilder(root)
    for number in range(chance.choice((0, 1, 2))):
        tree.numa(number, f"{number * 16}-{number * 16 + 15}", chance.choice((None, 264_000_000)))
    wanted = chance.choice(((), ("an NVSwitch",), ("an NVIDIA GPU",) * 16, ("an AMD GPU",) * 8))
    kinds = [*wanted, *chance.choices(sorted(KINDS), k=chance.randrange(12))]
    devices = {}
    for number, kind in enumerate(kinds):
        address = f"{chance.choice(DOMAINS)}:{number + 16:02x}:00.0"
        class_code, vendor = KINDS[kind]
        tree.device(
            address,
            class_code,
            vendor,
            numa=chance.choice((None, 0, 1, 7)),
            driver=chance.choice((None, "nvidia", "vfio-pci", "amdgpu")),
            group=chance.choice((None, 1, number + 10)),
        )
        devices[address] = kind
    return tree, devices


def told(report: TopologyReport, address: str) -> list[tuple[object, ...]]:
    """Everything that is said of one device alone."""
    facts = [
        (one.name, one.presence, one.value, one.reason)
        for one in report.facts
        # What is beside it in its group depends on the others.
        if one.device == address and one.name != "iommu_group_others"
    ]
    gpus = [
        (g.uuid, g.uuid_source, g.model, g.memory_bytes) for g in report.gpus if g.pci == address
    ]
    return [*sorted(facts, key=repr), *gpus]


def looked_at(root: Path) -> TopologyReport:
    """A discovery, as it goes over the wire."""
    report = topology_report(discover(root, Nvml()), "odd")
    assert TopologyReport.from_json(report.to_json()) == report
    for fact in report.facts:
        known = fact.presence is Presence.PRESENT
        assert (fact.value is not None) == known, fact
        assert known or fact.reason, fact
    assert len(report.slots) == len(report.gpus)
    return report


@pytest.mark.parametrize("seed", range(100))
def test_one_spoilt_device_fails_no_node_and_changes_nothing_beside_it(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    tree, devices = a_host(tmp_path / "root", chance)
    before = looked_at(tree.root)
    gpus = [address for address, kind in devices.items() if kind.endswith("GPU")]
    assert sorted(gpu.pci or "" for gpu in before.gpus) == sorted(gpus)
    if not devices:
        return
    spoilt = chance.choice(sorted(devices))
    place = tree.paths[spoilt]
    for name in chance.sample(FILES, chance.randrange(1, len(FILES))):
        chance.choice(SPOIL)(place / name)
    for name in LINKS:
        if chance.random() < 0.4:
            _gone(place / name)
            chance.choice((_gone, _loop, _junk))(place / name)
    after = looked_at(tree.root)
    for address in devices:
        if address != spoilt:
            assert told(after, address) == told(before, address)
    sight = observe_devices(after, tree.root, Nvml(), None)
    assert len(sight.devices.gpus) <= len(devices)


def test_a_bus_that_cannot_be_read_at_all_is_a_host_without_devices(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree = TreeBuilder(root)
    tree.device("0000:16:00.0", trees.GPU, trees.NVIDIA)
    shutil.rmtree(root / "sys/bus/pci/devices")
    os.symlink("devices", root / "sys/bus/pci/devices")
    report = looked_at(root)
    assert (report.gpus, report.slots) == ((), ())


def test_names_that_are_no_addresses_are_passed_over(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree = TreeBuilder(root)
    tree.device("10000:e1:00.0", trees.GPU, trees.NVIDIA, driver="nvidia")
    for name in ("x" * 200, "0000:zz:00.0", "..data", "0000:16:00", "é\udcff"):
        (root / "sys/bus/pci/devices" / name).symlink_to("nowhere")
    report = looked_at(root)
    assert [gpu.pci for gpu in report.gpus] == ["10000:e1:00.0"]
