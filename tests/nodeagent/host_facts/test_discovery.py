"""Does a host's own kernel and driver give the slots that its topology file gives?"""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host.discovery import GpuMemory, discover, observe_devices
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import (
    CandidateSlot,
    DeviceFact,
    DeviceMode,
    GpuFabric,
    Presence,
    TopologyReport,
    UuidSource,
)
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.model import Topology
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.conftest import PCI
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.trees import TreeBuilder, tree_of
from tests.topologies import topology_files


def report_of(topology: Topology) -> TopologyReport:
    """What would be sent, read back as the control plane reads it."""
    report = topology_report(topology, "host")
    return TopologyReport.from_json(report.to_json())


def fact(report: TopologyReport, device: str | None, name: str) -> DeviceFact:
    """One reading."""
    (found,) = [one for one in report.facts if (one.device, one.name) == (device, name)]
    return found


def codes(report: TopologyReport) -> set[str]:
    """Codes of the findings."""
    return {finding.code for finding in report.findings}


def of_one_bus() -> list[Path]:
    """The files of which a bus can be made: on one, no two bridges have the same address."""
    told = {path: load_topology_file(path).findings for path in topology_files()}
    return [path for path in told if "duplicate_switch" not in {one.code for one in told[path]}]


@pytest.mark.parametrize("path", of_one_bus(), ids=lambda path: path.stem)
def test_a_tree_built_from_a_file_gives_the_slots_of_the_file(path: Path, tmp_path: Path) -> None:
    imported = load_topology_file(path)
    tree = tree_of(tmp_path, imported)
    live = discover(tree.root)

    def shown(topology: Topology) -> list[CandidateSlot]:
        # Only who the GPUs are is not in the tree; bridges may have got another name.
        bridges = {name: n for n, name in enumerate(dict.fromkeys(g.switch for g in topology.gpus))}
        return [
            replace(
                slot,
                gpu_uuid=None,
                nvlink_domain=None,
                switch=str(bridges[slot.switch]),
            )
            for slot in topology_report(topology, "host").slots
        ]

    nics = tuple(nic for nic in imported.nics if nic.pci is not None)
    known = replace(imported, nics=nics)
    assert shown(live) == shown(known)


def test_uuid_memory_wiring_and_pairing_come_together(host: TreeBuilder, nvml: Nvml) -> None:
    report = report_of(discover(host.root, nvml))
    assert [gpu.uuid for gpu in report.gpus] == [uuid_of(0), uuid_of(1)]
    assert {gpu.uuid_source for gpu in report.gpus} == {UuidSource.NVML}
    assert [gpu.memory_bytes for gpu in report.gpus] == [80 * 2**30] * 2
    assert [slot.nic for slot in report.slots] == ["0000:2a:00.0", "0000:2b:00.0"]
    assert [slot.nic_mode for slot in report.slots] == [DeviceMode.EXCLUSIVE] * 2
    assert [slot.cpuset for slot in report.slots] == ["0-7", "8-15"]
    assert fact(report, PCI[0], "iommu_group").value == "10"
    assert fact(report, PCI[0], "driver").value == "nvidia"
    assert fact(report, PCI[0], "device_serial").value == f"{0xABC000:016x}"
    assert fact(report, None, "numa0_hugepages_2048k_free").value == "1000"
    assert fact(report, None, "iommu").value == "2 groups"
    assert fact(report, None, "kvm").presence is Presence.ABSENT


