"""Which requests need nothing that pages need?  A program's, which shows its token each time.

Sessions, cookies, forms, messages and second factors belong to browsers. A call of the API that
carries an Authorization header is told by that header alone, and a host's message by its signature,
so what only browsers need is not set up for it: it goes straight to its view, with the same headers
of protection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import ResolverMatch, URLResolver, get_resolver

PROGRAMS: Final = "/api/v1/"
HOSTS: Final = "/agent/v1/"
METRICS: Final = "/metrics"
PROBES: Final = frozenset({"/livez", "/readyz", METRICS})
"""Asked by what stands beside the server and knows it by an address: answered whatever the Host
header says, since their answers name no host."""
DOORS: Final = ("/api/v1/auth/", "/api/v1/signup")
"""Where somebody becomes somebody: what watches sign-ins watches here too."""
FACTOR: Final = "HTTP_GPUAAS_SECOND_FACTOR"
KEPT_LENGTH: Final = 200
"""The longest address whose view is remembered."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}


def straight(request: HttpRequest) -> bool:
    """Whether a request is a program's, which brings all that tells who it is."""
    path = request.path_info
    meta = request.META
    return (
        # An operator's browser shows metrics by its session.
        (path in PROBES and (path != METRICS or not meta.get("HTTP_COOKIE")))
        or path.startswith(HOSTS)
        or (
            bool(meta.get("HTTP_AUTHORIZATION"))
            and path.startswith(PROGRAMS)
            and not path.startswith(DOORS)
            and FACTOR not in meta
        )
    )


@lru_cache(maxsize=512)
def _match(resolver: URLResolver, path: str) -> ResolverMatch:
    """Looked for once: there are many patterns to hold an address against."""
    return resolver.resolve(path)


class _Views(BaseHandler):
    """Django's way from a request to its view, with nothing between."""

    def __init__(self) -> None:
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """The view of an address. Programs ask the same few again and again."""
        path, resolver = request.path_info, get_resolver()
        find = _match if len(path) <= KEPT_LENGTH else _match.__wrapped__
        match = request.resolver_match = find(resolver, path)
        return match

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """The view's answer. Raises DisallowedHost, and what the view raises."""
        if request.path_info not in PROBES:
            request.get_host()
        made: HttpResponseBase = self._get_response(request)  # type: ignore[attr-defined]  # Django's own, which the stubs leave out
        return made


class ProgramLaneMiddleware:
    """Lets programs pass by the middleware that stands behind it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._pages = get_response
        views: Any = convert_exception_to_response(_Views().answer)
        self._views: Callable[[HttpRequest], HttpResponseBase] = views

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, from the view at once or by the long way."""
        if not straight(request):
            return self._pages(request)
        response = self._views(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if isinstance(response, HttpResponse):
            response.headers["Content-Length"] = str(len(response.content))
        return response
