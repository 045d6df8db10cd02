"""How is a failure told?  Always as application/problem+json (RFC 9457), never with internals."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import django.http
from django.core import exceptions as django_errors
from django.db import DataError, IntegrityError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, is_valid_path
from django.views import defaults
from rest_framework import exceptions as drf
from rest_framework.response import Response

from gpuaas.api import answered, errors
from gpuaas.api.middleware import is_machine, request_id_of
from gpuaas.api.parsing import escape
from gpuaas.kernel.errors import (
    ConcurrentUpdate,
    FieldError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ProductError,
    ServiceUnavailable,
)

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2

_ADMITTED_FACT_TYPES = (str, int, float, bool, type(None), list, tuple, dict)


class InvalidQuery(InvalidRequest):
    """A wrong query parameter; its errors say ``in: query``."""


def product_error(exc: BaseException) -> ProductError:
    """The catalogued error that an exception amounts to. Unknown ones become internal_error."""
    if isinstance(exc, ProductError):
        return exc
    if isinstance(exc, drf.ValidationError):
        return InvalidRequest(errors=tuple(field_errors(exc.detail)))
    if isinstance(exc, drf.ParseError):
        return errors.MalformedJson("The body cannot be read.")
    if isinstance(exc, drf.NotAuthenticated | drf.AuthenticationFailed):
        return errors.Unauthenticated()
    if isinstance(exc, drf.PermissionDenied | django_errors.PermissionDenied):
        return PermissionDenied()
    if isinstance(exc, drf.NotFound | django.http.Http404 | django_errors.ObjectDoesNotExist):
        return NotFound()
    if isinstance(exc, drf.MethodNotAllowed):
        return errors.MethodRefused()
    if isinstance(exc, drf.UnsupportedMediaType):
        return errors.UnsupportedMedia()
    if isinstance(exc, django_errors.RequestDataTooBig):
        return errors.BodyTooLarge()
    if isinstance(exc, django_errors.DisallowedHost):
        return errors.BadRequest("The Host header is none of those that this server answers to.")
    if isinstance(exc, django_errors.SuspiciousOperation | django_errors.BadRequest):
        return errors.BadRequest()
    return _database_error(exc) or errors.InternalError()


def _database_error(exc: BaseException) -> ProductError | None:
    if isinstance(exc, IntegrityError):
        return errors.Conflict()
    if isinstance(exc, DataError):
        return InvalidRequest("A value does not fit what it is stored in.")
    if isinstance(exc, OperationalError):
        # A deadlock, a serialization failure or a lock that could not be had: nothing happened.
        if getattr(exc.__cause__, "sqlstate", None) in {"40P01", "40001", "55P03"}:
            return ConcurrentUpdate("Another change was in the way; nothing was changed.")
        return ServiceUnavailable()
    if isinstance(exc, InterfaceError):
        return ServiceUnavailable()
    return None


def field_errors(detail: Any, pointer: str = "") -> Iterator[FieldError]:
    """Flatten DRF's nested details into JSON pointers."""
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            step = "" if key == "non_field_errors" else f"/{escape(key)}"
            yield from field_errors(inner, pointer + step)
    elif isinstance(detail, list | tuple):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, Mapping | list | tuple)
            yield from field_errors(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield FieldError(pointer, str(getattr(detail, "code", "invalid")), str(detail))


def document(error: ProductError, request: HttpRequest | Any) -> dict[str, Any]:
    """The problem document of an error, as the caller may see it."""
    path = str(getattr(request, "path", ""))
    problem: dict[str, Any] = {
        "type": f"/problems/{error.code.replace('_', '-')}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": path,
        "code": error.code,
        "request_id": request_id_of(request),
        "retryable": error.retryable,
        "unblock": error.unblock,
        "docs": f"/docs/reasons/{error.code}",
        "errors": [
            {
                "pointer": one.pointer,
                "in": "query" if isinstance(error, InvalidQuery) else "body",
                "code": one.code,
                "detail": one.detail,
            }
            for one in error.errors
        ],
    }
    facts = {key: _plain(value) for key, value in error.facts.items()}
    decision = facts.pop("decision", None)
    if decision is not None:
        problem["decision"] = decision
    if "retry_after_s" in facts:
        problem["retry_after_s"] = facts.pop("retry_after_s")
    for member in ("last_sequence", "server_time"):
        # What an agent acts on stands at the top, as its protocol says.
        if member in facts:
            problem[member] = facts[member]
    problem["facts"] = facts
    return problem


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, _ADMITTED_FACT_TYPES) else str(value)


def headers_of(error: ProductError) -> dict[str, str]:
    """Headers that go with an error."""
    headers: dict[str, str] = {"Cache-Control": "no-store"}
    wait = error.facts.get("retry_after_s")
    if wait is None and error.status == 503:
        wait = RETRY_AFTER_S
    if wait is not None:
        headers["Retry-After"] = str(int(wait))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="gpuaas"'
    return headers


def note(error: ProductError, exc: BaseException, request: HttpRequest | Any) -> None:
    """Count it, and log what is our fault, with the trace; the caller's fault is no news."""
    answered.problems.add(error.code, error.status)
    if error.status < 500:
        return
    path = str(getattr(request, "path", ""))
    if isinstance(error, ServiceUnavailable):
        log.warning("no answer for %s: %s", path, type(exc).__name__)
    else:
        log.error("no answer for %s", path, exc_info=exc)


def response_for(exc: BaseException, request: HttpRequest | Any) -> Response:
    """The DRF response of any exception."""
    error = product_error(exc)
    note(error, exc, request)
    return Response(
        document(error, request),
        status=error.status,
        headers=headers_of(error),
        content_type=MEDIA_TYPE,
    )


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's one seam where errors become HTTP."""
    return response_for(exc, context["request"])


def failed_response(exc: BaseException, request: HttpRequest) -> HttpResponse:
    """The response of any exception outside of DRF: counted, and logged where it is our fault."""
    error = product_error(exc)
    note(error, exc, request)
    return _told(error, request)


def plain_response(error: ProductError, request: HttpRequest) -> HttpResponse:
    """The same document outside of DRF."""
    answered.problems.add(error.code, error.status)
    return _told(error, request)


def _told(error: ProductError, request: HttpRequest) -> HttpResponse:
    return JsonResponse(
        document(error, request),
        # As DRF writes it.
        json_dumps_params={"separators": (",", ":"), "ensure_ascii": False},
        status=error.status,
        headers=headers_of(error),
        content_type=MEDIA_TYPE,
    )


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that Django itself refuses."""
    if is_machine(request):
        return plain_response(product_error(exception), request)
    return defaults.bad_request(request, exception)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A refusal outside of the api's own views."""
    if is_machine(request):
        return plain_response(PermissionDenied(), request)
    return defaults.permission_denied(request, exception)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address that leads nowhere."""
    if is_machine(request):
        return plain_response(NotFound(_nowhere(request, exception)), request)
    return defaults.page_not_found(request, exception)


def _nowhere(request: HttpRequest, exception: Exception) -> str:
    """What is to be said of an address that no view has; nothing where a view missed something."""
    if not isinstance(exception, Resolver404):
        return ""
    bare = request.path.rstrip("/")
    if bare != request.path and is_valid_path(bare):
        return f"There is nothing at {request.path}: without the slash at its end there is."
    return f"There is nothing at {request.path}."


def handler500(request: HttpRequest) -> HttpResponse:
    """A failure outside of the api's own views; Django has logged it."""
    if is_machine(request):
        return plain_response(errors.InternalError(), request)
    return defaults.server_error(request)
