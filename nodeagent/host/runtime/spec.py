"""Which machine does a claim get, and with which arguments is it started? Pure functions.

The arguments are a list; nothing is ever put through a shell. What comes from the wire appears only
in values that the protocol restricts to letters, digits and a few signs, and never as an option.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nodeagent.host.config import DeviceKind, HostConfig, Image, VmConfig
from nodeagent.protocol import SlotDevices, TopologyReport
from nodeagent.protocol.cpus import cpu_set

# So that a machine's UUID says whose it is, on every host and after every restart.
_NAMESPACE = uuid.UUID("6d3d9a3e-1c38-5f5e-9a07-3f3f2f7d5a11")
_MIB = 1024 * 1024
# QEMU answers once all memory is filled with zeros and pinned for VFIO, which with small pages is
# about two gigabytes a second, and every device was reset.
_ANSWERS_S, _PER_GIB_S, _PER_DEVICE_S = 20.0, 0.5, 10.0
_MOST_FILLING = 32
# PCI places 0x10 to 0x1d of the machine are kept for root ports; QEMU fills the others from 1.
_FIRST_PORT = 0x10
_MOST_FUNCTIONS = 14 * 8


class SpecError(ValueError):
    """The machine cannot be made as asked, and why."""


@dataclass(frozen=True)
class MemoryNode:
    """Memory of the machine on one NUMA node of the host; host None: wherever it is.

    cpus: how many of the machine's CPUs belong to it. pins: the host CPUs they may run on.
    """

    host: int | None
    size_bytes: int
    cpus: int
    pins: tuple[int, ...] = ()


@dataclass(frozen=True)
class StandIn:
    """A file that stands in for a slot's devices. serial: by which the guest knows it."""

    path: Path
    serial: str


@dataclass(frozen=True)
class Network:
    """Where the machine's one virtual NIC ends: a tap device, or a loopback port."""

    mac: str
    tap: str | None = None
    loopback: tuple[str, int] | None = None


@dataclass(frozen=True)
class VmSpec:
    """Everything that the arguments follow from.

    folder: its disks; run: its sockets. functions: PCI addresses handed over, in order.
    """

    claim: str
    image: Image
    folder: Path
    run: Path
    nodes: tuple[MemoryNode, ...]
    functions: tuple[str, ...]
    stand_ins: tuple[StandIn, ...]
    network: Network | None
    accelerated: bool
    huge_page: int
    firmware: Path | None

    @property
    def uuid(self) -> str:
        """The machine's own UUID."""
        return vm_uuid(self.claim)

    @property
    def qmp_socket(self) -> Path:
        """Where QEMU takes commands."""
        return self.run / "qmp.sock"

    @property
    def console_socket(self) -> Path:
        """Where the guest's serial console is."""
        return self.run / "console.sock"


def vm_uuid(claim: str) -> str:
    """The UUID of a claim's machine: the same whenever and wherever it is asked."""
    return str(uuid.uuid5(_NAMESPACE, claim))


def vm_name(claim: str) -> str:
    """The name of a claim's machine."""
    return f"gpuaas-{claim}"


def mac_address(claim: str) -> str:
    """The machine's locally administered address; the same whenever asked."""
    tail = uuid.uuid5(_NAMESPACE, f"mac {claim}").bytes[:5]
    return "02:" + ":".join(f"{part:02x}" for part in tail)


def loopback_address(claim: str, where: str) -> tuple[str, int]:
    """Address and port on loopback of a machine that serves nobody; the same whenever asked.

    where: tells apart the hosts that are played on one machine.
    """
    digest = uuid.uuid5(_NAMESPACE, f"loopback {where} {claim}").bytes
    port = 20_000 + int.from_bytes(digest[:2], "big") % 40_000
    return f"127.{64 + digest[2] % 128}.{digest[3]}.{1 + digest[4] % 254}", port


