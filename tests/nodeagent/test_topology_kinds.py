"""Is a topology file that nobody has seen before read by its structure?"""

from __future__ import annotations

import pytest

from nodeagent.protocol import DeviceMode, NicKind, TopologyReport
from nodeagent.topology.cpus import parse_mask
from nodeagent.topology.errors import TopologyError
from nodeagent.topology.load import load_topology
from nodeagent.topology.slots import topology_report

SWITCH = '<pci busid="{0}" class="0x060400">{1}</pci>'
GPU = '<pci busid="{0}" class="0x030200"/>'
NIC = '<pci busid="{0}" class="0x020700"/>'
ETHERNET = '<pci busid="{0}" class="0x020000"/>'
NVME = '<pci busid="{0}" class="0x010802"/>'


def nccl(*cpus: str) -> TopologyReport:
    """The report of an NCCL file with these cpu elements."""
    text = f'<system version="1">{"".join(cpus)}</system>'
    return topology_report(load_topology(text.encode()), "host")


def cpu(number: int, *inside: str, mask: str = "ff") -> str:
    """A NUMA node; by default with eight CPUs of its own."""
    affinity = mask + ",00000000" * number
    return f'<cpu numaid="{number}" affinity="{affinity}">{"".join(inside)}</cpu>'


def hwloc(inside: str, version: str = ' version="2.0"', machine: str = "") -> TopologyReport:
    """The report of an hwloc file with this inside its machine."""
    text = (
        f'<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc.dtd"><topology{version}>'
        f'<object type="Machine" {machine}>{inside}</object></topology>'
    )
    return topology_report(load_topology(text.encode()), "host")


def given(report: TopologyReport) -> list[tuple[str | None, str]]:
    """NIC and mode per slot."""
    return [(slot.nic, slot.nic_mode.value) for slot in report.slots]


def found(report: TopologyReport, code: str) -> list[str | None]:
    """Devices of the findings with a code."""
    return [finding.device for finding in report.findings if finding.code == code]


def test_gpus_and_nics_below_nested_switches_meet_at_the_nearest_one() -> None:
    left = SWITCH.format(
        "0000:01:00.0",
        SWITCH.format("0000:02:00.0", GPU.format("0000:03:00.0"))
        + SWITCH.format("0000:04:00.0", NIC.format("0000:05:00.0")),
    )
    right = SWITCH.format("0000:11:00.0", GPU.format("0000:13:00.0") + NIC.format("0000:12:00.0"))
    report = nccl(cpu(0, SWITCH.format("0000:00:01.0", left + right)))
    assert given(report) == [("0000:05:00.0", "exclusive"), ("0000:12:00.0", "exclusive")]
    assert {switch.id: switch.parent for switch in report.switches} == {
        "0000:00:01.0": None,
        "0000:01:00.0": "0000:00:01.0",
        "0000:11:00.0": "0000:00:01.0",
    }
    assert [slot.switch for slot in report.slots] == ["0000:01:00.0", "0000:11:00.0"]


def test_devices_right_below_a_numa_node_pair_there() -> None:
    report = nccl(
        cpu(0, GPU.format("0001:00:00.0"), NIC.format("0101:00:00.0")),
        cpu(1, GPU.format("0002:00:00.0"), NIC.format("0102:00:00.0")),
    )
    assert given(report) == [("0101:00:00.0", "exclusive"), ("0102:00:00.0", "exclusive")]
    assert report.switches == ()


def test_two_nics_for_each_gpu_belong_to_its_slot() -> None:
    devices = [GPU.format("0000:10:00.0"), GPU.format("0000:11:00.0")]
    devices += [NIC.format(f"0000:2{number}:00.0") for number in range(4)]
    report = nccl(cpu(0, *devices))
    assert [(slot.nic, slot.extra_nics) for slot in report.slots] == [
        ("0000:20:00.0", ("0000:21:00.0",)),
        ("0000:22:00.0", ("0000:23:00.0",)),
    ]


def test_nics_that_do_not_divide_evenly_stay_with_the_host() -> None:
    devices = [GPU.format("0000:10:00.0"), GPU.format("0000:11:00.0")]
    devices += [NIC.format(f"0000:2{number}:00.0") for number in range(3)]
    report = nccl(cpu(0, *devices))
    assert given(report) == [("0000:20:00.0", "exclusive"), ("0000:21:00.0", "exclusive")]
    assert found(report, "nic_spare") == ["0000:22:00.0"]


