"""Which bridges above a GPU are switches that it shares, and which links do tables tell?"""

from __future__ import annotations

from collections import Counter

import pytest

from nodeagent.protocol import TopologyReport
from tests.nodeagent.test_topology_kinds import (
    DEVICE,
    GPU,
    NIC,
    NODE,
    SWITCH,
    cpu,
    found,
    hwloc,
    nccl,
)
from tests.placement.odd_hosts import file_report
from tests.topologies import topology_file

GPUS = [f"0000:0{k}:00.0" for k in range(1, 5)]


def bridge(address: str, inside: str, vendor: str = "1000") -> str:
    """A bridge in an hwloc file."""
    return (
        f'<object type="Bridge" bridge_type="1-1" pci_busid="{address}" '
        f'pci_type="0604 [{vendor}:c010] [0:0] b0">{inside}</object>'
    )


def root(buses: str, inside: str) -> str:
    """The root of a CPU's buses in an hwloc file."""
    return f'<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[{buses}]">{inside}</object>'


def gpu(address: str, number: int = 0) -> str:
    """A GPU in an hwloc file, with a number that tables name it by."""
    inside = (
        f'<object type="OSDev" gp_index="{number}" name="nvml{number}" osdev_type="1">'
        '<info name="Backend" value="NVML"/></object>'
    )
    return DEVICE.format(address, "0302 [10de:20b2] [0:0] a1", inside)


def table(name: str, *rows: tuple[int, ...]) -> str:
    """A table between the GPUs 0, 1, … of an hwloc file."""
    names = " ".join(f"OSDev:{k}" for k in range(len(rows)))
    values = " ".join(str(value) for row in rows for value in row)
    return (
        f'</object><distances2 type="OSDev" nbobjs="{len(rows)}" name="{name}">'
        f'<indexes length="1">{names}</indexes><u64values length="1">{values}</u64values>'
        '</distances2><object type="Misc">'
    )


def switches(report: TopologyReport) -> list[str | None]:
    """The switch of each slot."""
    return [slot.switch for slot in report.slots]


def test_a_bridge_that_a_card_brings_along_is_no_switch_and_the_one_above_is() -> None:
    cards = [SWITCH.format(f"0000:1{k}:00.0", GPU.format(GPUS[k])) for k in range(4)]
    left, right = "".join(cards[:2]), "".join(cards[2:])
    report = nccl(cpu(0, SWITCH.format("0000:20:00.0", left), SWITCH.format("0000:30:00.0", right)))
    assert switches(report) == ["0000:20:00.0"] * 2 + ["0000:30:00.0"] * 2
    assert [switch.id for switch in report.switches] == ["0000:20:00.0", "0000:30:00.0"]


def test_a_gpu_that_no_bridge_joins_with_anything_hangs_on_its_own_uppermost_one() -> None:
    plain = [bridge(f"0000:1{k}:00.0", bridge(f"0000:2{k}:00.0", gpu(GPUS[k]))) for k in (0, 1)]
    host = NODE.format(0, "0xff", "0x1", 1024)
    report = hwloc(host + "".join(plain))
    assert switches(report) == ["0000:10:00.0", "0000:11:00.0"]
    assert all(switch.parent is None for switch in report.switches)
    rooted = "".join(root(f"1{k}-1f", one) for k, one in enumerate(plain))
    assert len(set(switches(hwloc(host + rooted)))) == 2


def test_a_bridge_that_a_hypervisor_made_says_nothing_about_what_is_shared() -> None:
    ports = [bridge(f"0000:00:0{k}.0", gpu(GPUS[k]), vendor="1b36") for k in (0, 1)]
    report = hwloc(NODE.format(0, "0xff", "0x1", 1024) + "".join(ports))
    assert switches(report) == [None, None]
    port = '<pci busid="{0}" class="0x060400" vendor="0x15ad">{1}</pci>'
    flat = nccl(cpu(0, *(port.format(f"0000:00:1{k}.0", GPU.format(GPUS[k])) for k in (0, 1))))
    assert switches(flat) == [None, None]


