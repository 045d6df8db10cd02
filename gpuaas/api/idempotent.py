"""Has this very request been answered before?  One key, one effect, one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import errors
from gpuaas.kernel import idempotency
from gpuaas.kernel.actor import Actor

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_KEPT_HEADERS = ("Location", "ETag", "Retry-After", "WWW-Authenticate")


def key_of(request: Request, *, required: bool) -> str:
    """The caller's key without its optional quotes, or an empty string.

    Raises IdempotencyKeyRequired and IdempotencyKeyMalformed.
    """
    given = request.headers.get(HEADER, "").strip()
    if not given:
        if required:
            raise errors.IdempotencyKeyRequired
        return ""
    key = given[1:-1] if len(given) > 2 and given[0] == given[-1] == '"' else given
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise errors.IdempotencyKeyMalformed
    return key


def answer(
    request: Request, actor: Actor, *, required: bool, produce: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """The outcome of a POST, produced at most once per key and principal.

    Is the whole of the request's transaction: key, effect and answer commit together.
    """
    key = key_of(request, required=required)
    if not key:
        return produce()
    fingerprint = _fingerprint(request)
    principal = idempotency.principal_of(actor)
    with idempotency.guard(principal, key, fingerprint, whole=True) as use:
        if use.replay is not None:
            return _replayed(use.replay)
        response = produce()
        if isinstance(response, Response):
            body = b"" if response.data is None else JSONRenderer().render(response.data)
            headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response}
            headers["Content-Type"] = response.content_type or JSONRenderer.media_type
            use.store(response.status_code, headers, body)
            if body:
                # What is kept is what is sent: it counts as rendered.
                response.headers["Content-Type"] = headers["Content-Type"]
                response.content = body
        return response


def carried(
    request: Request, actor: Actor, *, status: int, form: str, headers: Mapping[str, str]
) -> idempotency.Carried:
    """The request's key for the statement that is its whole effect, with the answer's JSON.

    Raises IdempotencyKeyRequired and IdempotencyKeyMalformed.
    """
    return idempotency.Carried(
        principal=idempotency.principal_of(actor),
        key=key_of(request, required=True),
        fingerprint=_fingerprint(request),
        status=status,
        headers={**headers, "Content-Type": JSONRenderer.media_type},
        form=form,
    )


def carried_answer(kept: idempotency.Carried, at: datetime) -> HttpResponse:
    """The answer that was kept at that time."""
    return HttpResponse(kept.body(at), status=kept.status, headers=dict(kept.headers))


def _fingerprint(request: Request) -> str:
    return idempotency.fingerprint_of(
        request.method or "", _lasting_path(request), request._request.body
    )


def _lasting_path(request: Request) -> str:
    """Path and query, without how long the caller was ready to wait."""
    query = request._request.META.get("QUERY_STRING", "")
    if not query:
        return f"{request.path}?"
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != "wait"]
    return f"{request.path}?{urlencode(kept)}"


def _replayed(stored: idempotency.Stored) -> HttpResponse:
    response = HttpResponse(stored.body, status=stored.status)
    for name, value in stored.headers.items():
        response.headers[name] = value
    response.headers[REPLAYED] = "true"
    return response