def test_nvlinks_through_switches_make_one_domain(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    host.device("0000:05:00.0", trees.NVSWITCH, trees.NVIDIA)
    fake.change({f"gpu.*.link.{n}": "00000000:05:00.0 2" for n in range(18)})
    report = report_of(discover(host.root, nvml))
    assert {gpu.nvlink_domain for gpu in report.gpus} == {"nvlink-0"}
    assert [(link.to, link.count) for link in report.nvlinks] == [(gpu, 18) for gpu in PCI]
    assert fact(report, PCI[0], "nvlinks_active").value == "18"


CLUSTER = "0123456789abcdef0123456789abcdef"


def test_the_domain_that_a_host_shares_with_others_is_told_of_each_gpu(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    fake.change({"gpu.*.fabric": f"{CLUSTER} 7 3 0"})
    report = report_of(discover(host.root, nvml))
    cluster = "01234567-89ab-cdef-0123-456789abcdef"
    assert [gpu.fabric for gpu in report.gpus] == [GpuFabric(Presence.PRESENT, cluster, 7)] * 2
    assert fact(report, PCI[0], "nvlink_fabric").value == f"{cluster}.7"
    assert "fabric_not_common" not in codes(report)


@pytest.mark.parametrize("second", [f"{CLUSTER} 8 3 0", f"{CLUSTER} 7 2 0", f"{'0' * 32} 0 3 0"])
def test_gpus_that_are_not_all_in_one_domain_are_a_finding(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, second: str
) -> None:
    fake.change({"gpu.0.fabric": f"{CLUSTER} 7 3 0", "gpu.1.fabric": second})
    assert "fabric_not_common" in codes(report_of(discover(host.root, nvml)))


def test_without_the_library_nobody_has_looked_for_a_domain(host: TreeBuilder) -> None:
    assert [gpu.fabric for gpu in report_of(discover(host.root)).gpus] == [None, None]


def test_a_nic_or_a_disk_that_shares_its_iommu_group_is_found_too(host: TreeBuilder) -> None:
    host.device("0000:41:00.0", trees.NVME, trees.SAMSUNG, group=20)
    host.device("0000:42:00.0", trees.ETHERNET, trees.MELLANOX, group=20)
    host.device("0000:42:00.1", trees.ETHERNET, trees.MELLANOX, group=20)
    virtual = host.device("0000:42:00.2", trees.ETHERNET, trees.MELLANOX, group=20)
    (virtual / "physfn").symlink_to("../0000:42:00.0")
    report = report_of(discover(host.root))
    others = {
        one.device: (one.value or "").split()
        for one in report.facts
        if one.name == "iommu_group_others" and one.value is not None
    }
    # A second port is a device of its own; a virtual function ends where its card is given away.
    assert others == {
        "0000:41:00.0": ["0000:42:00.0", "0000:42:00.1", "0000:42:00.2"],
        "0000:42:00.0": ["0000:41:00.0", "0000:42:00.1"],
        "0000:42:00.1": ["0000:41:00.0", "0000:42:00.0", "0000:42:00.2"],
    }


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ({f"gpu.0.link.{n}": "00000000:05:00.0 2" for n in range(17)} | {"gpu.0.link.17": "down"},
         "nvlink_down"),
        ({"gpu.0.ecc": "0"}, "ecc_off"),
        ({"gpu.0.ecc": "1 0"}, "ecc_mode_pending"),
        ({"gpu.0.mig": "0 1"}, "mig_mode_pending"),
        ({"gpu.0.remapped": "0 1 1 0"}, "gpu_row_remap_pending"),
        ({"gpu.0.remapped": "0 1 0 1"}, "gpu_row_remap_failed"),
        *(({"gpu.0.field.230": f"1 {n}"}, "gpu_recovery_required") for n in (*range(1, 8), 42)),
        ({"gpu.1.uuid": uuid_of(0)}, "gpu_uuid_duplicate"),
        ({"gpu.1.pci": "00000000:1A:00.0"}, "duplicate_device"),
        ({"gpu.0.pci": "00000000:77:00.0"}, "gpu_not_on_bus"),
        ({"error.0.nvmlDeviceGetHandleByIndex_v2": "15"}, "gpu_unreadable"),
        ({"count": "1"}, "gpu_not_in_library"),
        ({"gpu.0.memory": "0"}, "gpu_memory_unknown"),
    ],
)  # fmt: skip
def test_what_somebody_should_look_at_is_a_finding_of_that_gpu_alone(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, lines: dict[str, str | None], code: str
) -> None:
    usual = codes(report_of(discover(host.root, nvml)))
    fake.change(lines)
    report = report_of(discover(host.root, nvml))
    assert code in codes(report) - usual
    assert len(report.slots) >= 2


