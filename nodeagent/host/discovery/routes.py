"""Over which interfaces does the running kernel send what has no nearer way, in any of its tables?

/proc/net/route shows the main table alone, and of a route over several interfaces the first. A host
that speaks BGP has just such a route, and one with policy routing other tables: so the kernel is
asked itself (rtnetlink(7)).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

_GET_ROUTE, _ROUTE, _DONE, _ERROR = 26, 24, 3, 2
_REQUEST_DUMP = 0x301
_UNICAST = 1
_OIF, _MULTIPATH = 4, 9
_HEADER = struct.Struct("=IHHII")
_ROUTE_HEADER = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_HOP = struct.Struct("=HBBi")
_TIMEOUT_S, _MOST_PARTS, _PART_BYTES = 2.0, 4096, 65_536


def default_interfaces() -> frozenset[int]:
    """Numbers of the interfaces of all default routes of this process' network.

    Raises OSError when the kernel does not say.
    """
    found: set[int] = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.bind((0, 0))
        body = _ROUTE_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0, 0)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST_DUMP, 1, 0) + body)
        for _ in range(_MOST_PARTS):
            part = kernel.recv(_PART_BYTES)
            for kind, message in messages_in(part):
                if kind == _DONE:
                    return frozenset(found)
                if kind == _ERROR:
                    raise OSError("the kernel does not list its routes")
                if kind == _ROUTE:
                    found |= hops_of_default(message)
    raise OSError("the kernel lists more routes than are read")


def messages_in(part: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each message of one part; what does not fit ends it."""
    at = 0
    while at + _HEADER.size <= len(part):
        length, kind, *_ = _HEADER.unpack_from(part, at)
        if length < _HEADER.size or at + length > len(part):
            return
        yield kind, part[at + _HEADER.size : at + length]
        at += _aligned(length)


def hops_of_default(message: bytes) -> set[int]:
    """The interfaces of a route to everywhere; none of any other route."""
    if len(message) < _ROUTE_HEADER.size:
        return set()
    fields = _ROUTE_HEADER.unpack_from(message)
    length, kind = fields[1], fields[7]
    if length or kind != _UNICAST:
        return set()
    found: set[int] = set()
    for number, value in _attributes(message[_ROUTE_HEADER.size :]):
        if number == _OIF and len(value) == 4:
            found.add(struct.unpack("=I", value)[0])
        elif number == _MULTIPATH:
            found |= _hops(value)
    return found


def _attributes(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(raw):
        length, number = _ATTRIBUTE.unpack_from(raw, at)
        if length < _ATTRIBUTE.size or at + length > len(raw):
            return
        yield number & 0x3FFF, raw[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _hops(raw: bytes) -> set[int]:
    found: set[int] = set()
    at = 0
    while at + _HOP.size <= len(raw):
        length, _, _, interface = _HOP.unpack_from(raw, at)
        if length < _HOP.size:
            break
        found.add(interface)
        at += _aligned(length)
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3
