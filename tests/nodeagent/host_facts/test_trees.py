"""Does every odd file of a kernel become the right record, and cost nothing beside it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.discovery import discover
from nodeagent.protocol import Presence, TopologyReport
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.trees import TreeBuilder, config_space

P, A, U = Presence.PRESENT, Presence.ABSENT, Presence.UNKNOWN
GPU, NIC, DISK = "0000:1a:00.0", "0000:2a:00.0", "0000:40:00.0"
NODE, HUGE = "sys/devices/system/node/node0", "sys/devices/system/node/node0/hugepages"
CPU = "sys/devices/system/cpu"
NVME = "@0000:40:00.0/nvme/nvme0"

# fmt: off
# (what, files and what is in them (None: taken away), device, fact, presence, value or reason).
# A place that begins with @ is in a device's folder.
FILES: list[tuple[str, dict[str, str | None], str | None, str, Presence, object]] = [
    ("a driver", {}, GPU, "driver", P, "nvidia"),
    ("no driver", {"@0000:1a:00.0/driver": None}, GPU, "driver", A, "no_link"),
    ("a driver that is a file", {"@0000:1a:00.0/driver": "nvidia"}, GPU, "driver", U, "io_error"),
    ("an IOMMU group", {}, GPU, "iommu_group", P, "10"),
    ("no IOMMU", {"@0000:1a:00.0/iommu_group": None}, GPU, "iommu_group", A, "no_link"),
    ("no IOMMU, and so no company", {"@0000:1a:00.0/iommu_group": None}, GPU,
     "iommu_group_others", A, "no_link"),
    ("a group alone", {}, GPU, "iommu_group_others", A, "alone"),
    ("a serial number", {}, GPU, "device_serial", P, f"{0xABC:016x}"),
    ("a link of a known speed", {}, GPU, "link_mbps", P, "504123"),
    ("a link of no speed", {"@0000:1a:00.0/max_link_speed": "Unknown"}, GPU, "link_mbps", U,
     "not_told"),
    ("a link without lanes", {"@0000:1a:00.0/max_link_width": "0"}, GPU, "link_mbps", U,
     "not_told"),
    ("a link of all lanes", {"@0000:1a:00.0/max_link_width": "255"}, GPU, "link_mbps", U,
     "not_told"),
    ("a link of an older driver", {"@0000:1a:00.0/max_link_speed": "16 GT/s"}, GPU, "link_mbps",
     P, "252061"),
    ("a link not told", {"@0000:1a:00.0/max_link_speed": None}, GPU, "link_mbps", U, "not_told"),
    ("functions not to be counted", {"@0000:2a:00.0/sriov_totalvfs": "many"}, NIC, "sriov_most",
     U, "not_a_number"),
    ("functions below nothing", {"@0000:2a:00.0/sriov_totalvfs": "-1"}, NIC, "sriov_most", U,
     "sentinel"),
    ("no functions", {}, NIC, "sriov_most", A, "no_file"),
    ("sixteen functions", {"@0000:2a:00.0/sriov_totalvfs": "16"}, NIC, "sriov_most", P, "16"),
    ("a NIC without its driver", {}, NIC, "nic_names", U, "no_driver"),
    ("a NIC of two ports", {"@0000:2a:00.0/net/eth1/speed": "100", "@0000:2a:00.0/net/eth0/speed":
     "100"}, NIC, "nic_names", P, "eth0 eth1"),
    ("a disk's model", {f"{NVME}/model": "A disk"}, DISK, "nvme_model", P, "A disk"),
    ("a disk without a model", {f"{NVME}/model": ""}, DISK, "nvme_model", U, "empty"),
    ("a disk without a serial number", {f"{NVME}/model": "A disk"}, DISK, "nvme_serial", A,
     "no_file"),
    ("a disk held by a machine", {}, DISK, "nvme_model", U, "driver_vfio"),
    ("a disk without a namespace", {f"{NVME}/model": "A disk"}, DISK, "nvme_blocks", U,
     "driver_vfio"),
    ("a disk of two namespaces", {f"{NVME}/nvme0n1/size": "8", f"{NVME}/nvme0n2/size": "8"}, DISK,
     "nvme_blocks", P, "nvme0n1 nvme0n2"),
    ("huge pages", {f"{HUGE}/hugepages-2048kB/nr_hugepages": "512"}, None,
     "numa0_hugepages_2048k_total", P, "512"),
    ("huge pages that nobody counts", {f"{HUGE}/hugepages-2048kB/nr_hugepages": "x"}, None,
     "numa0_hugepages_2048k_total", U, "not_a_number"),
    ("huge pages half told", {f"{HUGE}/hugepages-1048576kB/nr_hugepages": "4"}, None,
     "numa0_hugepages_1048576k_free", A, "no_file"),
    ("distances", {}, None, "numa0_distances", P, "10 21"),
    ("no distances", {f"{NODE}/distance": None}, None, "numa0_distances", A, "no_file"),
    ("an empty distance", {f"{NODE}/distance": ""}, None, "numa0_distances", A, "empty"),
    ("CPUs online", {f"{CPU}/online": "0-7"}, None, "cpus_online", P, "0-7"),
    ("no isolated CPUs", {f"{CPU}/isolated": ""}, None, "cpus_isolated", A, "empty"),
    ("isolated CPUs", {f"{CPU}/isolated": "2-7"}, None, "cpus_isolated", P, "2-7"),
    ("no control group", {}, None, "cpus_effective", A, "no_file"),
    ("a CPU's name", {"proc/cpuinfo": "model name\t: A CPU\nflags\t: fpu vmx"}, None, "cpu_model",
     P, "A CPU"),
    ("a CPU without a name", {"proc/cpuinfo": "processor: 0"}, None, "cpu_model", U, "not_told"),
    ("Intel's virtualisation", {"proc/cpuinfo": "flags\t: fpu vmx"}, None, "cpu_virtualisation",
     P, "yes"),
    ("AMD's virtualisation", {"proc/cpuinfo": "flags\t: svm fpu"}, None, "cpu_virtualisation", P,
     "yes"),
    ("virtualisation off in the firmware", {"proc/cpuinfo": "flags\t: fpu"}, None,
     "cpu_virtualisation", U, "not_told"),
    ("KVM", {"dev/kvm": ""}, None, "kvm", P, "yes"),
    ("no KVM", {}, None, "kvm", A, "no_device"),
    ("vfio-pci loaded", {"sys/module/vfio_pci/version": "1"}, None, "vfio_pci", P, "yes"),
    ("vfio-pci not loaded", {}, None, "vfio_pci", A, "not_loaded"),
    ("NVIDIA's driver", {"sys/module/nvidia/version": "550.90.07"}, None, "nvidia_driver", P,
     "550.90.07"),
    ("no driver of NVIDIA's", {}, None, "nvidia_driver", A, "no_file"),
    ("a fabric manager", {"run/nvidia-fabricmanager/nv-fabricmanager.pid": "7"}, None,
     "fabric_manager", P, "running"),
    ("a fabric manager that has ended", {"run/nvidia-fabricmanager/log": ""}, None,
     "fabric_manager", A, "no_pid_file"),
    ("a CPU that is named by number", {"proc/cpuinfo":
     "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\nprocessor : 1"}, None,
     "cpu_model", P, "implementer 0x41 part 0xd4f"),
    ("a node that no kernel counts", {"sys/devices/system/node/node9999/cpulist": "0"}, None,
     "numa0_distances", P, "10 21"),
    ("a gigabyte's pages on one node", {f"{HUGE}/hugepages-1048576kB/nr_hugepages": "16",
     f"{HUGE}/hugepages-1048576kB/free_hugepages": "0"}, None, "numa0_hugepages_1048576k_free", P,
     "0"),
    ("no fabric manager", {}, None, "fabric_manager", A, "no_pid_file"),
    ("the IOMMU on", {}, None, "iommu", P, "1 groups"),
    ("the IOMMU off", {"sys/kernel/iommu_groups/10": None}, None, "iommu", A, "no_groups"),
    ("a kernel", {"proc/sys/kernel/osrelease": "6.1.0"}, None, "kernel", P, "6.1.0"),
    ("a board", {"sys/class/dmi/id/product_name": "DGX H100"}, None, "product_name", P,
     "DGX H100"),
    ("a board that is not told", {}, None, "product_name", A, "no_file"),
    ("a firmware of blanks", {"sys/class/dmi/id/bios_version": "  "}, None, "bios_version", A,
     "empty"),
    ("a firmware that is no text", {"sys/class/dmi/id/bios_version": "\x01\x02"}, None,
     "bios_version", U, "unreadable_text"),
]
# (what, the configuration space, presence, value or reason of the serial number)
SPACES: list[tuple[str, bytes, Presence, object]] = [
    ("an agent without rights", config_space(0xABC)[:64], U, "no_permission"),
    ("a legacy device", config_space(0xABC)[:256], U, "no_permission"),
    ("a card that fell off the bus", b"\xff" * 4096, U, "no_answer"),
    ("no extended capability", bytes(4096), A, "not_supported"),
    ("a serial number of zeros", config_space(0), U, "sentinel"),
    ("a serial number of all ones", config_space(2**64 - 1), U, "sentinel"),
    ("a chain that leads back to itself",
     bytes(256) + (0x100 << 20 | 1 << 16 | 1).to_bytes(4, "little") + bytes(3836), U,
     "broken_chain"),
    ("a chain that leads out",
     bytes(256) + (0xFFC << 20 | 1 << 16 | 1).to_bytes(4, "little") + bytes(3836), U,
     "broken_chain"),
]
# fmt: on


@pytest.fixture
def tree(tmp_path: Path) -> TreeBuilder:
    """One GPU, one NIC and one disk, as a plain host's kernel shows them."""
    made = TreeBuilder(tmp_path / "root")
    made.numa(0, "0-7")
    made.device(GPU, trees.GPU, trees.NVIDIA, driver="nvidia", group=10, serial=0xABC)
    made.device(NIC, trees.ETHERNET, trees.MELLANOX)
    made.device(DISK, trees.NVME, trees.SAMSUNG, driver="vfio-pci")
    return made


