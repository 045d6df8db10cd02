"""Is it handed out what the operator wants handed out, and does the rest stay with the host?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.discovery import Handing, discover
from nodeagent.host.discovery.handing import MOST_FUNCTIONS
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import DeviceMode, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.fake import FakeNvml
from tests.nodeagent.host_facts.trees import TreeBuilder

GPUS = ("0000:1a:00.0", "0000:1b:00.0")
CARD, PORT, DISK = "0000:2a:00.0", "0000:2a:00.1", "0000:3a:00.0"
DIVIDED = Handing(functions=True)


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml) -> TreeBuilder:
    """Two GPUs beside one network card and one disk: too few for each to have its own."""
    fake.play(gpus=2)
    tree = TreeBuilder(tmp_path)
    tree.numa(0, "0-15")
    for group, address in enumerate(GPUS):
        tree.device(address, trees.GPU, trees.NVIDIA, group=group)
    tree.device(CARD, trees.ETHERNET, trees.MELLANOX, group=10, driver="mlx5_core")
    tree.device(DISK, trees.NVME, trees.SAMSUNG, group=11, driver="nvme")
    return tree


def virtual(host: TreeBuilder, count: int, card: str = CARD, bus: int = 0x2A) -> list[str]:
    """That many virtual functions of a card, as the kernel lists them."""
    made = []
    for number in range(count):
        place = number + 2
        address = f"0000:{bus:02x}:{place // 8:02x}.{place % 8}"
        path = host.device(
            address, trees.ETHERNET, trees.MELLANOX, group=20 + number, link=("Unknown", "0")
        )
        (path / "physfn").symlink_to(f"../{card}")
        (host.paths[card] / f"virtfn{number}").symlink_to(f"../{address}")
        made.append(address)
    return made


def seen(host: TreeBuilder, handing: Handing = DIVIDED) -> TopologyReport:
    """What a discovery with the operator's decision reports."""
    return topology_report(discover(host.root, Nvml(), handing=handing), "h")


def found(report: TopologyReport) -> set[tuple[str, str | None]]:
    """Its findings without their words."""
    return {(one.code, one.device) for one in report.findings}


def test_each_gpu_gets_virtual_functions_of_a_card_that_is_too_few_for_all(
    host: TreeBuilder,
) -> None:
    made = virtual(host, 8)
    whole = seen(host, Handing())
    assert [slot.nic_mode for slot in whole.slots] == [DeviceMode.SHARED] * 2
    report = seen(host)
    assert [slot.nic_mode for slot in report.slots] == [DeviceMode.EXCLUSIVE] * 2
    given = [[slot.nic, *slot.extra_nics] for slot in report.slots]
    assert given == [made[:4], made[4:]]
    assert {nic.id for nic in report.nics if nic.reserved} == {CARD}
    assert ("nic_divided", CARD) in found(report)
    assert report.nics[1].link_mbps == report.nics[0].link_mbps
    assert TopologyReport.from_json(report.to_json()) == report


def test_a_card_without_virtual_functions_is_handed_out_whole(host: TreeBuilder) -> None:
    host.device(PORT, trees.ETHERNET, trees.MELLANOX, group=10)
    assert seen(host) == seen(host, Handing())


def test_a_virtual_function_that_the_host_lives_by_stays_with_it(host: TreeBuilder) -> None:
    first, second, third = virtual(host, 3)
    (host.paths[first] / "net" / "eth7").mkdir(parents=True)
    host.write("proc/net/route", "eth7 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0")
    report = seen(host)
    assert [slot.nic for slot in report.slots] == [second, third]
    assert {nic.id for nic in report.nics if nic.reserved} == {CARD, first}
    assert ("nic_carries_host", first) in found(report)


def test_a_virtual_function_in_its_cards_group_is_handed_to_nobody(host: TreeBuilder) -> None:
    (lone,) = virtual(host, 1)
    path = host.paths[lone] / "iommu_group"
    path.unlink()
    path.symlink_to(host.root / "sys/kernel/iommu_groups/10")
    report = seen(host)
    assert ("iommu_group_shared", lone) in found(report)
    sold = {nic.pci for nic in report.nics}
    members = host.root / "sys/kernel/iommu_groups/10/devices"
    members.mkdir()
    for address in (CARD, lone):
        (members / address).touch()
    assert PciBus(host.root).group_others(lone, [lone], sold) == [CARD]


def test_a_card_with_a_hundred_functions_costs_no_report(host: TreeBuilder) -> None:
    made = virtual(host, 100)
    report = seen(host)
    assert {nic.id for nic in report.nics} == {CARD, *made[:MOST_FUNCTIONS]}
    assert any(one.detail.startswith("16 of its 100 virtual") for one in report.findings)


def test_what_the_operator_keeps_is_in_no_slot(host: TreeBuilder) -> None:
    host.remove(GPUS[1])
    assert (seen(host).slots[0].nic, seen(host).slots[0].nvme) == (CARD, DISK)
    report = seen(host, Handing(keep=frozenset({CARD, DISK})))
    assert (report.slots[0].nic, report.slots[0].nvme) == (None, None)
    assert {("device_kept", CARD), ("device_kept", DISK)} <= found(report)
    assert [one.reserved for one in report.nics] == [True]
    assert [one.reserved for one in report.nvmes] == [True]


def test_a_kept_card_keeps_its_virtual_functions(host: TreeBuilder) -> None:
    virtual(host, 4)
    report = seen(host, Handing(keep=frozenset({CARD}), functions=True))
    assert [nic.id for nic in report.nics] == [CARD]
    assert [slot.nic for slot in report.slots] == [None, None]


@pytest.mark.parametrize("address", ["0000:77:00.0", GPUS[0]])
def test_what_is_kept_and_is_nothing_that_could_be_is_a_finding(
    host: TreeBuilder, address: str
) -> None:
    assert ("keep_unknown", address) in found(seen(host, Handing(keep=frozenset({address}))))
