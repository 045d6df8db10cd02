"""Over which interfaces does the running kernel send what has no nearer way, in any of its tables?

/proc/net/route shows the main table alone, and of a route over several interfaces the first. A host
that speaks BGP has just such a route, and one with policy routing other tables: so the kernel is
asked itself (rtnetlink(7)). A list that changed while it was told may lack some: it is asked anew.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator

_GET_ROUTE, _ROUTE, _DONE, _ERROR = 26, 24, 3, 2
_REQUEST_DUMP, _INTERRUPTED = 0x301, 0x10
_UNICAST = 1
_OIF, _MULTIPATH, _NEXT_HOP = 4, 9, 30
_HEADER = struct.Struct("=IHHII")
_ROUTE_HEADER = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_HOP = struct.Struct("=HBBi")
_RESULT = struct.Struct("=i")
_TIMEOUT_S, _MOST_PARTS, _PART_BYTES = 2.0, 4096, 65_536
_TRIES = 4


def default_interfaces() -> frozenset[int]:
    """Numbers of the interfaces of all default routes of this process' network.

    Raises OSError when the kernel does not say, or says only what may not be all.
    """
    for _ in range(_TRIES):
        found = interfaces_told(_parts())
        if found is not None:
            return found
    raise OSError(f"the routes changed each of {_TRIES} times while the kernel listed them")


def _parts() -> Iterator[bytes]:
    """What the kernel answers, part by part, over a connection of its own."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.bind((0, 0))
        body = _ROUTE_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0, 0)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST_DUMP, 1, 0) + body)
        for _ in range(_MOST_PARTS):
            yield kernel.recv(_PART_BYTES)


def interfaces_told(parts: Iterable[bytes]) -> frozenset[int] | None:
    """The interfaces of all default routes of one list; None where it changed meanwhile.

    Raises OSError when it is none, or has no end.
    """
    found, whole = set[int](), True
    for part in parts:
        for kind, flags, message in messages_in(part):
            whole = whole and not flags & _INTERRUPTED
            if kind == _ERROR or (kind == _DONE and _failed(message)):
                raise OSError("the kernel does not list its routes")
            if kind == _DONE:
                return frozenset(found) if whole else None
            if kind == _ROUTE:
                found |= hops_of_default(message)
    raise OSError("the kernel lists more routes than are read")


def messages_in(part: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, flags and body of each message of one part; what does not fit ends it."""
    at = 0
    while at + _HEADER.size <= len(part):
        length, kind, flags, *_ = _HEADER.unpack_from(part, at)
        if length < _HEADER.size or at + length > len(part):
            return
        yield kind, flags, part[at + _HEADER.size : at + length]
        at += _aligned(length)


def hops_of_default(message: bytes) -> set[int]:
    """The interfaces of a route to everywhere; none of any other route.

    Raises OSError where it only names an object of its ways, as kernels do whose
    net.ipv4.nexthop_compat_mode is off: over which interfaces that leads is not in the list.
    """
    if len(message) < _ROUTE_HEADER.size:
        return set()
    fields = _ROUTE_HEADER.unpack_from(message)
    length, kind = fields[1], fields[7]
    if length or kind != _UNICAST:
        return set()
    found: set[int] = set()
    named = False
    for number, value in _attributes(message[_ROUTE_HEADER.size :]):
        if number == _OIF and len(value) == 4:
            found.add(struct.unpack("=I", value)[0])
        elif number == _MULTIPATH:
            found |= _hops(value)
        named = named or number == _NEXT_HOP
    if named and not found:
        raise OSError("the kernel names a default route's ways by an object's number alone")
    return found


def _failed(message: bytes) -> bool:
    """A list's end says with what it ended: nothing, or the number of an error."""
    return len(message) >= _RESULT.size and _RESULT.unpack_from(message)[0] != 0


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
