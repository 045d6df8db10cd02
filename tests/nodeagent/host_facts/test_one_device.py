"""Does a device that is on the bus at several addresses ever go to two tenants?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nodeagent.host.discovery import discover
from nodeagent.protocol import CandidateSlot, DeviceMode, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.trees import TreeBuilder

CODE = "device_at_several_addresses"
NICS, DISKS = ("0000:21:00.0", "0000:a1:00.0"), ("0000:31:00.0", "0000:b1:00.0")


@pytest.fixture
def host(tmp_path: Path) -> TreeBuilder:
    """Two sockets, each with a GPU, a NIC and a disk."""
    tree = TreeBuilder(tmp_path)
    for number, gpu in enumerate(("0000:1a:00.0", "0000:9a:00.0")):
        tree.numa(number, f"{number * 8}-{number * 8 + 7}")
        tree.device(gpu, trees.GPU, trees.NVIDIA, numa=number)
        tree.device(NICS[number], trees.ETHERNET, trees.MELLANOX, numa=number)
        tree.device(DISKS[number], trees.NVME, trees.SAMSUNG, numa=number, driver="nvme")
    return tree


def say(host: TreeBuilder, files: Mapping[str, str]) -> None:
    """Files of devices, by their place below a device's address."""
    for place, content in files.items():
        address, _, name = place.partition("/")
        host.write(f"{host.paths[address].relative_to(host.root).as_posix()}/{name}", content)


def guids(*said: str, nics: tuple[str, ...] = NICS) -> dict[str, str]:
    """What each NIC says of the card that it is on."""
    return {
        f"{nic}/infiniband/mlx5_{number}/sys_image_guid": guid
        for number, (nic, guid) in enumerate(zip(nics, said, strict=True))
    }


def seen(host: TreeBuilder) -> TopologyReport:
    """What a discovery reports."""
    return topology_report(discover(host.root), "h")


def nics_of(slot: CandidateSlot) -> tuple[str | None, ...]:
    """What it has to itself."""
    return (slot.nic, *slot.extra_nics) if slot.nic_mode is DeviceMode.EXCLUSIVE else ()


def test_a_nic_with_a_link_to_each_socket_goes_to_no_two_slots(host: TreeBuilder) -> None:
    say(host, guids("b8ce:f603:0001:0000", "b8ce:f603:0001:0008"))
    assert [nics_of(slot) for slot in seen(host).slots] == [(NICS[0],), (NICS[1],)]
    say(host, guids("b8ce:f603:0001:0000", "b8ce:f603:0001:0000"))
    report = seen(host)
    assert [nics_of(slot) for slot in report.slots] == [NICS, ()]
    assert [one.device for one in report.findings if one.code == CODE] == [NICS[0]]


def test_what_the_host_lives_by_takes_the_other_half_of_its_card_along(host: TreeBuilder) -> None:
    say(host, guids("b8ce:f603:0001:0000", "b8ce:f603:0001:0000") | {f"{NICS[1]}/net/e/mtu": "1"})
    host.device("0000:21:00.1", trees.ETHERNET, trees.MELLANOX, numa=0)
    host.write("proc/net/route", "e 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0")
    report = seen(host)
    assert [nics_of(slot) for slot in report.slots] == [(), ()]
    assert {one.device for one in report.findings if one.code == "nic_spare"} == {
        *NICS,
        "0000:21:00.1",
    }


@pytest.mark.parametrize("guid", ["0000:0000:0000:0000", ""])
def test_cards_that_say_nothing_of_themselves_are_not_one(host: TreeBuilder, guid: str) -> None:
    say(host, guids(guid, guid))
    report = seen(host)
    assert [nics_of(slot) for slot in report.slots] == [(NICS[0],), (NICS[1],)]
    assert CODE not in {one.code for one in report.findings}


def test_a_disk_with_two_ports_goes_to_no_two_slots(host: TreeBuilder) -> None:
    said = {f"{disk}/nvme/nvme{k}/subsysnqn": f"nqn.x:{k}" for k, disk in enumerate(DISKS)}
    say(host, said)
    assert [slot.nvme for slot in seen(host).slots] == list(DISKS)
    say(host, dict.fromkeys(said, "nqn.2014.08.org.nvmexpress:144d144dS4"))
    report = seen(host)
    slots = [(slot.nvme_mode, slot.nvme, slot.extra_nvmes) for slot in report.slots]
    assert slots[0] == (DeviceMode.EXCLUSIVE, DISKS[0], (DISKS[1],))
    assert slots[1] == (DeviceMode.NONE, None, ())
    say(host, {f"{DISKS[1]}/nvme/nvme1/nvme0c1n1/size": "2000"})
    host.write("proc/mounts", "/dev/nvme0n1p2 / ext4 rw 0 0")
    assert [slot.nvme for slot in seen(host).slots] == [None, None]


def test_a_card_with_more_than_eight_functions_goes_to_no_two_slots(host: TreeBuilder) -> None:
    functions = [f"0000:3b:{k // 8:02x}.{k % 8}" for k in range(16)]
    host.device("0000:00:01.0", trees.BRIDGE, "0x8086", numa=1)
    for address in functions:
        host.device(address, trees.INFINIBAND, "0x14e4", above="0000:00:01.0", numa=1)
    host.device("0000:9b:00.0", trees.GPU, trees.NVIDIA, numa=1)
    # Without routing by that interpretation these are two cards on one bus.
    say(host, dict.fromkeys((f"{one}/ari_enabled" for one in functions), "0"))
    assert [len(nics_of(slot)) for slot in seen(host).slots] == [1, 8, 8]
    say(host, dict.fromkeys((f"{one}/ari_enabled" for one in functions), "1"))
    report = seen(host)
    assert [slot.nic_mode for slot in report.slots][1:] == [DeviceMode.SHARED] * 2
    assert {slot.nic for slot in report.slots[1:]} == {functions[0]}