def vm_spec(
    claim: str,
    slots: Sequence[SlotDevices],
    report: TopologyReport,
    config: HostConfig,
    *,
    image: Image,
    folder: Path,
    run: Path,
    network: Network | None,
    stand_ins: tuple[StandIn, ...],
    accelerated: bool,
) -> VmSpec:
    """The machine for a claim on these slots. Raises SpecError.

    The addresses come from this host's own report, looked up by the devices' ids, never from the
    wire.
    """
    real = not stand_ins
    return VmSpec(
        claim=claim,
        image=image,
        folder=folder,
        run=run,
        nodes=_memory(slots, config.vm, accelerated),
        functions=pci_functions(slots, report) if real else (),
        stand_ins=stand_ins,
        network=network,
        accelerated=accelerated,
        huge_page=config.vm.huge_page if accelerated else 0,
        firmware=config.vm.firmware,
    )


def pci_functions(slots: Sequence[SlotDevices], report: TopologyReport) -> tuple[str, ...]:
    """The PCI addresses of everything the slots hand over. Raises SpecError."""
    places = {gpu.uuid: gpu.pci for gpu in report.gpus if gpu.uuid is not None}
    places |= {nic.id: nic.pci for nic in report.nics}
    places |= {nvme.id: nvme.pci for nvme in report.nvmes}
    found = []
    for slot in slots:
        for device in (slot.gpu_uuid, *slot.all_nics(), *slot.all_nvmes()):
            place = places.get(device)
            if place is None:
                raise SpecError(f"device {device} has no PCI address on this host")
            found.append(place)
    if len(set(found)) != len(found):
        raise SpecError("two devices have one PCI address")
    if len(found) > _MOST_FUNCTIONS:
        raise SpecError(f"more than {_MOST_FUNCTIONS} devices in one machine")
    return tuple(found)


def _memory(
    slots: Sequence[SlotDevices], vm: VmConfig, accelerated: bool
) -> tuple[MemoryNode, ...]:
    if not accelerated or vm.devices is DeviceKind.STAND_IN:
        # Emulation and stand-ins are for tests: one small CPU wherever there is room.
        return (MemoryNode(None, vm.emulated_memory_bytes, 1),)
    by_node: dict[int | None, MemoryNode] = {}
    step = max(vm.huge_page, 2 * _MIB)
    for slot in slots:
        if slot.memory_bytes is None or not slot.cpuset:
            raise SpecError(f"slot {slot.slot_index} has no known memory or CPUs")
        size = (slot.memory_bytes - vm.overhead_bytes) // step * step
        if size <= 0:
            raise SpecError(f"slot {slot.slot_index} has no memory beyond the host's own share")
        pins = tuple(sorted(cpu_set(slot.cpuset)))
        node = by_node.get(slot.numa, MemoryNode(slot.numa, 0, 0))
        by_node[slot.numa] = replace(
            node,
            size_bytes=node.size_bytes + size,
            cpus=node.cpus + len(pins),
            pins=(*node.pins, *pins),
        )
    return tuple(by_node[key] for key in sorted(by_node, key=lambda one: (one is None, one or 0)))


def start_limit_s(spec: VmSpec) -> float:
    """How many seconds a machine may take until it answers."""
    if not spec.accelerated:
        return _ANSWERS_S
    gibibytes = sum(node.size_bytes for node in spec.nodes) / 2**30
    return _ANSWERS_S + _PER_GIB_S * gibibytes + _PER_DEVICE_S * len(spec.functions)


def cpu_pins(spec: VmSpec) -> tuple[int, ...]:
    """The host CPU of each CPU of the machine, in order; empty when they may run anywhere."""
    return tuple(pin for node in spec.nodes for pin in node.pins)