def test_fewer_nics_than_gpus_are_shared_in_blocks() -> None:
    devices = [GPU.format(f"0000:1{number}:00.0") for number in range(4)]
    devices += [NIC.format("0000:20:00.0"), NIC.format("0000:21:00.0")]
    report = nccl(cpu(0, *devices))
    assert given(report) == [
        ("0000:20:00.0", "shared"),
        ("0000:20:00.0", "shared"),
        ("0000:21:00.0", "shared"),
        ("0000:21:00.0", "shared"),
    ]


def test_an_ethernet_port_beside_a_fabric_card_is_not_handed_out() -> None:
    devices = GPU.format("0000:10:00.0") + ETHERNET.format("0000:11:00.0")
    report = nccl(cpu(0, SWITCH.format("0000:01:00.0", devices), NIC.format("0000:20:00.0")))
    assert given(report) == [("0000:20:00.0", "exclusive")]
    assert found(report, "nic_spare") == ["0000:11:00.0"]


def test_the_functions_of_one_card_are_never_split() -> None:
    report = nccl(
        cpu(
            0,
            GPU.format("0000:10:00.0"),
            GPU.format("0000:11:00.0"),
            NIC.format("0000:20:00.0"),
            NIC.format("0000:20:00.1"),
        )
    )
    assert given(report) == [("0000:20:00.0", "shared")] * 2


def test_a_nic_in_another_numa_node_is_not_given() -> None:
    report = nccl(cpu(0, GPU.format("0000:10:00.0")), cpu(1, NIC.format("0000:20:00.0")))
    assert given(report) == [(None, "none")]
    assert found(report, "nic_spare") == ["0000:20:00.0"]


def test_nvme_devices_pair_like_nics() -> None:
    report = nccl(
        cpu(0, GPU.format("0000:10:00.0"), NVME.format("0000:12:00.0")),
        cpu(1, GPU.format("0000:11:00.0")),
    )
    assert [(slot.nvme, slot.nvme_mode) for slot in report.slots] == [
        ("0000:12:00.0", DeviceMode.EXCLUSIVE),
        (None, DeviceMode.NONE),
    ]
    assert [slot.nic_mode for slot in report.slots] == [DeviceMode.UNKNOWN] * 2


def test_what_a_device_contains_is_stronger_than_its_class() -> None:
    report = nccl(
        cpu(
            0,
            '<pci busid="0000:10:00.0"><gpu dev="0" sm="90" rank="0" gdr="1" keep="1"/></pci>',
            '<pci busid="0000:11:00.0" class=""><nic keep="1">'
            '<net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" keep="1"/></nic></pci>',
        )
    )
    assert given(report) == [("0000:11:00.0", "exclusive")]
    nic = report.nics[0]
    assert (nic.name, nic.speed_mbps, nic.kind) == ("mlx5_0", 400_000, NicKind.UNKNOWN)


def test_a_device_of_no_class_and_no_content_is_unknown() -> None:
    report = nccl(cpu(0, '<pci busid="0000:10:00.0"/>', GPU.format("0000:11:00.0")))
    assert len(report.slots) == 1
    assert found(report, "class_unknown") == ["0000:10:00.0"]


def test_amd_gpus_are_joined_by_their_xgmi_links() -> None:
    def gpu(own: int, other: int) -> str:
        return (
            f'<pci busid="0000:0{own}:00.0" class="0x{"120000" if own == 1 else "038000"}" '
            f'vendor="0x1002" device="0x74a1"><gpu dev="{own}" gcn="gfx942" rank="{own}">'
            f'<xgmi target="0000:0{other}:00.0" count="1" tclass="0x038000"/></gpu></pci>'
        )

    report = nccl(cpu(0, gpu(1, 2), gpu(2, 1)))
    assert [slot.nvlink_domain for slot in report.slots] == ["nvlink-0", "nvlink-0"]
    assert [(link.from_, link.to, link.count) for link in report.nvlinks] == [
        ("0000:01:00.0", "0000:02:00.0", 1)
    ]