@pytest.mark.parametrize("gpus", [0, 1, 16])
def test_any_number_of_gpus_makes_so_many_slots(
    tmp_path: Path, fake: FakeNvml, nvml: Nvml, gpus: int
) -> None:
    tree = TreeBuilder(tmp_path / "root")
    tree.numa(0, "0-63")
    fake.play(gpus=gpus)
    for number in range(gpus):
        tree.device(f"0000:{0x1A + number:02x}:00.0", trees.GPU, trees.NVIDIA, driver="nvidia")
    report = report_of(discover(tree.root, nvml))
    assert [slot.gpu_uuid for slot in report.slots] == [uuid_of(n) for n in range(gpus)]
    assert ("no_gpu" in codes(report)) is (gpus == 0)


def test_a_link_that_is_down_joins_nothing(host: TreeBuilder, fake: FakeNvml, nvml: Nvml) -> None:
    fake.change({"gpu.0.link.0": "down", "gpu.1.link.0": "down"})
    report = report_of(discover(host.root, nvml))
    assert {gpu.nvlink_domain for gpu in report.gpus} == {None}
    assert fact(report, PCI[0], "nvlinks_active").value == "0"


def test_without_the_library_gpus_are_there_and_their_uuids_unknown(host: TreeBuilder) -> None:
    report = report_of(discover(host.root))
    assert [gpu.pci for gpu in report.gpus] == list(PCI)
    assert [gpu.uuid for gpu in report.gpus] == [None, None]
    assert fact(report, PCI[0], "uuid").presence is Presence.UNKNOWN
    assert fact(report, PCI[0], "uuid").reason == "not_asked"


