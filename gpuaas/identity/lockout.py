"""Whose wrong passwords count together?"""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest

from gpuaas.proxies import counted_as


def counted_caller(request: HttpRequest) -> str | None:
    """The address that the sender of a request is counted by; None where there is none, since
    failures are kept with addresses alone."""
    counted = counted_as(request.META.get("REMOTE_ADDR", ""))
    try:
        ipaddress.ip_address(counted)
    except ValueError:
        return None
    return counted