@pytest.mark.parametrize("target", ["fffffff:ffff:ff", "0000:c0:00.0"])
def test_gpus_are_joined_through_an_nvswitch(target: str) -> None:
    link = f'<nvlink target="{target}" count="18" tclass="0x068000"/>'
    gpus = [
        f'<pci busid="0000:0{number}:00.0" class="0x030200"><gpu dev="{number}">{link}</gpu></pci>'
        for number in range(3)
    ]
    report = nccl(cpu(0, *gpus))
    assert {slot.nvlink_domain for slot in report.slots} == {"nvlink-0"}
    assert [one.count for one in report.nvlinks] == [18, 18, 18]


def test_an_nvlink_to_nowhere_is_reported_and_not_used() -> None:
    link = '<nvlink target="0000:99:00.0" count="4" tclass="0x030200"/>'
    gpu = f'<pci busid="0000:01:00.0" class="0x030200"><gpu dev="0">{link}</gpu></pci>'
    report = nccl(cpu(0, gpu))
    assert found(report, "nvlink_target_unknown") == ["0000:01:00.0"]
    assert report.nvlinks == ()


def test_a_display_of_another_vendor_and_other_accelerators_are_no_gpus() -> None:
    report = nccl(
        cpu(
            0,
            '<pci busid="0000:01:00.0" class="0x030000" vendor="0x1a03"/>',
            '<pci busid="0000:02:00.0" class="0x120000" vendor="0x1d0f"/>',
            '<pci busid="0000:03:00.0" class="0x068000" vendor="0x10de"/>',
            GPU.format("0000:04:00.0"),
        )
    )
    assert [gpu.pci for gpu in report.gpus] == ["0000:04:00.0"]
    assert [one.pci for one in report.nvswitches] == ["0000:03:00.0"]


def test_a_second_device_at_one_address_is_ignored() -> None:
    report = nccl(cpu(0, GPU.format("0000:01:00.0")), cpu(1, GPU.format("0000:01:00.0")))
    assert len(report.slots) == 1
    assert found(report, "duplicate_device") == ["0000:01:00.0"]


def test_virtual_switches_with_one_address_stay_apart() -> None:
    inside = [GPU.format("0001:00:00.0") + NIC.format("0101:00:00.0")]
    inside += [GPU.format("0002:00:00.0") + NIC.format("0102:00:00.0")]
    report = nccl(*(cpu(i, SWITCH.format("ffff:ff:01.0", part)) for i, part in enumerate(inside)))
    assert len(report.switches) == 2
    assert given(report) == [("0101:00:00.0", "exclusive"), ("0102:00:00.0", "exclusive")]


def test_the_only_cpu_element_without_a_number_is_node_zero() -> None:
    report = nccl('<cpu numaid="-1" affinity="f">' + GPU.format("0000:01:00.0") + "</cpu>")
    assert [node.id for node in report.numa] == [0]
    assert [(slot.numa, slot.cpuset) for slot in report.slots] == [(0, "0-3")]
    assert found(report, "numa_implied") == [None]


def test_numa_nodes_that_claim_the_same_cpus_leave_them_unknown() -> None:
    parts = [
        f'<cpu numaid="{i}" affinity="ff">{GPU.format(f"0000:0{i + 1}:00.0")}</cpu>' for i in (0, 1)
    ]
    report = nccl(*parts)
    assert [slot.cpuset for slot in report.slots] == [None, None]
    assert len(found(report, "cpu_overlap")) == 2


def test_addresses_are_made_uniform() -> None:
    report = nccl(cpu(0, GPU.format("00000000:0A:1c.0"), NIC.format("0B:00.0")))
    assert report.gpus[0].pci == "0000:0a:1c.0"
    assert report.slots[0].nic == "0000:0b:00.0"


def test_a_device_without_a_readable_address_still_counts_and_says_so() -> None:
    report = nccl(cpu(0, GPU.format("nonsense"), GPU.format(""), NIC.format("0000:02:00.0")))
    assert [gpu.pci for gpu in report.gpus] == [None, None]
    assert len(found(report, "pci_unknown")) == 2
    assert given(report) == [("0000:02:00.0", "shared")] * 2