def qemu_argv(spec: VmSpec, config: HostConfig) -> tuple[str, ...]:
    """The program and its arguments. The machine starts stopped, so that it can be pinned first."""
    cpus = sum(node.cpus for node in spec.nodes)
    memory = sum(node.size_bytes for node in spec.nodes) // _MIB
    accelerator = "kvm" if spec.accelerated else "tcg"
    argv = [
        str(config.tools.qemu),
        *("-name", f"guest={vm_name(spec.claim)}"),
        *("-uuid", spec.uuid),
        *("-no-user-config", "-nodefaults", "-display", "none", "-S"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *(
            "-machine",
            f"q35,accel={accelerator},usb=off,dump-guest-core=off",
        ),
        *("-cpu", "host" if spec.accelerated else "max"),
        *("-smp", _cpus(cpus, len(spec.nodes))),
        *("-m", f"{memory}M"),
        *_memory_argv(spec),
        *("-qmp", f"unix:{_path(spec.qmp_socket)},server=on,wait=off"),
        *("-chardev", f"socket,id=console,path={_path(spec.console_socket)},server=on,wait=off"),
        *("-serial", "chardev:console"),
        *("-device", "virtio-rng-pci"),
    ]
    if spec.firmware is not None:
        argv += ["-bios", str(spec.firmware)]
    return (*argv, *_boot_argv(spec), *_device_argv(spec), *_network_argv(spec.network))


def _cpus(cpus: int, sockets: int) -> str:
    """One socket a NUMA node, where the CPUs divide evenly among them."""
    even = cpus % sockets == 0
    return f"{cpus},sockets={sockets},cores={cpus // sockets},threads=1" if even else str(cpus)


def _memory_argv(spec: VmSpec) -> list[str]:
    if not spec.accelerated:
        return []
    argv, first = [], 0
    for number, node in enumerate(spec.nodes):
        backend = f"memory-backend-memfd,id=ram{number},size={node.size_bytes},prealloc=on"
        backend += f",prealloc-threads={max(1, min(node.cpus, _MOST_FILLING))}"
        if spec.huge_page:
            backend += f",hugetlb=on,hugetlbsize={spec.huge_page}"
        if node.host is not None:
            backend += f",host-nodes={node.host},policy=bind"
        last = first + node.cpus - 1
        argv += ["-object", backend]
        argv += ["-numa", f"node,nodeid={number},cpus={first}-{last},memdev=ram{number}"]
        first = last + 1
    return argv


def _boot_argv(spec: VmSpec) -> list[str]:
    image, argv = spec.image, []
    if image.disk is not None:
        disk = spec.folder / "disk.qcow2"
        argv += ["-drive", f"if=none,id=disk,file={_path(disk)},format=qcow2,discard=unmap"]
        argv += ["-device", "virtio-blk-pci,drive=disk,bootindex=1"]
    if image.kernel is not None:
        argv += ["-kernel", str(image.kernel), "-append", image.append]
        if image.initrd is not None:
            argv += ["-initrd", str(image.initrd)]
    seed = spec.folder / "seed.iso"
    argv += ["-drive", f"if=none,id=seed,file={_path(seed)},format=raw,readonly=on"]
    return [*argv, "-device", "virtio-blk-pci,drive=seed,serial=cidata"]


def _device_argv(spec: VmSpec) -> list[str]:
    argv = []
    for number, function in enumerate(spec.functions):
        # Each behind a root port of its own, so that it can be reset alone; eight ports a place.
        place = f"addr={_FIRST_PORT + number // 8:#x}.{number % 8:#x}"
        together = ",multifunction=on" if number % 8 == 0 else ""
        port = f"pcie-root-port,id=port{number},chassis={number + 1},{place}{together}"
        argv += ["-device", port]
        argv += ["-device", f"vfio-pci,host={function},id=given{number},bus=port{number}"]
    for number, one in enumerate(spec.stand_ins):
        drive = f"if=none,id=stand{number},file={_path(one.path)},format=raw,cache=writethrough"
        argv += ["-drive", drive]
        argv += ["-device", f"virtio-blk-pci,drive=stand{number},serial={one.serial}"]
    return argv


def _network_argv(network: Network | None) -> list[str]:
    if network is None:
        return []
    if network.tap is not None:
        end = f"tap,id=net,ifname={network.tap},script=no,downscript=no"
    else:
        assert network.loopback is not None
        host, port = network.loopback
        end = f"user,id=net,restrict=on,hostfwd=tcp:{host}:{port}-:22"
    return ["-netdev", end, "-device", f"virtio-net-pci,netdev=net,mac={network.mac}"]


def _path(path: Path) -> str:
    """A path inside one of QEMU's comma-separated values, where a comma is written twice."""
    return str(path).replace(",", ",,")
