"""Which request is this, and who reads its answer?  One id, in every log line and header."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers

from gpuaas.kernel import ids
from gpuaas.kernel.hints import Surface, read_on

HEADER = "X-Request-ID"
MACHINE_PATHS = ("/api/", "/agent/", "/problems/", "/livez", "/readyz", "/metrics")
CLIENT = "gpuaas-cli"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def request_id_of(request: HttpRequest) -> str:
    """The id of a request that passed the middleware; a fresh one otherwise."""
    known = getattr(request, "request_id", "")
    return str(known or ids.new_id())


def is_machine(request: HttpRequest) -> bool:
    """Whether the address belongs to programs, which want a problem and not a page."""
    return is_machine_path(request.path)


def is_machine_path(path: str) -> bool:
    """The same of an address alone."""
    return path.startswith(MACHINE_PATHS)


def surface_of(request: HttpRequest) -> Surface:
    """Whose words the answer's ways out are in: our own client calls the API for a person."""
    if not is_machine(request):
        return Surface.PAGE
    client = request.headers.get("User-Agent", "").startswith(CLIENT)
    return Surface.CLI if client else Surface.API


class RequestContextMiddleware:
    """Takes the caller's X-Request-ID when it is harmless, makes one otherwise, and echoes it.

    Ways out are told in the words of the surface that the request came in on.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(HEADER, "")
        request_id = given if _SANE.fullmatch(given) else str(ids.new_id())
        request.request_id = request_id  # type: ignore[attr-defined]  # read by request_id_of
        said = structlog.contextvars.bind_contextvars(
            request_id=request_id, path=request.path[:200]
        )
        try:
            with read_on(surface_of(request)):
                response = self.get_response(request)
        finally:
            structlog.contextvars.reset_contextvars(**said)
        response.headers[HEADER] = request_id
        if is_machine(request):
            if "Vary" in response.headers:
                patch_vary_headers(response, ("User-Agent",))
            else:
                response.headers["Vary"] = "User-Agent"
        return response