def test_a_card_of_the_hosts_below_the_same_bridge_keeps_it_a_switch() -> None:
    report = nccl(cpu(0, SWITCH.format("0000:20:00.0", GPU.format(GPUS[0]) + NIC.format(GPUS[1]))))
    assert switches(report) == ["0000:20:00.0"]


def linked(report: TopologyReport) -> dict[tuple[str, str], int | None]:
    """Links by the last digits of the two buses."""
    return {(link.from_[5:7], link.to[5:7]): link.count for link in report.nvlinks}


FOUR = "".join(gpu(address, number) for number, address in enumerate(GPUS))
HOST = NODE.format(0, "0xff", "0x1", 1024) + FOUR


def test_where_widths_of_a_table_differ_links_count_in_proportion() -> None:
    # A part of a hybrid cube mesh: one link of 25 GB/s or two, and one pair without.
    rows = [(0, 25000, 50000, 25000), (25000, 0, 0, 50000), (50000, 0, 0, 75000)]
    rows.append((25000, 50000, 75000, 0))
    assert linked(hwloc(HOST + table("NVLinkBandwidth", *rows))) == {
        ("01", "02"): 1,
        ("01", "03"): 2,
        ("01", "04"): 1,
        ("02", "04"): 2,
        ("03", "04"): 3,
    }


def test_of_a_table_with_one_width_the_number_of_links_stays_unknown() -> None:
    pairs = ((0, 100000, 0, 0), (100000, 0, 0, 0), (0, 0, 0, 100000), (0, 0, 100000, 0))
    told = linked(hwloc(HOST + table("NVLinkBandwidth", *pairs)))
    assert told == {("01", "02"): None, ("03", "04"): None}


def test_widths_that_were_measured_count_by_the_least() -> None:
    rows = ((0, 24011, 47777, 0), (24011, 0, 0, 0), (47777, 0, 0, 0), (0, 0, 0, 0))
    told = linked(hwloc(HOST + table("XGMIBandwidth", *rows)))
    assert told == {("01", "02"): 1, ("01", "03"): 2}


@pytest.mark.parametrize("widths", [False, True])
def test_gpus_two_hops_apart_have_no_link_of_their_own(widths: bool) -> None:
    hops = ((0, 1, 2, 1), (1, 0, 1, 2), (2, 1, 0, 1), (1, 2, 1, 0))
    tables = table("XGMIHops", *hops)
    if widths:
        wide = tuple(tuple(50000 * (k != row) for k in range(4)) for row in range(4))
        tables += table("XGMIBandwidth", *wide)
    report = hwloc(HOST + tables)
    assert set(linked(report)) == {("01", "02"), ("01", "04"), ("02", "03"), ("03", "04")}
    assert {slot.nvlink_domain for slot in report.slots} == {"nvlink-0"}


def test_accelerators_of_other_vendors_are_named_and_not_passed_over() -> None:
    gaudi = DEVICE.format("0000:0a:00.0", "1200 [1da3:1020] [0:0] 01", "")
    report = hwloc(NODE.format(0, "0xff", "0x1", 1024) + gaudi)
    assert found(report, "accelerator_not_gpu") == ["0000:0a:00.0"]
    assert "vendor 1da3" in next(
        one.detail for one in report.findings if one.code == "accelerator_not_gpu"
    )
    assert found(report, "no_gpu") == [None]
    inferentia = '<pci busid="0000:01:00.0" class="0x120000" vendor="0x1d0f"/>'
    assert found(nccl(cpu(0, inferentia)), "accelerator_not_gpu") == ["0000:01:00.0"]


def test_four_cards_with_bridges_of_their_own_share_the_switch_above_them() -> None:
    report = file_report(topology_file("rccl-topo_8p_pcie_1.xml"))
    assert switches(report) == ["0000:18:00.0"] * 4 + ["0000:3b:00.0"] * 4
    assert report.nics[0].switch == "0000:3b:00.0"


def test_sixteen_cards_below_two_switches_of_switches_are_below_two_roots() -> None:
    report = file_report(topology_file("rccl-topo_4p4h.xml"))
    above = {switch.id: switch.parent for switch in report.switches}
    assert len(set(switches(report))) == 16
    assert Counter(above[slot.switch or ""] for slot in report.slots) == {
        "0000:c3:00.0": 8,
        "0000:e4:00.0": 8,
    }
