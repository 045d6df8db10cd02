"""Which request is this?  One id, in every log line, event, answer and header."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponseBase

from gpuaas.kernel import ids

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def request_id_of(request: HttpRequest) -> str:
    """The id of a request that passed the middleware; a fresh one otherwise."""
    known = getattr(request, "request_id", "")
    return str(known or ids.new_id())


class RequestContextMiddleware:
    """Takes the caller's X-Request-ID when it is harmless, makes one otherwise, and echoes it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get(HEADER, "")
        request_id = given if _SANE.fullmatch(given) else str(ids.new_id())
        request.request_id = request_id  # type: ignore[attr-defined]  # read by request_id_of
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id, path=request.path[:200])
        try:
            response = self.get_response(request)
        finally:
            structlog.contextvars.clear_contextvars()
        response.headers[HEADER] = request_id
        return response
