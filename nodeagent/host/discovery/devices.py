"""Which NICs and NVMe devices has a host, and which of them does it live by itself?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.discovery.blocks import HostBlocks, holds, used
from nodeagent.host.discovery.bus import PciDevice
from nodeagent.host.discovery.machine import Facts
from nodeagent.host.discovery.routes import default_interfaces
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.protocol import Nic, NicKind, Nvme
from nodeagent.topology.pci import AMAZON, nic_kind

_CONTROLLER = re.compile(r"nvme\d{1,5}")
_NAMESPACE = re.compile(r"nvme\d{1,5}(c\d{1,5})?n\d{1,5}")
_DEFAULT_ROUTE = "00000000"
# IPv4 and IPv6 routing tables of the kernel, and which column holds the interface's name. A long
# one is cut: whole lists come from the kernel itself (`_asked`).
_ROUTES = (("proc/net/route", 0, 1), ("proc/net/ipv6_route", 9, 0))
_OPEN_VSWITCH = "ovs-system"
_MOST_SPEED = 10**9
_MOST_NAME = 300
_UP = 0x1


@dataclass(frozen=True)
class HostInterfaces:
    """Interfaces that the host cannot lose. unlisted: why there may be more, '' where not.

    none: its routes were listed, and none of them is a default one.
    """

    names: frozenset[str]
    unlisted: str = ""
    none: bool = False


def read_nic(tree: Tree, device: PciDevice, host: HostInterfaces) -> tuple[Nic, Facts]:
    """A network function with what its operating system devices tell.

    host: interfaces that the host itself needs (`host_interfaces`).
    """
    places = interfaces_of(tree, device.path)
    nets = _readable([place.name for place in places])
    ports = _readable(tree.names(device.path / "infiniband"))
    kind = nic_kind(device.class_code, device.vendor, device.device)
    if any(name.startswith(("ib", "mlx")) for name in ports) and _is_infiniband(tree, device):
        kind = NicKind.INFINIBAND
    elif device.vendor == AMAZON and any(name.startswith("efa") for name in ports):
        kind = NicKind.EFA
    names = nets or ports
    speeds = [tree.number(place / "speed").value or 0 for place in places]
    best = max(speeds, default=0)
    nic = Nic(
        id=device.address,
        pci=device.address,
        kind=kind,
        numa=device.numa.value,
        switch=device.parent,
        speed_mbps=best if 0 < best <= _MOST_SPEED else None,
        name=names[0][:64] if names else None,
        link_mbps=device.link_mbps.value,
        reserved=bool(hosts_own(tree, device.path, host)),
    )
    facts: Facts = {
        "nic_names": present(" ".join(names)) if names else _undriven(device),
        "sriov_most": _number(device.virtual_most),
        "sriov_functions": present(" ".join(device.virtual))
        if device.virtual
        else absent("no_functions"),
    }
    return nic, facts


def read_nvme(tree: Tree, device: PciDevice, host: HostBlocks) -> tuple[Nvme, Facts]:
    """An NVMe controller with its namespaces. host: block devices that the host uses."""
    controllers = [n for n in tree.names(device.path / "nvme") if _CONTROLLER.fullmatch(n)]
    facts: Facts = {"nvme_model": _undriven(device), "nvme_serial": _undriven(device)}
    size, blocks = 0, list[str]()
    for name in controllers:
        base = device.path / "nvme" / name
        facts["nvme_model"] = _text(tree.text(base / "model"))
        facts["nvme_serial"] = _text(tree.text(base / "serial"))
        namespaces = [n for n in tree.names(base) if _NAMESPACE.fullmatch(n)]
        for block in namespaces:
            sectors = tree.number(base / block / "size").value
            if sectors is None:
                sectors = tree.number(tree.path("sys/block", _head(block), "size")).value
            # The kernel counts in 512-byte sectors whatever the device's own block size is.
            size += (sectors or 0) * 512
            blocks.append(_head(block))
    facts["nvme_blocks"] = present(" ".join(blocks)) if blocks else _undriven(device)
    facts["nvme_holds"] = holds(tree, blocks) if blocks else _undriven(device)
    nvme = Nvme(
        id=device.address,
        pci=device.address,
        numa=device.numa.value,
        switch=device.parent,
        size_bytes=size if 0 < size < 2**60 else None,
        reserved=any(used(tree, block, host) for block in blocks),
    )
    return nvme, facts


def silicon_of(tree: Tree, device: PciDevice) -> Iterator[str]:
    """What all functions of one device say alike, wherever on the bus they are.

    A NIC with a link to each socket is there twice, and so is a disk with two ports: each part
    reaches the same network, or the same data, as the other. From its ninth function on a card has
    more numbers than one (PCI Express base specification, alternative routing-ID interpretation):
    then it has its bus to itself.
    """
    if tree.text(device.path / "ari_enabled").value == "1":
        yield f"bus {device.address.rpartition(':')[0]}"
    for name in tree.names(device.path / "infiniband"):
        guid = tree.text(device.path / "infiniband" / name / "sys_image_guid").value or ""
        if guid.strip("0:"):
            yield f"guid {guid}"[:_MOST_NAME]
    for name in tree.names(device.path / "nvme"):
        # The kernel itself takes controllers that say one name for one disk, or refuses them.
        told = tree.text(device.path / "nvme" / name / "subsysnqn").value or ""
        if told:
            yield f"nqn {told}"[:_MOST_NAME]


def hosts_own(tree: Tree, device: Path, host: HostInterfaces) -> AbstractSet[str]:
    """The interfaces of a device that stay with the host.

    Where its routes are not known, each that is up may carry it: by itself, or below another.
    """
    places = interfaces_of(tree, device, functions=True)
    return {
        place.name
        for place in places
        if place.name in host.names or (host.unlisted and _may_be_up(tree, place))
    }


def interfaces_of(tree: Tree, device: Path, *, functions: bool = False) -> list[Path]:
    """The interfaces of a network function: its own, and those of the devices made of it.

    Virtio and subfunctions have theirs one folder further down. functions: also those of its
    virtual functions, which end with it.
    """
    found = [device / "net" / name for name in tree.names(device / "net")]
    for name in tree.names(device):
        below = device / name
        if name.startswith("virtfn"):
            found += interfaces_of(tree, tree.inside(below) or below) if functions else []
        elif name != "net" and not below.is_symlink():
            found += [below / "net" / one for one in tree.names(below / "net")]
    return found


def host_interfaces(tree: Tree) -> HostInterfaces:
    """Interfaces that the host cannot lose: those on its default routes, and what carries them."""
    routed, unlisted = _asked(tree)
    listed = tree.root == Path("/")
    for place, name_at, target_at in _ROUTES:
        table = tree.text(tree.path(place))
        if table.value is None and table.reason != "no_file":
            unlisted = unlisted or f"{place}: {table.reason}"
        listed = listed or table.value is not None
        for line in (table.value or "").splitlines():
            words = line.split()
            if len(words) > max(name_at, target_at) and _is_default(words, target_at):
                routed.add(words[name_at])
    routed.discard("lo")
    none = listed and not routed and not unlisted
    pending = sorted(routed)
    while pending:
        # A bridge, bond or VLAN is carried by others, and these perhaps by others again.
        name = pending.pop()
        lower = _carriers(tree, name)
        if not lower:
            unlisted = unlisted or f"what carries {name} is not told"
        for one in lower or ():
            if one not in routed:
                routed.add(one)
                pending.append(one)
    return HostInterfaces(frozenset(routed), unlisted, none)


def _carriers(tree: Tree, interface: str) -> tuple[str, ...]:
    """What an interface is carried by: itself, where it is a device's; nothing where unknown.

    A tunnel goes over whatever leads to its far end, and no link in sysfs says so. Nor does one of
    an Open vSwitch bridge's: all bridges are ports of one switch, whose links are at its own name.
    """
    place = tree.path("sys/class/net", interface)
    names = tree.names(place)
    lower = tuple(name.removeprefix("lower_") for name in names if name.startswith("lower_"))
    if lower or not names or "device" in names:
        return lower or (interface,)
    switched = tree.names(tree.path("sys/class/net", _OPEN_VSWITCH))
    ports = tuple(name.removeprefix("lower_") for name in switched if name.startswith("lower_"))
    kind = tree.text(place / "uevent").value or ""
    return () if "tun_flags" in names or "DEVTYPE=" in kind else ports


def _asked(tree: Tree) -> tuple[set[str], str]:
    """Of the running host: what its kernel says when it is asked. A captured tree has none."""
    if tree.root != Path("/"):
        return set(), ""
    try:
        numbers = default_interfaces()
    except OSError as error:
        return set(), f"routes: {error.strerror or error}"
    found = set[str]()
    for name in tree.names(tree.path("sys/class/net")):
        number = tree.number(tree.path("sys/class/net", name, "ifindex")).value
        # One that does not say its number may be any.
        if number is None or number in numbers:
            found.add(name)
    return found, ""


def _may_be_up(tree: Tree, interface: Path) -> bool:
    try:
        return bool(int(tree.text(interface / "flags").value or "", 16) & _UP)
    except ValueError:
        return True


def _is_default(words: list[str], target_at: int) -> bool:
    if target_at == 1:
        return len(words) > 7 and words[1] == _DEFAULT_ROUTE and words[7] == _DEFAULT_ROUTE
    return words[0] == "0" * 32 and words[1] == "00"


def _readable(names: list[str]) -> list[str]:
    """A kernel takes almost any bytes for an interface's name; a report takes characters."""
    return [name for name in names if name.isprintable()]


def _head(block: str) -> str:
    """nvme0c1n1 is a path to nvme0n1."""
    return re.sub(r"c\d+n", "n", block)


def _is_infiniband(tree: Tree, device: PciDevice) -> bool:
    for port in tree.names(device.path / "infiniband"):
        base = device.path / "infiniband" / port / "ports"
        for number in tree.names(base):
            if tree.text(base / number / "link_layer").value == "InfiniBand":
                return True
    return False


def _undriven(device: PciDevice) -> Fact[object]:
    if device.driver.value is None:
        return unknown("no_driver")
    return unknown("driver_vfio" if device.driver.value == "vfio-pci" else "not_told")


def _number(fact: Fact[int]) -> Fact[object]:
    return Fact(fact.presence, fact.value, fact.reason)


def _text(fact: Fact[str]) -> Fact[object]:
    return unknown("empty") if fact.value == "" else Fact(fact.presence, fact.value, fact.reason)
