"""Is every interface of a route to everywhere found, in any table, alone or as one of several?"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.host.discovery import devices
from nodeagent.host.discovery.routes import default_interfaces, hops_of_default, messages_in
from nodeagent.host.discovery.sysfs import Tree
from tests.nodeagent.host_facts.trees import TreeBuilder

OIF, GATEWAY, TABLE, MULTIPATH, NESTED = 4, 5, 15, 9, 0x8000


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


@given(st.binary(max_size=400))
def test_no_bytes_are_read_beyond_their_end_or_for_ever(raw: bytes) -> None:
    assert all(len(body) <= len(raw) for _, body in messages_in(raw))
    assert len(hops_of_default(raw)) <= len(raw)
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
    assert told <= devices.host_interfaces(Tree(Path("/")))


def test_every_way_of_the_running_host_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(Tree(Path("/")).names(Path("/sys/class/net")))
    numbers = {name: socket.if_nametoindex(name) for name in names if name != "lo"}
    monkeypatch.setattr(devices, "default_interfaces", lambda: frozenset(numbers.values()))
    assert set(numbers) <= devices.host_interfaces(Tree(Path("/")))


def test_a_captured_tree_is_not_mixed_with_the_running_hosts_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = TreeBuilder(tmp_path / "root")
    tree.write("sys/class/net/eth0/ifindex", "1")
    monkeypatch.setattr(devices, "default_interfaces", lambda: frozenset({1}))
    assert devices.host_interfaces(Tree(tree.root)) == frozenset()