def test_a_file_about_several_hosts_is_refused() -> None:
    cpus = [f'<cpu numaid="0" host_hash="0x{number}"/>' for number in (1, 2)]
    with pytest.raises(TopologyError) as error:
        nccl(*cpus)
    assert error.value.code == "topology_several_hosts"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("00000000,00000000,00ffffff", frozenset(range(24))),
        ("ff,00000000", frozenset(range(32, 40))),
        ("0x00000003", frozenset({0, 1})),
        ("0x0000000f,,0x1", frozenset({0, 64, 65, 66, 67})),
        ("ffffffffffffffff", frozenset(range(64))),
        ("0", frozenset()),
        ("", None),
        (None, None),
        ("xyz", None),
        ("0xf...f,0x1", None),
        ("1ffffffff,0", None),
        (",".join(["ffffffff"] * 600), None),
    ],
)
def test_masks_are_read_in_every_form(text: str | None, cpus: frozenset[int] | None) -> None:
    assert parse_mask(text) == cpus


NODE = '<object type="NUMANode" os_index="{0}" cpuset="{1}" nodeset="{2}" local_memory="{3}"/>'
DEVICE = '<object type="PCIDev" pci_busid="{0}" pci_type="{1}" pci_link_speed="15.75">{2}</object>'
NVML = (
    '<object type="OSDev" name="nvml0" osdev_type="1"><info name="Backend" value="NVML"/>'
    '<info name="GPUModel" value="{0}"/><info name="NVIDIAUUID" value="{1}"/></object>'
)


def test_an_old_file_without_numa_is_one_node() -> None:
    inside = DEVICE.format("0000:01:00.0", "0302 [10de:20b0] [0:0] a1 00", "")
    inside += DEVICE.format("0000:02:00.0", "0108 [144d:a808] [144d:a801] 00", "")
    report = hwloc(
        inside, version="", machine='os_index="0" cpuset="0xf" local_memory="8589934592"'
    )
    assert [(node.id, node.cpuset, node.memory_bytes) for node in report.numa] == [
        (0, "0-3", 8_589_934_592)
    ]
    slot = report.slots[0]
    assert (slot.numa, slot.cpuset, slot.nvme) == (0, "0-3", "0000:02:00.0")
    assert {"gpu_uuid_unknown", "gpu_model_unknown"} <= {one.code for one in report.findings}


def test_an_old_file_nests_devices_inside_numa_nodes() -> None:
    inside = "".join(
        f'<object type="NUMANode" os_index="{number}" cpuset="0x{3 << 2 * number:x}" '
        f'nodeset="0x{1 << number:x}" local_memory="4294967296">'
        + DEVICE.format(f"0000:0{number + 1}:00.0", "0302 [10de:20b0] [0:0] a1 00", "")
        + "</object>"
        for number in range(2)
    )
    report = hwloc(inside, version="")
    assert [(slot.numa, slot.cpuset) for slot in report.slots] == [(0, "0-1"), (1, "2-3")]


def test_operating_system_devices_name_nics_disks_and_gpus() -> None:
    fabric = '<object type="OSDev" name="mlx5_0" osdev_type="3"/>'
    fabric += '<object type="OSDev" name="ib0" osdev_type="2"/>'
    disk = '<object type="OSDev" name="nvme0n1" osdev_type="0"><info name="Size" value="1000"/>'
    inside = NODE.format(0, "0xff", "0x1", 0)
    inside += DEVICE.format(
        "0000:01:00.0", "0302 [10de:20b0] [0:0] a1 00", NVML.format("A100", "GPU-1234-5678")
    )
    inside += DEVICE.format("0000:02:00.0", "0200 [15b3:101b] [0:0] 00 00", fabric)
    inside += DEVICE.format("0000:03:00.0", "0108 [144d:a80a] [0:0] 00 00", disk + "</object>")
    report = hwloc(inside, machine='cpuset="0xff" nodeset="0x1"')
    assert (report.gpus[0].uuid, report.gpus[0].model) == ("GPU-1234-5678", "A100")
    assert (report.nics[0].name, report.nics[0].kind) == ("mlx5_0", NicKind.INFINIBAND)
    assert report.nvmes[0].size_bytes == 1_024_000
    assert report.numa[0].memory_bytes is None
    slot = report.slots[0]
    assert (slot.nic, slot.nvme) == ("0000:02:00.0", "0000:03:00.0")


