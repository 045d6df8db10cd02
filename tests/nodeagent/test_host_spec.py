"""Does a claim on a real host give exactly the machine it should, as a list of arguments?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host.config import HostConfig, Image, VmConfig
from nodeagent.host.runtime.process import Machine
from nodeagent.host.runtime.seed import seed_files
from nodeagent.host.runtime.spec import (
    Network,
    SpecError,
    StandIn,
    VmSpec,
    cpu_pins,
    mac_address,
    pci_functions,
    qemu_argv,
    start_limit_s,
    vm_spec,
    vm_uuid,
)
from nodeagent.protocol import DeviceMode, Nvme, SlotDevices, TopologyReport
from nodeagent.protocol.cpus import cpu_set
from nodeagent.simhost.hardware import HardwareConfig, create_host, read_hardware
from tests.topologies import topology_file

IMAGE = Image("ubuntu-24.04", disk=Path("/images/ubuntu.qcow2"))
CONFIG = HostConfig("https://control.example", "host-1", vm=VmConfig(huge_page=2**30))
GIB = 2**30


@pytest.fixture
def report(tmp_path: Path) -> TopologyReport:
    """Eight GPUs on two NUMA nodes, each with a NIC of its own, and an NVMe at the first."""
    config = HardwareConfig("host-1", numa_memory_bytes=512 * GIB)
    create_host(tmp_path / "host", config, topology_file("azure-ndv5-topo.xml"))
    made = read_hardware(tmp_path / "host", config)
    disk = Nvme("0000:99:00.0", "0000:99:00.0", 0, None)
    first = replace(made.slots[0], nvme=disk.id, nvme_mode=DeviceMode.EXCLUSIVE)
    return replace(made, nvmes=(disk,), slots=(first, *made.slots[1:]))


def given(report: TopologyReport, *indexes: int) -> list[SlotDevices]:
    """Slots as a task names them."""
    return [
        SlotDevices(
            slot.index,
            slot.gpu_uuid or "",
            nic=slot.nic,
            nvme=slot.nvme,
            numa=slot.numa,
            cpuset=slot.cpuset,
            memory_bytes=slot.memory_bytes,
            nic_mode=slot.nic_mode,
            nvme_mode=slot.nvme_mode,
        )
        for slot in report.slots
        if slot.index in indexes
    ]


def spec_of(report: TopologyReport, *indexes: int, config: HostConfig = CONFIG) -> VmSpec:
    """The machine of a claim on these slots, with KVM."""
    return vm_spec(
        "claim-1",
        given(report, *indexes),
        report,
        config,
        image=IMAGE,
        folder=Path("/var/lib/helper/machines/claim-1"),
        run=Path("/run/helper/machines/claim-1"),
        network=Network(mac_address("claim-1"), tap="tap7"),
        stand_ins=(),
        accelerated=True,
    )


def option(argv: tuple[str, ...], name: str) -> list[str]:
    """The values of an option that may come more than once."""
    return [argv[place + 1] for place, word in enumerate(argv) if word == name]


def test_each_device_is_handed_over_behind_a_port_of_its_own(report: TopologyReport) -> None:
    spec = spec_of(report, 0, 1)
    argv = qemu_argv(spec, CONFIG)
    places = {gpu.uuid: gpu.pci for gpu in report.gpus}
    nics = {nic.id: nic.pci for nic in report.nics}
    slots = given(report, 0, 1)
    wanted = [places[slots[0].gpu_uuid], nics[slots[0].nic or ""], "0000:99:00.0"]
    wanted += [places[slots[1].gpu_uuid], nics[slots[1].nic or ""]]
    handed = [one for one in option(argv, "-device") if one.startswith("vfio-pci")]
    assert handed == [
        f"vfio-pci,host={address},id=given{number},bus=port{number}"
        for number, address in enumerate(wanted)
    ]
    ports = [one for one in option(argv, "-device") if one.startswith("pcie-root-port")]
    assert ports[0] == "pcie-root-port,id=port0,chassis=1,addr=0x10.0x0,multifunction=on"
    assert ports[4] == "pcie-root-port,id=port4,chassis=5,addr=0x10.0x4"
    assert Machine(1, 1, argv).functions == tuple(wanted)


def test_memory_and_cpus_stay_on_the_numa_nodes_of_their_slots(report: TopologyReport) -> None:
    slots = given(report, 0, 1, 7)
    spec = spec_of(report, 0, 1, 7)
    argv = qemu_argv(spec, CONFIG)
    assert [node.host for node in spec.nodes] == [0, 1]
    size = sum((slot.memory_bytes or 0) - 4 * GIB for slot in slots[:2])
    cpus = [len(cpu_set(slot.cpuset or "")) for slot in slots]
    backends = option(argv, "-object")
    assert backends[0] == (
        f"memory-backend-memfd,id=ram0,size={size // GIB * GIB},prealloc=on,"
        f"prealloc-threads={min(32, cpus[0] + cpus[1])},hugetlb=on,"
        f"hugetlbsize={GIB},host-nodes=0,policy=bind"
    )
    assert "host-nodes=1,policy=bind" in backends[1]
    assert option(argv, "-numa") == [
        f"node,nodeid=0,cpus=0-{cpus[0] + cpus[1] - 1},memdev=ram0",
        f"node,nodeid=1,cpus={cpus[0] + cpus[1]}-{sum(cpus) - 1},memdev=ram1",
    ]
    pins = cpu_pins(spec)
    assert len(pins) == len(set(pins)) == sum(cpus)
    assert set(pins[: cpus[0]]) == cpu_set(slots[0].cpuset or "")
    assert option(argv, "-m") == [f"{sum(node.size_bytes for node in spec.nodes) >> 20}M"]


def test_the_machine_bears_its_claim_and_waits_to_be_pinned(report: TopologyReport) -> None:
    argv = qemu_argv(spec_of(report, 0), CONFIG)
    assert option(argv, "-name") == ["guest=gpuaas-claim-1"]
    assert option(argv, "-uuid") == [vm_uuid("claim-1")]
    assert vm_uuid("claim-1") != vm_uuid("claim-2")
    assert "-S" in argv
    assert option(argv, "-machine") == ["q35,accel=kvm,usb=off,dump-guest-core=off"]
    assert option(argv, "-cpu") == ["host"]
    assert "spawn=deny" in option(argv, "-sandbox")[0]
    assert option(argv, "-netdev") == ["tap,id=net,ifname=tap7,script=no,downscript=no"]
    assert option(argv, "-qmp") == ["unix:/run/helper/machines/claim-1/qmp.sock,server=on,wait=off"]


def test_nothing_but_what_is_named_is_in_the_machine(report: TopologyReport) -> None:
    argv = qemu_argv(spec_of(report, 0), CONFIG)
    assert {"-nodefaults", "-no-user-config"} <= set(argv)
    assert {word.partition(",")[0] for word in option(argv, "-device")} == {
        "virtio-rng-pci",
        "virtio-blk-pci",
        "pcie-root-port",
        "vfio-pci",
        "virtio-net-pci",
    }


def test_a_comma_in_a_path_cannot_add_an_option(report: TopologyReport) -> None:
    spec = replace(spec_of(report, 0), folder=Path("/var/lib/a,readonly=off"))
    assert "file=/var/lib/a,,readonly=off/seed.iso," in " ".join(qemu_argv(spec, CONFIG))


def test_without_kvm_a_machine_is_small_and_pinned_to_nothing(report: TopologyReport) -> None:
    spec = replace(
        spec_of(report, 0),
        accelerated=False,
        functions=(),
        stand_ins=(StandIn(Path("/stand/slot-0.img"), "slot0"),),
    )
    emulated = vm_spec(
        "claim-1",
        given(report, 0),
        report,
        CONFIG,
        image=IMAGE,
        folder=spec.folder,
        run=spec.run,
        network=spec.network,
        stand_ins=spec.stand_ins,
        accelerated=False,
    )
    argv = qemu_argv(emulated, CONFIG)
    assert option(argv, "-m") == ["192M"]
    assert option(argv, "-object") == []
    assert cpu_pins(emulated) == ()
    assert "virtio-blk-pci,drive=stand0,serial=slot0" in option(argv, "-device")
    assert not [word for word in argv if "vfio" in word]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu_uuid": "GPU-of-nobody"}, "has no PCI address"),
        ({"nic": "0000:ff:00.0"}, "has no PCI address"),
        ({"nvme": "0000:ff:00.0"}, "has no PCI address"),
        ({"memory_bytes": None}, "no known memory or CPUs"),
        ({"cpuset": ""}, "no known memory or CPUs"),
        ({"memory_bytes": 4 * GIB}, "beyond the host's own share"),
    ],
)
def test_what_this_host_does_not_know_makes_no_machine(
    report: TopologyReport, change: dict[str, object], said: str
) -> None:
    slot = replace(given(report, 0)[0], **change)  # type: ignore[arg-type]  # one of the table
    with pytest.raises(SpecError, match=said):
        vm_spec(
            "claim-1",
            [slot],
            report,
            CONFIG,
            image=IMAGE,
            folder=Path("/a"),
            run=Path("/b"),
            network=None,
            stand_ins=(),
            accelerated=True,
        )


def test_a_large_machine_is_given_the_time_to_fill_and_pin_its_memory(
    report: TopologyReport,
) -> None:
    small, large = spec_of(report, 0), spec_of(report, *range(8))
    gibibytes = sum(node.size_bytes for node in large.nodes) / GIB
    assert gibibytes > 500
    assert start_limit_s(large) > gibibytes / 2 > start_limit_s(small) > 60
    assert start_limit_s(replace(large, accelerated=False)) == 20


def test_one_device_is_not_handed_over_twice(report: TopologyReport) -> None:
    one = given(report, 0)[0]
    with pytest.raises(SpecError, match="one PCI address"):
        pci_functions([one, replace(one, slot_index=1)], report)


def test_a_machine_of_a_whole_large_host_has_a_place_for_every_device(
    report: TopologyReport,
) -> None:
    argv = qemu_argv(spec_of(report, *range(8)), CONFIG)
    places = [
        one.split("addr=")[1].split(",")[0] for one in option(argv, "-device") if "addr" in one
    ]
    assert len(places) == len(set(places)) == 17


def test_a_key_with_quotes_in_its_comment_stays_a_value() -> None:
    key = 'ssh-ed25519 AAAA "; rm -rf / #'
    files = seed_files("claim-1", "tenant", "ubuntu", [key])
    assert files["user-data"].startswith("#cloud-config\n{")
    assert '"ssh-ed25519 AAAA \\"; rm -rf / #"' in files["user-data"]
    assert vm_uuid("claim-1") in files["meta-data"]
