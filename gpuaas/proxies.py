"""Who asks, when a proxy hands the request on, and who is counted as one?

A proxy that the operator named is believed about whom it speaks for; nobody else is, since every
caller can write these headers. Without one, what the connection says is all that there is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SCHEMES = frozenset({"http", "https"})
UNKNOWN = "unknown"
"""Who asks where a trusted proxy names nobody that can be read: not the proxy, and no address."""
ONE_CALLER = 64
"""Of an IPv6 address, the bits that its network has given; the rest whoever asks chooses."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The address and the scheme that a request came from, and with."""

    address: str
    scheme: str


def networks_of(words: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks as they are written in settings. Raises ValueError, which names the
    word."""
    return tuple(ipaddress.ip_network(word) for word in words)


def caller_of(environ: Mapping[str, object], trusted: Sequence[Network]) -> Caller:
    """Who asks, by the connection and, through trusted proxies, by X-Forwarded-For and -Proto.

    The list is read from its end, where each proxy adds whom it heard: the first that is no trusted
    proxy asks. What stands before that was said by whoever asks, and so is not believed; a list
    that cannot be read is not, either, and who asks is then unknown.
    """
    address = str(environ.get("REMOTE_ADDR", ""))
    scheme = str(environ.get("wsgi.url_scheme", "http"))
    if not _within(address, trusted):
        return Caller(address, scheme)
    said = str(environ.get("HTTP_X_FORWARDED_PROTO", "")).rpartition(",")[2].strip().lower()
    if said in SCHEMES:
        scheme = said
    listed = str(environ.get("HTTP_X_FORWARDED_FOR", ""))
    if not listed.strip():
        # The proxy asks for itself, as it does when it looks whether the platform is well.
        return Caller(address, scheme)
    for word in reversed(listed.split(",")):
        address = _address(word) or UNKNOWN
        if not _within(address, trusted):
            break
    return Caller(address, scheme)


def counted_as(address: str) -> str:
    """The address under which calls and wrong passwords from this one are counted.

    Whoever has an IPv6 network has all its addresses: they count as its first.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found), ONE_CALLER), strict=False).network_address)


def _address(word: str) -> str | None:
    """The address in one place of the list, without the port that some proxies add."""
    text = word.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _within(address: str, networks: Sequence[Network]) -> bool:
    if not networks:
        return False
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return any(mapped in network for network in networks if network.version == mapped.version)
