"""Which host speaks, and what does it say?  Signature first, then the typed message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from gpuaas.api import errors, limits, problems
from gpuaas.api.base import ProductView
from gpuaas.kernel.errors import FieldError
from gpuaas.proxies import counted_as
from placement.errors import CredentialInvalid, WireRefused
from placement.models import Node
from placement.node_tasks import MAX_BODY_BYTES, WireError, load_json
from placement.services.signatures import Signed, host_of, number_take, signer_of

_MOST = 2**63 - 1


class FromWire(Protocol):
    """A message type of the agent protocol."""

    @classmethod
    def from_json(cls, value: Any, pointer: str = "") -> Self: ...


class ToWire(Protocol):
    """An answer type of the agent protocol."""

    def to_json(self) -> dict[str, Any]: ...


W = TypeVar("W", bound=FromWire)


def raw_body(request: HttpRequest) -> bytes:
    """The body as it was sent. Raises BodyTooLarge."""
    try:
        body = request.body
    except RequestDataTooBig:
        raise errors.BodyTooLarge(limit_bytes=MAX_BODY_BYTES) from None
    if len(body) > MAX_BODY_BYTES:
        raise errors.BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
    return body


def message_of(body: bytes, kind: type[W]) -> W:
    """The typed message in a body. Raises WireRefused naming the first wrong place."""
    try:
        return kind.from_json(load_json(body))
    except WireError as wrong:
        where = FieldError(wrong.pointer, wrong.code, wrong.detail)
        raise WireRefused(
            f"{wrong.pointer or 'the document'}: {wrong.detail}.", errors=(where,)
        ) from None


def answered(answer: ToWire | None) -> HttpResponse:
    """An answer in the protocol's own form."""
    said = answer.to_json() if answer is not None else {}
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return HttpResponse(text.encode(), content_type="application/json")


class AgentView(ProductView):
    """A signed message from a host. Its services decide about transactions themselves, because
    a late result is refused and kept at the same time.

    Handlers take Django's own request: a fleet asks all the time, and these messages need no
    parser, no renderer and no scope.
    """

    authentication_classes = ()
    remembers = False
    policy: ClassVar[limits.Policy] = limits.AGENT
    renews: ClassVar[bool] = False
    said: Signed
    node: Node

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Who says it, may they now, and the answer."""
        try:
            response = self._answer(request, *args, **kwargs)
        except Exception as failure:
            response = problems.failed_response(failure, request)
            if response.status_code == 405:
                response.headers["Allow"] = ", ".join(self.allowed_methods)
        for name, value in self.extra_headers().items():
            response.headers.setdefault(name, value)
        return response

    def _answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        handler: Callable[..., HttpResponse] = self._handler(request)  # type: ignore[arg-type,assignment]  # asks for its method only
        try:
            self.said = _signed(request)
            principal = f"node:{signer_of(self.said)}"
        except Exception:
            self._spend(request)
            raise
        self.spent = limits.buckets.spend(self.policy, principal)
        try:
            if self.spent.allowed:
                self.heard(self.said)
            else:
                number_take(self.said, renewing=self.renews)
        except Exception:
            # A message that somebody repeats is not the host's own.
            if self.spent.allowed:
                limits.buckets.give_back(self.policy, principal)
            self._spend(request)
            raise
        limits.refuse_if_spent(self.spent)
        self.check_permissions(request)  # type: ignore[arg-type]  # asks for route and method only
        return handler(request, *args, **kwargs)

    def heard(self, said: Signed) -> None:
        """Take the number of a message whose signature holds; with it, what it asks where one
        statement can do both. Sets ``node``."""
        self.node = host_of(number_take(said, renewing=self.renews))

    def _spend(self, request: HttpRequest) -> None:
        address = counted_as(request.META.get("REMOTE_ADDR", ""))
        self.spent = limits.buckets.spend(self.policy, f"address:{address}")
        limits.refuse_if_spent(self.spent)


def _signed(request: HttpRequest) -> Signed:
    """The message with what its headers say. Raises BodyTooLarge or CredentialInvalid."""
    meta = request.META
    return Signed(
        credential_id=meta.get("HTTP_GPUAAS_CREDENTIAL", ""),
        sequence=_number(meta, "Gpuaas-Sequence"),
        timestamp=_number(meta, "Gpuaas-Timestamp"),
        signature=meta.get("HTTP_GPUAAS_SIGNATURE", ""),
        method=request.method or "",
        path=request.get_full_path(),
        body=raw_body(request),
        agent=meta.get("HTTP_AGENT_VERSION", ""),
    )


def _number(meta: Mapping[str, str], header: str) -> int:
    """A whole number of a header. A malformed one is told like a wrong signature."""
    text = meta.get(f"HTTP_{header.upper().replace('-', '_')}", "")
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _MOST:
        raise CredentialInvalid(f"{header} is not a number.")
    return int(text)