@pytest.mark.parametrize("value", ["N/A", "", "[N/A]", "0", "unknown", "Not Supported"])
def test_sentinels_are_unknown(value: str) -> None:
    inside = NODE.format(0, "0xff", "0x1", 1024)
    inside += DEVICE.format(
        "0000:01:00.0", "0302 [10de:20b0] [0:0] a1 00", NVML.format(value, value)
    )
    gpu = hwloc(inside).gpus[0]
    assert (gpu.uuid, gpu.model) == (None, None)


def test_ports_of_a_switch_are_not_switches_of_their_own() -> None:
    def port(address: str, device: str) -> str:
        return (
            f'<object type="Bridge" bridge_type="1-1" pci_busid="{address}" '
            f'pci_type="0604 [10b5:9781] [0:0] 00 00">{device}</object>'
        )

    ports = port("0000:02:00.0", DEVICE.format("0000:03:00.0", "0302 [10de:20b0] [0:0] a1", ""))
    ports += port("0000:02:01.0", DEVICE.format("0000:04:00.0", "0207 [15b3:101b] [0:0] 00", ""))
    bridges = '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[01-04]">{}</object>'
    inside = NODE.format(0, "0xff", "0x1", 1024)
    inside += bridges.format(port("0000:01:00.0", ports))
    report = hwloc(inside)
    assert [(switch.id, switch.parent) for switch in report.switches] == [("0000:01:00.0", None)]
    assert report.gpus[0].switch == report.nics[0].switch == "0000:01:00.0"


def test_devices_between_two_numa_nodes_have_no_place() -> None:
    inside = NODE.format(0, "0x0f", "0x1", 1024) + NODE.format(1, "0xf0", "0x2", 1024)
    inside += DEVICE.format("0000:01:00.0", "0302 [10de:20b0] [0:0] a1 00", "")
    inside += DEVICE.format("0000:02:00.0", "0207 [15b3:101b] [0:0] 00 00", "")
    report = hwloc(inside, machine='cpuset="0xff" nodeset="0x3"')
    slot = report.slots[0]
    assert (slot.numa, slot.cpuset, slot.nic_mode) == (None, None, DeviceMode.UNKNOWN)
    assert found(report, "gpu_numa_unknown") == [None]


def test_memory_without_cpus_does_not_make_a_place_ambiguous() -> None:
    inside = NODE.format(0, "0xff", "0x1", 2**34) + NODE.format(8, "0x0", "0x100", 2**36)
    inside += DEVICE.format("0000:01:00.0", "0302 [10de:2342] [0:0] a1 00", "")
    report = hwloc(inside, version=' version="3.0"', machine='cpuset="0xff" nodeset="0x101"')
    assert [slot.numa for slot in report.slots] == [0]


def test_two_gpus_of_one_uuid_have_none() -> None:
    inside = NODE.format(0, "0xff", "0x1", 1024)
    for number in (1, 2):
        inside += DEVICE.format(
            f"0000:0{number}:00.0", "0302 [10de:20b0] [0:0] a1", NVML.format("A", "GPU-same-uuid")
        )
    report = hwloc(inside)
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-same-uuid", None]
    assert found(report, "gpu_uuid_duplicate") == ["0000:02:00.0"]


def test_amd_gpus_of_one_hive_share_a_domain() -> None:
    def gpu(number: int) -> str:
        infos = f'<info name="AMDUUID" value="a0b1c2d3e4f5{number}"/>'
        infos += '<info name="Backend" value="RSMI"/>'
        infos += (
            '<info name="XGMIHiveID" value="0xfeed"/><info name="RSMIVRAMSize" value="1048576"/>'
        )
        inside = f'<object type="OSDev" name="rsmi{number}" osdev_type="5">{infos}</object>'
        return DEVICE.format(f"0000:0{number}:00.0", "0380 [1002:740f] [0:0] 02 00", inside)

    report = hwloc(NODE.format(0, "0xff", "0x1", 1024) + gpu(1) + gpu(2))
    assert {gpu.nvlink_domain for gpu in report.gpus} == {"xgmi-0xfeed"}
    assert {gpu.memory_bytes for gpu in report.gpus} == {2**30}
    assert len({gpu.uuid for gpu in report.gpus}) == 2
