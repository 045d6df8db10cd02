"""Are the facts of real hosts' topology files read as they are?"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from nodeagent.protocol import CandidateSlot, DeviceMode, NicKind, TopologyReport, UuidSource
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from tests.topologies import topology_file, topology_files


def report_of(name: str) -> TopologyReport:
    """The report that a host with this file would send."""
    return topology_report(load_topology_file(topology_file(name)), "host")


def codes(report: TopologyReport) -> set[str]:
    """Codes of all findings."""
    return {finding.code for finding in report.findings}


def by_pci(report: TopologyReport) -> dict[str, CandidateSlot]:
    """Slots by their GPU's address."""
    return {report.gpus[slot.gpu_index].pci or "": slot for slot in report.slots}


def test_ndv5_has_eight_slots_each_with_its_own_nic_under_the_same_switch() -> None:
    report = report_of("azure-ndv5-topo.xml")
    assert [node.id for node in report.numa] == [0, 1]
    assert Counter(gpu.numa for gpu in report.gpus) == {0: 4, 1: 4}
    assert len(report.slots) == 8
    assert {slot.nic_mode for slot in report.slots} == {DeviceMode.EXCLUSIVE}
    assert len({slot.nic for slot in report.slots}) == 8
    nics = {nic.id: nic for nic in report.nics}
    for slot in report.slots:
        assert slot.nic is not None
        assert nics[slot.nic].switch == slot.switch
        assert nics[slot.nic].kind is NicKind.INFINIBAND
        assert slot.extra_nics == ()


def test_ndv4_pairs_by_address_within_its_four_numa_nodes() -> None:
    report = report_of("azure-ndv4-topo.xml")
    assert Counter(gpu.numa for gpu in report.gpus) == {0: 2, 1: 2, 2: 2, 3: 2}
    pairs = {address: slot.nic for address, slot in by_pci(report).items()}
    assert pairs == {
        "0003:00:00.0": "0103:00:00.0",
        "0004:00:00.0": "0104:00:00.0",
        "0001:00:00.0": "0101:00:00.0",
        "0002:00:00.0": "0102:00:00.0",
        "000d:00:00.0": "0107:00:00.0",
        "000e:00:00.0": "0108:00:00.0",
        "000b:00:00.0": "0105:00:00.0",
        "000c:00:00.0": "0106:00:00.0",
    }
    assert {slot.nic_mode for slot in report.slots} == {DeviceMode.EXCLUSIVE}
    numa_of = {nic.id: nic.numa for nic in report.nics}
    assert all(numa_of[slot.nic or ""] == slot.numa for slot in report.slots)


def test_ncv4_has_four_slots_without_a_nic_and_unusable_links() -> None:
    report = report_of("azure-ncv4-topo.xml")
    assert Counter(gpu.numa for gpu in report.gpus) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert [(slot.nic, slot.nic_mode) for slot in report.slots] == [(None, DeviceMode.NONE)] * 4
    assert [(nic.pci, nic.name, nic.speed_mbps) for nic in report.nics] == [(None, "eth0", 100_000)]
    assert "nic_outside_pci" in codes(report)
    assert [gpu.link_mbps for gpu in report.gpus] == [None] * 4
    assert "link_speed_unknown" in codes(report)
    selves = [one.device for one in report.findings if one.code == "nvlink_self"]
    assert selves == [gpu.pci for gpu in report.gpus]
    assert report.nvlinks == ()
    assert [gpu.nvlink_domain for gpu in report.gpus] == [None] * 4


def test_p4d_shares_each_nic_between_two_gpus_and_gives_it_to_none_alone() -> None:
    report = report_of("aws-p4d-24xl-topo.xml")
    assert len(report.numa) == 2
    assert len(report.switches) == 4
    assert len(report.slots) == 8
    assert {slot.nic_mode for slot in report.slots} == {DeviceMode.SHARED}
    assert set(Counter(slot.nic for slot in report.slots).values()) == {2}
    assert {nic.kind for nic in report.nics} == {NicKind.EFA}
    nics = {nic.id: nic for nic in report.nics}
    assert all(nics[slot.nic or ""].switch == slot.switch for slot in report.slots)