def test_a_gpu_held_by_a_machine_keeps_the_uuid_that_was_read_before(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    memory = GpuMemory(tmp_path / "gpus.json")
    before = report_of(discover(host.root, nvml, memory))
    host.rebind(PCI[1], "vfio-pci")
    fake.change({"count": "1"})
    after = report_of(discover(host.root, nvml, GpuMemory(tmp_path / "gpus.json")))
    assert [slot.gpu_uuid for slot in after.slots] == [slot.gpu_uuid for slot in before.slots]
    assert after.gpus[1].uuid_source is UuidSource.REMEMBERED
    assert after.gpus[1].memory_bytes == 80 * 2**30
    assert "gpu_uuid_remembered" in codes(after)
    sight = observe_devices(after, host.root, nvml, memory)
    assert [gpu.presence for gpu in sight.devices.gpus] == [Presence.PRESENT] * 2
    assert sight.conditions == ()


def test_another_card_at_the_address_is_not_taken_for_the_remembered_one(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path
) -> None:
    memory = GpuMemory(tmp_path / "gpus.json")
    discover(host.root, nvml, memory)
    (host.paths[PCI[1]] / "config").write_bytes(trees.config_space(0xDEF))
    host.rebind(PCI[1], "vfio-pci")
    fake.change({"count": "1"})
    report = report_of(discover(host.root, nvml, memory))
    assert report.gpus[1].uuid is None
    assert fact(report, PCI[1], "uuid").reason == "driver_vfio"


def test_a_damaged_memory_is_as_none(host: TreeBuilder, nvml: Nvml, tmp_path: Path) -> None:
    for content in ("{", "[1]", '[{"pci": 1}]', '{"a": 2}'):
        (tmp_path / "gpus.json").write_text(content)
        memory = GpuMemory(tmp_path / "gpus.json")
        assert report_of(discover(host.root, None, memory)).gpus[0].uuid is None


def test_the_disk_of_the_host_is_given_to_nobody(host: TreeBuilder) -> None:
    base = host.paths["0000:40:00.0"].relative_to(host.root).as_posix()
    host.write(f"{base}/nvme/nvme0/model", "A disk")
    host.write(f"{base}/nvme/nvme0/nvme0n1/size", "2000")
    free = report_of(discover(host.root))
    assert (free.nvmes[0].size_bytes, free.nvmes[0].reserved) == (1_024_000, False)
    assert free.slots[0].nvme == "0000:40:00.0"
    host.write("proc/mounts", "/dev/nvme0n1p2 / ext4 rw 0 0")
    report = report_of(discover(host.root))
    assert report.nvmes[0].reserved
    assert report.slots[0].nvme is None
    assert {"nvme_carries_host", "nvme_spare"} <= codes(report)


def test_a_disk_below_a_volume_manager_is_given_to_nobody(host: TreeBuilder) -> None:
    base = host.paths["0000:40:00.0"].relative_to(host.root).as_posix()
    host.write(f"{base}/nvme/nvme0/nvme0c0n1/size", "2000")
    host.write("sys/block/nvme0n1/size", "2000")
    host.write("sys/block/nvme0n1/nvme0n1p1/holders/dm-0", "")
    assert report_of(discover(host.root)).nvmes[0].reserved


def test_the_way_to_the_gateway_is_given_to_nobody_nor_its_second_port(host: TreeBuilder) -> None:
    nic = host.paths["0000:2a:00.0"].relative_to(host.root).as_posix()
    host.write(f"{nic}/net/eth0/speed", "100000")
    host.device("0000:2a:00.1", trees.INFINIBAND, trees.MELLANOX, above="0000:10:00.0")
    route = "bond0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0"
    host.write("proc/net/route", f"Iface Destination Gateway\n{route}")
    host.write("sys/class/net/bond0/lower_eth0", "")
    report = report_of(discover(host.root))
    assert [nic.id for nic in report.nics if nic.reserved] == ["0000:2a:00.0"]
    assert report.slots[0].nic is None
    assert "nic_carries_host" in codes(report)


def test_virtual_functions_belong_to_their_card(host: TreeBuilder) -> None:
    card = host.paths["0000:2a:00.0"]
    virtual = host.device("0000:2a:00.2", trees.INFINIBAND, trees.MELLANOX, above="0000:10:00.0")
    (virtual / "physfn").symlink_to("../0000:2a:00.0")
    (card / "virtfn0").symlink_to("../0000:2a:00.2")
    (card / "sriov_totalvfs").write_text("16\n")
    report = report_of(discover(host.root))
    assert [nic.id for nic in report.nics] == ["0000:2a:00.0", "0000:2b:00.0"]
    assert fact(report, "0000:2a:00.0", "sriov_functions").value == "0000:2a:00.2"
    assert fact(report, "0000:2a:00.0", "sriov_most").value == "16"


def test_a_gpu_that_shares_its_iommu_group_is_found(host: TreeBuilder) -> None:
    host.device("0000:50:00.0", "0x0c0330", "0x8086", group=10)
    report = report_of(discover(host.root))
    assert fact(report, PCI[0], "iommu_group_others").value == "0000:50:00.0"
    assert "iommu_group_shared" in codes(report)


def test_a_link_out_of_the_root_is_not_followed(host: TreeBuilder, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0x10de\n")
    (host.paths[PCI[0]] / "subsystem_vendor").unlink()
    (host.paths[PCI[0]] / "subsystem_vendor").symlink_to(secret)
    (host.root / "proc").mkdir(exist_ok=True)
    (host.root / "proc/mounts").symlink_to(secret)
    report = report_of(discover(host.root))
    assert len(report.gpus) == 2
    assert "0x10de" not in str(report.to_json())


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "99999999999999999999", "\x00\xff"])
def test_one_unreadable_file_costs_only_what_it_would_have_told(
    host: TreeBuilder, content: str
) -> None:
    for name in ("numa_node", "max_link_speed", "max_link_width", "device", "subsystem_device"):
        (host.paths[PCI[0]] / name).write_text(content)
    report = report_of(discover(host.root))
    assert [gpu.pci for gpu in report.gpus] == list(PCI)
    assert report.gpus[0].link_mbps is None
    assert report.gpus[1].link_mbps is not None


