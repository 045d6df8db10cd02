"""What happens around every handler?  Identity, permission, limit, scope, transaction, answer.

The handler of a tenant's request runs in one transaction as the tenant's database role. What
it raises undoes everything, with one exception: an error that is marked as kept is an outcome,
and what was written about it (request, decision, event) stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gpuaas.api import conditional, errors, idempotent, limits, problems
from gpuaas.api.middleware import request_id_of
from gpuaas.api.shown import version_shown
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.scope import tenant_scope
from gpuaas.proxies import counted_as

CHANGES = frozenset({"POST", "PUT", "DELETE"})
"""Changes that need not name a version; a PATCH has to, and compares it itself."""
REMEMBERED = frozenset({"POST", "PUT", "PATCH"})
"""A change by If-Match whose answer was lost would, repeated, be told that it came too late."""


class OnlyJson(BaseContentNegotiation):
    """Every answer is JSON, whatever a browser says that it accepts."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """The parser whose media type the body has."""
        kind = request.content_type.partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == kind), None)

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The only renderer."""
        return renderers[0], renderers[0].media_type


class ProductView(APIView):
    """The base of every view. Handlers take the request and the path's parts."""

    content_negotiation_class = OnlyJson
    metadata_class = None
    format_kwarg = None
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]  # noqa: RUF012
    policy: ClassVar[limits.Policy] = limits.API
    key_required: ClassVar[bool] = False
    """Whether a POST here must carry an Idempotency-Key."""
    remembers: ClassVar[bool] = True
    """Whether answers to a POST are kept for repeats. Not where the answer holds a secret."""
    heeds_version: ClassVar[bool] = False
    """Whether the handler compares the version that If-Match names itself, under its own locks.
    Every PATCH does."""

    also_fails: ClassVar[tuple[int, ...]] = ()
    """Statuses of problems here that the kind of address does not let one expect."""

    spent: limits.Spent | None = None

    @property
    def actor(self) -> Actor:
        """Who is calling. Only for views whose rule wants somebody."""
        actor = self.request.auth
        if not isinstance(actor, Actor):
            raise errors.Unauthenticated
        return actor

    def caller(self) -> Actor:
        """Who is calling, or the anonymous stranger at the front door."""
        actor = self.request.auth
        if isinstance(actor, Actor):
            return actor
        request_id = request_id_of(self.request)
        return Actor(kind="user", id="anonymous", name="anonymous", request_id=request_id)

    def needs_key(self, request: Request) -> bool:
        """Whether this very POST must carry an Idempotency-Key."""
        return self.key_required

    # The run of one request.

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Authenticate, admit, spend, run the handler in its scope, and make an answer."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = {}
        response: HttpResponseBase
        try:
            handler = self._handler(self.request)
            self.initial(self.request, *args, **kwargs)
            response = self.run(handler, self.request, *args, **kwargs)
            response = self.afterwards(response)
        except Exception as failure:
            response = self.handle_exception(failure)
        self.response = self.finalize_response(
            self.request,
            response,  # type: ignore[arg-type]  # any HttpResponseBase is taken
            *args,
            **kwargs,
        )
        for name, value in self.extra_headers().items():
            self.response.headers.setdefault(name, value)
        return self.response

    def _handler(self, request: Request) -> Callable[..., HttpResponseBase]:
        method = (request.method or "").lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        if handler is None:
            raise errors.MethodRefused(f"Allowed here: {', '.join(self.allowed_methods)}.")
        return handler  # type: ignore[no-any-return]  # found by name, as DRF does

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Who is it, do they call too often, and are they admitted?"""
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(
            request
        )
        try:
            self.perform_authentication(request)
        except Exception:
            self.spend(request)
            raise
        self.spend(request)
        self.check_permissions(request)

    def perform_authentication(self, request: Request) -> None:
        """Touch the identity, so that a bad one is told before anything else is."""
        _ = request.auth

    def spend(self, request: Request) -> None:
        """Take one call from the principal's bucket. Raises RateLimited."""
        # The attribute is set once authentication has run, also when it has failed.
        actor = getattr(request, "_auth", None)
        if isinstance(actor, Actor):
            policy, principal = self.policy, f"{actor.kind}:{actor.id}"
        else:
            address = counted_as(request.META.get("REMOTE_ADDR", ""))
            policy = limits.ANONYMOUS if self.policy is limits.API else self.policy
            principal = f"address:{address}"
        self.spent = limits.buckets.spend(policy, principal)
        limits.refuse_if_spent(self.spent)

    def run(
        self, handler: Callable[..., HttpResponseBase], request: Request, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """The handler in its scope and transaction, at most once per idempotency key."""
        with self.scope():
            if request.method not in REMEMBERED or not self.remembers:
                return self._outcome(handler, request, *args, **kwargs)
            return idempotent.answer(
                request,
                self.caller(),
                required=request.method == "POST" and self.needs_key(request),
                produce=lambda: self._outcome(handler, request, *args, **kwargs),
            )

    def _outcome(
        self, handler: Callable[..., HttpResponseBase], request: Request, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        try:
            self.heed_version(request)
            return handler(request, *args, **kwargs)
        except ProductError as refusal:
            if not refusal.keep:
                raise
            return problems.response_for(refusal, request)

    def heed_version(self, request: Request) -> None:
        """Compare the version that a change names with what is shown at its address, unless the
        handler does it itself. Raises PreconditionFailed, and InvalidRequest where there is none.
        """
        if (
            request.method not in CHANGES
            or self.heeds_version
            or not conditional.names_version(request)
        ):
            return
        version = version_shown(request)
        if version is None:
            conditional.refuse_unheeded()
        conditional.require_version(request, version)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """One transaction; as the tenant's role when the caller acts for a tenant."""
        actor = self.request.auth
        if isinstance(actor, Actor) and actor.tenant_id is not None:
            with tenant_scope(actor.tenant_id):
                yield
        else:
            with transaction.atomic():
                yield

    def afterwards(self, response: HttpResponseBase) -> HttpResponseBase:
        """A place to wait after the transaction has ended, holding no connection."""
        return response

    # Answers.

    def handle_exception(self, exc: Exception) -> Response:
        """Every failure is a problem document."""
        response = problems.exception_handler(exc, {"view": self, "request": self.request})
        response.exception = True
        if response.status_code == 405:
            response.headers["Allow"] = ", ".join(self.allowed_methods)
        return response

    def extra_headers(self) -> Mapping[str, str]:
        """What goes with every answer: rate limits, and that it is nobody else's to keep."""
        headers = {"Cache-Control": "no-store"}
        if self.spent is not None:
            headers |= self.spent.headers()
        return headers

    def tagged(self, request: Request, body: Any, *, version: int) -> Response:
        """An answer with its ETag, or 304 when the caller has it."""
        tag = conditional.tag_of(version, body)
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if request.method in {"GET", "HEAD"} and conditional.is_known(request, tag):
            return Response(status=304, headers=headers)
        return Response(body, headers=headers)


class TenantView(ProductView):
    """A tenant's own things. An operator without a tenant sees those of all, where the table
    allows it."""

    @property
    def tenant_id(self) -> Any:
        """The tenant in scope. Raises TenantRequired when there is none."""
        if self.actor.tenant_id is None:
            raise errors.TenantRequired
        return self.actor.tenant_id


class OperatorView(ProductView):
    """The platform's side: no tenant scope, whatever tenant the operator may belong to."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """One transaction as the platform."""
        with transaction.atomic():
            yield


class OpenView(ProductView):
    """For anyone. A bad token is no hindrance, since none is needed."""

    authentication_classes = ()


class StaticView(OpenView):
    """For anyone, and the same for all: it asks no database."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """No transaction."""
        yield