def test_p4d_keeps_the_threads_of_a_core_in_one_slot() -> None:
    report = report_of("aws-p4d-24xl-topo.xml")
    assert [node.cpuset for node in report.numa] == ["0-23,48-71", "24-47,72-95"]
    assert [slot.cpuset for slot in report.slots if slot.numa == 0] == [
        "0-5,48-53",
        "6-11,54-59",
        "12-17,60-65",
        "18-23,66-71",
    ]


def test_dgx2_has_sixteen_slots_with_uuids_and_nothing_invented() -> None:
    report = report_of("hwloc-nvidiaDGX2.xml")
    assert Counter(gpu.numa for gpu in report.gpus) == {0: 8, 1: 8}
    assert len(report.nvswitches) == 12
    assert len(report.slots) == 16
    assert report.gpus[0].uuid == "GPU-d3977428-7a30-086b-2e20-5c1eeed647c6"
    assert {gpu.uuid_source for gpu in report.gpus} == {UuidSource.FILE}
    assert {gpu.model for gpu in report.gpus} == {"Tesla V100-SXM3-32GB-H"}
    assert {(slot.nic, slot.nic_mode) for slot in report.slots} == {(None, DeviceMode.UNKNOWN)}
    assert {(slot.nvme, slot.nvme_mode) for slot in report.slots} == {(None, DeviceMode.UNKNOWN)}
    assert {"nic_unknown", "nvme_unknown", "gpu_memory_unknown"} <= codes(report)


def test_dgx2_counts_the_unreadable_nvswitch_and_says_so() -> None:
    report = report_of("hwloc-nvidiaDGX2.xml")
    odd = [one.device for one in report.findings if one.code == "class_unreadable"]
    assert odd == ["0000:66:00.0"]
    assert odd[0] in {one.pci for one in report.nvswitches}
    domains = Counter(gpu.nvlink_domain for gpu in report.gpus)
    assert domains == {"nvlink-0": 8, "nvlink-1": 8}


def test_dgx2_divides_memory_but_not_two_cpus_among_eight() -> None:
    report = report_of("hwloc-nvidiaDGX2.xml")
    assert {slot.cpuset for slot in report.slots} == {None}
    assert "cpus_too_few" in codes(report)
    for node in report.numa:
        shares = [slot.memory_bytes or 0 for slot in report.slots if slot.numa == node.id]
        assert node.memory_bytes is not None
        assert node.memory_bytes - 8 * 2 * 1024**2 < sum(shares) <= node.memory_bytes


def test_ndv2_gives_its_single_nic_to_nobody_alone() -> None:
    report = report_of("azure-ndv2-topo.xml")
    modes = [(slot.numa, slot.nic_mode) for slot in report.slots]
    assert modes == [(0, DeviceMode.SHARED)] * 4 + [(1, DeviceMode.NONE)] * 4


def test_a_file_without_classes_yields_unknown_devices_and_no_slot() -> None:
    report = report_of("aws-g5-48xl-topo.xml")
    assert report.slots == ()
    assert {"class_unknown", "no_gpu", "cpuset_unknown"} <= codes(report)


def test_a_management_display_by_a_gpu_vendor_is_no_gpu() -> None:
    report = report_of("hwloc-24em64t-2n6c2t-pci.xml")
    assert [gpu.pci for gpu in report.gpus] == ["0000:06:00.0", "0000:11:00.0", "0000:14:00.0"]
    assert [one.device for one in report.findings if one.code == "display_not_gpu"] == [
        "0000:01:03.0"
    ]
    assert by_pci(report)["0000:06:00.0"].nic == "0000:05:00.0"
    assert {one.device for one in report.findings if one.code == "nic_spare"} == {
        "0000:04:00.0",
        "0000:04:00.1",
    }


def test_power8_keeps_whole_cores_and_finds_nvlink_pairs() -> None:
    report = report_of("hwloc-power8gpudistances.xml")
    assert [slot.nvlink_domain for slot in report.slots] == [
        "nvlink-0",
        "nvlink-0",
        "nvlink-1",
        "nvlink-1",
    ]
    assert [slot.cpuset for slot in report.slots][:2] == ["0-1,8-9", "16-17,24-25"]


@pytest.mark.parametrize("path", topology_files(), ids=lambda path: path.name)
def test_every_report_survives_the_wire_and_names_its_source(path: Path) -> None:
    report = report_of(path.name)
    assert TopologyReport.from_json(report.to_json()) == report
    assert report.source.file_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
