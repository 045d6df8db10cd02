"""Is every interface of a route to everywhere found, in any table, alone or as one of several?"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.host.discovery import Handing, devices, discover, routes
from nodeagent.host.discovery.routes import (
    default_interfaces,
    hops_of_default,
    interfaces_told,
    messages_in,
)
from nodeagent.host.discovery.sysfs import Tree
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.trees import TreeBuilder

OIF, GATEWAY, TABLE, MULTIPATH, NEXT_HOP, NESTED = 4, 5, 15, 9, 30, 0x8000


def attribute(number: int, value: bytes) -> bytes:
    """One attribute, padded as the kernel pads it."""
    length = 4 + len(value)
    return struct.pack("=HH", length, number) + value + b"\0" * (-length % 4)


def hop(interface: int, gateway: bytes = b"") -> bytes:
    """One way of a route over several."""
    inside = attribute(GATEWAY, gateway) if gateway else b""
    return struct.pack("=HBBi", 8 + len(inside), 0, 0, interface) + inside


def route(*attributes: bytes, bits: int = 0, kind: int = 1, family: int = socket.AF_INET) -> bytes:
    """A route's message, without the header of the transport."""
    return struct.pack("=BBBBBBBBI", family, bits, 0, 0, 254, 3, 0, kind, 0) + b"".join(attributes)


@pytest.mark.parametrize(
    ("message", "interfaces"),
    [
        (route(attribute(OIF, struct.pack("=I", 3))), {3}),
        (route(attribute(TABLE, b"\x64\0\0\0"), attribute(OIF, struct.pack("=I", 7))), {7}),
        (route(attribute(MULTIPATH, hop(2, b"\n\0\0\1") + hop(5, b"\n\0\1\1"))), {2, 5}),
        (route(attribute(MULTIPATH | NESTED, hop(2) + hop(9))), {2, 9}),
        (route(attribute(OIF, struct.pack("=I", 4)), family=socket.AF_INET6), {4}),
        (route(attribute(OIF, struct.pack("=I", 3)), bits=24), set()),
        (route(attribute(OIF, struct.pack("=I", 3)), kind=7), set()),
        (route(), set()),
        (b"", set()),
    ],
)
def test_the_ways_of_a_default_route_are_read(message: bytes, interfaces: set[int]) -> None:
    assert hops_of_default(message) == interfaces


def test_a_default_route_that_only_names_an_object_of_its_ways_is_not_taken_for_none() -> None:
    by_object = attribute(NEXT_HOP, struct.pack("=I", 3))
    with pytest.raises(OSError, match="by an object's number alone"):
        hops_of_default(route(by_object))
    # Kernels write the ways beside it unless they are told not to.
    assert hops_of_default(route(by_object, attribute(OIF, struct.pack("=I", 3)))) == {3}
    assert hops_of_default(route(by_object, bits=24)) == set()


@given(st.binary(max_size=400))
def test_no_bytes_are_read_beyond_their_end_or_for_ever(raw: bytes) -> None:
    assert all(len(body) <= len(raw) for _, _, body in messages_in(raw))
    assert len(hops_of_default(raw)) <= len(raw)
    with contextlib.suppress(OSError):
        assert len(hops_of_default(route(raw))) <= len(raw)


def test_this_machines_kernel_answers_as_its_tables_say() -> None:
    try:
        asked = default_interfaces()
    except OSError:
        pytest.skip("NOT TESTED: no netlink here")
    names = {socket.if_indextoname(number) for number in asked}
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    told = {line.split()[0] for line in lines if line.split()[1] == line.split()[7] == "0" * 8}
    assert told <= names
    assert told <= devices.host_interfaces(Tree(Path("/"))).names


def test_every_way_of_the_running_host_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(Tree(Path("/")).names(Path("/sys/class/net")))
    numbers = {name: socket.if_nametoindex(name) for name in names if name != "lo"}
    monkeypatch.setattr(devices, "default_interfaces", lambda: frozenset(numbers.values()))
    assert set(numbers) <= devices.host_interfaces(Tree(Path("/"))).names


def test_a_captured_tree_is_not_mixed_with_the_running_hosts_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = TreeBuilder(tmp_path / "root")
    tree.write("sys/class/net/eth0/ifindex", "1")
    monkeypatch.setattr(devices, "default_interfaces", lambda: frozenset({1}))
    assert devices.host_interfaces(Tree(tree.root)) == devices.HostInterfaces(frozenset())