def test_a_host_with_nothing_to_read_is_an_empty_host(tmp_path: Path) -> None:
    report = report_of(discover(tmp_path))
    assert report.gpus == ()
    assert {"no_gpu", "numa_implied", "cpuset_unknown"} <= codes(report)


def test_a_vanished_gpu_is_absent_and_a_silent_library_is_unknown(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    report = report_of(discover(host.root, nvml))
    host.remove(PCI[1])
    fake.change({"count": "1"})
    gone = observe_devices(report, host.root, nvml)
    assert [gpu.presence for gpu in gone.devices.gpus] == [Presence.PRESENT, Presence.ABSENT]
    assert [c.code for c in gone.conditions] == ["device_missing"]
    fake.change({"error.nvmlInitWithFlags": "9"})
    silent = observe_devices(report, host.root, nvml)
    assert silent.devices.gpus[0].presence is Presence.UNKNOWN
    assert "driver_not_loaded" in silent.conditions[0].detail


def test_a_lost_gpu_is_unknown_not_absent(host: TreeBuilder, fake: FakeNvml, nvml: Nvml) -> None:
    report = report_of(discover(host.root, nvml))
    fake.change({"error.1.nvmlDeviceGetHandleByIndex_v2": "15"})
    sight = observe_devices(report, host.root, nvml)
    assert [gpu.presence for gpu in sight.devices.gpus] == [Presence.PRESENT, Presence.UNKNOWN]
    assert [c.code for c in sight.conditions] == ["gpu_lost"]


def test_a_gpu_that_asks_for_a_reset_is_a_condition(
    host: TreeBuilder, fake: FakeNvml, nvml: Nvml
) -> None:
    report = report_of(discover(host.root, nvml))
    fake.change({"gpu.1.field.230": "1 1", "gpu.0.remapped": "1 2 0 1"})
    sight = observe_devices(report, host.root, nvml)
    assert [(c.code, c.device) for c in sight.conditions] == [
        ("gpu_row_remap_failed", uuid_of(0)),
        ("gpu_recovery_required", uuid_of(1)),
    ]


def test_amd_cards_are_named_by_their_library_where_there_is_one(
    host: TreeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.device("0000:60:00.0", "0x120000", trees.AMD, numa=0)
    without = report_of(discover(host.root))
    assert fact(without, "0000:60:00.0", "uuid").reason == "library_missing"
    library = types.ModuleType("amdsmi")
    answers = {
        "amdsmi_init": None,
        "amdsmi_shut_down": None,
        "amdsmi_get_processor_handles": ["handle"],
        "amdsmi_get_gpu_device_bdf": "0000:60:00.0",
        "amdsmi_get_gpu_device_uuid": "deadbeef-0000-1000-8000-0123456789ab",
        "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196_592},
        "amdsmi_get_xgmi_info": {"xgmi_hive_id": "0x1f"},
    }
    for name, answer in answers.items():
        monkeypatch.setattr(library, name, lambda *_, answer=answer: answer, raising=False)
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    gpu = report_of(discover(host.root)).gpus[2]
    assert (gpu.uuid, gpu.uuid_source) == (
        "deadbeef-0000-1000-8000-0123456789ab",
        UuidSource.AMDSMI,
    )
    assert (gpu.model, gpu.nvlink_domain) == ("AMD Instinct MI300X", "xgmi-0x1f")
    assert gpu.memory_bytes == 196_592 * 2**20

    def broken(*_: object) -> None:
        raise RuntimeError("AMDSMI_STATUS_NOT_INIT")

    monkeypatch.setattr(library, "amdsmi_get_gpu_device_uuid", broken)
    assert report_of(discover(host.root)).gpus[2].uuid is None