def read(tree: TreeBuilder) -> TopologyReport:
    """What would be sent, read back as the control plane reads it."""
    return TopologyReport.from_json(topology_report(discover(tree.root), "host").to_json())


def put(tree: TreeBuilder, place: str, content: str | None) -> None:
    """A file as the scenario has it."""
    path = tree.root / place
    if place.startswith("@"):
        address, _, rest = place[1:].partition("/")
        path = tree.paths[address] / rest
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        path.rmdir()
    if content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


@pytest.mark.parametrize(
    ("files", "device", "name", "presence", "expected"),
    [pytest.param(*rest, id=what) for what, *rest in FILES],
)
def test_a_file_becomes_its_record(
    tree: TreeBuilder,
    files: dict[str, str | None],
    device: str | None,
    name: str,
    presence: Presence,
    expected: object,
) -> None:
    for place, content in files.items():
        put(tree, place, content)
    report = read(tree)
    (fact,) = [one for one in report.facts if (one.device, one.name) == (device, name)]
    assert (fact.presence, fact.value if presence is P else fact.reason) == (presence, expected)
    assert (len(report.gpus), len(report.nics), len(report.nvmes)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("space", "presence", "expected"), [pytest.param(*rest, id=what) for what, *rest in SPACES]
)
def test_a_configuration_space_becomes_its_serial_number(
    tree: TreeBuilder, space: bytes, presence: Presence, expected: object
) -> None:
    (tree.paths[GPU] / "config").write_bytes(space)
    (fact,) = [one for one in read(tree).facts if (one.device, one.name) == (GPU, "device_serial")]
    assert (fact.presence, fact.reason) == (presence, expected)


def test_there_are_enough_scenarios() -> None:
    names = [what for what, *_ in FILES] + [what for what, *_ in SPACES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
