"""Whom does a request come from, when a proxy hands it on?"""

from __future__ import annotations

import pytest

from gpuaas.proxies import UNKNOWN, Caller, caller_of, counted_as, networks_of

OURS = networks_of(["10.0.0.0/8", "fd00::/8"])


def heard(
    address: str, forwarded: str | None = None, proto: str | None = None, scheme: str = "http"
) -> dict[str, object]:
    environ: dict[str, object] = {"REMOTE_ADDR": address, "wsgi.url_scheme": scheme}
    if forwarded is not None:
        environ["HTTP_X_FORWARDED_FOR"] = forwarded
    if proto is not None:
        environ["HTTP_X_FORWARDED_PROTO"] = proto
    return environ


def test_a_stranger_is_not_believed_about_whom_it_speaks_for() -> None:
    environ = heard("203.0.113.9", "198.51.100.1", "https")
    assert caller_of(environ, OURS) == Caller("203.0.113.9", "http")
    assert caller_of(heard("10.0.0.2", "198.51.100.1", "https"), ()) == Caller("10.0.0.2", "http")


def test_a_trusted_proxy_says_who_asks_and_by_which_scheme() -> None:
    environ = heard("10.0.0.2", "198.51.100.1", "https")
    assert caller_of(environ, OURS) == Caller("198.51.100.1", "https")


def test_what_the_caller_wrote_before_the_proxies_is_passed_over() -> None:
    environ = heard("10.0.0.2", "127.0.0.1, 198.51.100.1, 10.9.9.9", "http, https")
    assert caller_of(environ, OURS) == Caller("198.51.100.1", "https")


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("198.51.100.1:4711", "198.51.100.1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ('"[2001:db8::1]"', "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("unknown", UNKNOWN),
        ("198.51.100.1, nonsense", UNKNOWN),
        ("198.51.100.1, nonsense, 10.9.9.9", UNKNOWN),
        ("198.51.100.1,", UNKNOWN),
        ("", "10.0.0.2"),
        (" ", "10.0.0.2"),
        (" , ", UNKNOWN),
        ("10.1.1.1, 10.2.2.2", "10.1.1.1"),
    ],
)
def test_odd_lists_are_read_as_far_as_they_can_be_believed(forwarded: str, address: str) -> None:
    assert caller_of(heard("10.0.0.2", forwarded), OURS).address == address


def test_a_scheme_that_is_none_is_not_taken() -> None:
    assert caller_of(heard("10.0.0.2", "198.51.100.1", "gopher"), OURS).scheme == "http"


def test_an_address_of_version_four_within_version_six_is_the_same_proxy() -> None:
    assert caller_of(heard("::ffff:10.0.0.2", "198.51.100.1"), OURS).address == "198.51.100.1"


def test_without_an_address_nobody_is_trusted() -> None:
    assert caller_of(heard("", "198.51.100.1"), OURS) == Caller("", "http")


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2::7", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
        ("2001:db8:1:3::7", "2001:db8:1:3::"),
        ("fe80::7%eth0", "fe80::"),
        (UNKNOWN, UNKNOWN),
        ("", ""),
    ],
)
def test_whoever_has_a_network_is_counted_once(address: str, counted: str) -> None:
    assert counted_as(address) == counted