def told(kind: int, body: bytes = b"", flags: int = 2) -> bytes:
    """One message as the kernel sends it."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


WAY = route(attribute(OIF, struct.pack("=I", 3)))
END = told(3, struct.pack("=i", 0))
CHANGED = told(3, struct.pack("=i", 0), flags=0x12)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([told(24, WAY), END], {3}),
        ([told(24, WAY) + END], {3}),
        ([END], set()),
        ([told(24, WAY, flags=0x12), END], None),
        ([told(24, WAY), CHANGED], None),
    ],
)
def test_a_list_that_changed_while_it_was_told_is_none(
    parts: list[bytes], found: set[int] | None
) -> None:
    assert interfaces_told(parts) == found


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [told(24, WAY)],
        [told(24, WAY), b""],
        [told(2, struct.pack("=i", -1))],
        [told(24, WAY), told(3, struct.pack("=i", -105))],
    ],
)
def test_a_list_that_ends_in_an_error_or_not_at_all_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(OSError, match="the kernel"):
        interfaces_told(parts)


@pytest.mark.parametrize("changes", [0, 1, 3])
def test_the_kernel_is_asked_again_when_its_routes_changed(
    monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    answers = [[told(24, WAY), CHANGED]] * changes + [[told(24, WAY), END]]
    monkeypatch.setattr(routes, "_parts", lambda: answers.pop(0))
    assert default_interfaces() == {3}
    assert not answers


def test_routes_that_never_rest_are_said_to_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_parts", lambda: [told(24, WAY), CHANGED])
    with pytest.raises(OSError, match="changed each of 4 times"):
        default_interfaces()


def _silent() -> frozenset[int]:
    raise OSError(97, "Address family not supported by protocol")


def test_where_the_running_kernel_lists_no_routes_what_is_up_stays_with_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "default_interfaces", _silent)
    host = devices.host_interfaces(Tree(Path("/")))
    assert host.unlisted == "routes: Address family not supported by protocol"
    made = TreeBuilder(tmp_path / "root")
    for name, flags in (("up", "0x1003"), ("down", "0x1002"), ("odd", "?")):
        made.write(f"nic/net/{name}/flags", flags)
    made.write("nic/net/mute/speed", "1")
    kept = devices.hosts_own(Tree(made.root), made.root / "nic", host)
    assert kept == {"up", "odd", "mute"}
    known = devices.HostInterfaces(frozenset({"down"}))
    assert devices.hosts_own(Tree(made.root), made.root / "nic", known) == {"down"}


@pytest.mark.parametrize("place", ["proc/net/route", "proc/net/ipv6_route"])
def test_where_a_table_of_routes_cannot_be_read_no_nic_that_is_up_is_given_away(
    tmp_path: Path, place: str
) -> None:
    made = TreeBuilder(tmp_path / "root")
    made.numa(0, "0-7")
    made.device("0000:1a:00.0", trees.GPU, trees.NVIDIA, driver="nvidia")
    for number, flags in enumerate(("0x1003", "0x1002")):
        address = f"0000:2{number}:00.0"
        path = made.device(address, trees.INFINIBAND, trees.MELLANOX, driver="mlx5_core")
        made.write(f"{path.relative_to(made.root).as_posix()}/net/eth{number}/flags", flags)
    reserved = [nic.reserved for nic in discover(made.root).nics]
    assert reserved == [False, False]
    (made.root / place).mkdir(parents=True)
    draft = discover(made.root)
    assert [nic.reserved for nic in draft.nics] == [True, False]
    (said,) = [one.detail for one in draft.findings if one.code == "routes_unknown"]
    assert place in said


@pytest.mark.parametrize("below", ["virtio0", "mlx5_core.sf.4"])
def test_a_nic_whose_interface_is_of_a_device_made_of_it_stays_with_the_host(
    tmp_path: Path, below: str
) -> None:
    tree = TreeBuilder(tmp_path)
    tree.numa(0, "0-15")
    tree.device("0000:1a:00.0", trees.GPU, trees.NVIDIA)
    nic = tree.device("0000:1b:00.0", trees.ETHERNET, "0x1af4").relative_to(tmp_path).as_posix()
    tree.write(f"{nic}/{below}/net/eth0/speed", "25000")
    lent = discover(tmp_path).nics[0]
    assert (lent.name, lent.speed_mbps, lent.reserved) == ("eth0", 25_000, False)
    tree.write("proc/net/route", "eth0 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0")
    assert discover(tmp_path).nics[0].reserved
    assert not (tmp_path / nic / "net").exists()


def test_a_nic_stays_with_the_host_that_lives_by_one_of_its_virtual_functions(
    tmp_path: Path,
) -> None:
    tree = TreeBuilder(tmp_path)
    card = tree.device("0000:1b:00.0", trees.ETHERNET, trees.MELLANOX)
    virtual = tree.device("0000:1b:00.2", trees.ETHERNET, trees.MELLANOX)
    (virtual / "physfn").symlink_to("../0000:1b:00.0")
    (card / "virtfn0").symlink_to("../0000:1b:00.2")
    (virtual / "net" / "eth7").mkdir(parents=True)
    found = discover(tmp_path).nics[0]
    assert (found.reserved, found.name) == (False, None)
    tree.write("proc/net/route", "eth7 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0")
    assert [nic.reserved for nic in discover(tmp_path).nics] == [True]
    names = devices.host_interfaces(Tree(tmp_path))
    assert devices.hosts_own(Tree(tmp_path), card, names) == {"eth7"}


def two_nics(root: Path, default: str) -> TreeBuilder:
    """A host with eno1 and ens2f0, both up, whose default route is over this interface."""
    tree = TreeBuilder(root)
    tree.numa(0, "0-15")
    tree.device("0000:1a:00.0", trees.GPU, trees.NVIDIA)
    for address, name in (("0000:1b:00.0", "eno1"), ("0000:1c:00.0", "ens2f0")):
        nic = tree.device(address, trees.ETHERNET, trees.MELLANOX)
        tree.write(f"{nic.relative_to(root).as_posix()}/net/{name}/flags", "0x1003")
        tree.link(f"sys/class/net/{name}/device", nic)
    tree.write(f"sys/class/net/{default}/flags", "0x1003")
    tree.write("proc/net/route", f"{default} 00000000 0101A8C0 0003 0 0 0 00000000 0 0 0")
    return tree


def test_the_port_of_an_open_vswitch_that_has_the_default_route_stays_with_the_host(
    tmp_path: Path,
) -> None:
    tree = two_nics(tmp_path, "br-ex")
    tree.write("sys/class/net/br-ex/uevent", "INTERFACE=br-ex\nIFINDEX=7")
    tree.write("sys/class/net/ovs-system/lower_bond0", "")
    tree.write("sys/class/net/bond0/lower_eno1", "")
    report = discover(tmp_path)
    assert [(nic.name, nic.reserved) for nic in report.nics] == [("eno1", True), ("ens2f0", False)]


@pytest.mark.parametrize(
    ("file", "content"),
    [("uevent", "DEVTYPE=wireguard\nINTERFACE=way"), ("tun_flags", "0x1002"), ("iflink", "1")],
)
def test_where_the_default_route_is_over_a_tunnel_no_nic_that_is_up_is_given_away(
    tmp_path: Path, file: str, content: str
) -> None:
    tree = two_nics(tmp_path, "way")
    tree.write(f"sys/class/net/way/{file}", content)
    if file != "iflink":
        # A switch beside it says nothing of a tunnel.
        tree.write("sys/class/net/ovs-system/lower_eno1", "")
    report = discover(tmp_path)
    assert [nic.reserved for nic in report.nics] == [True, True]
    (said,) = [one.detail for one in report.findings if one.code == "routes_unknown"]
    assert "what carries way is not told" in said


def test_a_host_without_a_default_route_says_that_nobody_knows_by_which_nic_it_lives(
    tmp_path: Path,
) -> None:
    tree = two_nics(tmp_path, "eno1")
    assert "host_nic_unknown" not in {one.code for one in discover(tmp_path).findings}
    # A closed network: the control plane is behind a router of its own.
    tree.write("proc/net/route", "eno1 0000000A 0101A8C0 0003 0 0 0 000000FF 0 0 0")
    assert "host_nic_unknown" in {one.code for one in discover(tmp_path).findings}
    kept = discover(tmp_path, handing=Handing(keep=frozenset({"0000:1b:00.0"})))
    assert [nic.reserved for nic in kept.nics] == [True, False]
    assert "host_nic_unknown" not in {one.code for one in kept.findings}
