"""Which host speaks, and what does it say?  Signature first, then the typed message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self, TypeVar

from django.core.exceptions import RequestDataTooBig
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import errors, limits
from gpuaas.api.base import ProductView
from gpuaas.api.middleware import request_id_of
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError
from placement.errors import CredentialInvalid, WireRefused
from placement.models import Node
from placement.node_tasks import MAX_BODY_BYTES, WireError, load_json
from placement.services.signatures import request_authenticate

_MOST = 2**63 - 1


class FromWire(Protocol):
    """A message type of the agent protocol."""

    @classmethod
    def from_json(cls, value: Any, pointer: str = "") -> Self: ...


class ToWire(Protocol):
    """An answer type of the agent protocol."""

    def to_json(self) -> dict[str, Any]: ...


W = TypeVar("W", bound=FromWire)


def raw_body(request: Request) -> bytes:
    """The body as it was sent. Raises BodyTooLarge."""
    try:
        body = request._request.body
    except RequestDataTooBig:
        raise errors.BodyTooLarge(limit_bytes=MAX_BODY_BYTES) from None
    if len(body) > MAX_BODY_BYTES:
        raise errors.BodyTooLarge(limit_bytes=MAX_BODY_BYTES)
    return body


def message_of(request: Request, kind: type[W]) -> W:
    """The typed message in the body. Raises WireRefused naming the first wrong place."""
    try:
        return kind.from_json(load_json(raw_body(request)))
    except WireError as wrong:
        where = FieldError(wrong.pointer, wrong.code, wrong.detail)
        raise WireRefused(
            f"{wrong.pointer or 'the document'}: {wrong.detail}.", errors=(where,)
        ) from None


def answered(answer: ToWire | None) -> Response:
    """An answer in the protocol's own form."""
    return Response(answer.to_json() if answer is not None else {})


class AgentView(ProductView):
    """A signed message from a host. Its services decide about transactions themselves, because
    a late result is refused and kept at the same time."""

    authentication_classes = ()
    remembers = False
    policy: ClassVar[limits.Policy] = limits.AGENT
    renews: ClassVar[bool] = False
    node: Node

    @contextmanager
    def scope(self) -> Iterator[None]:
        """No transaction of its own."""
        yield

    def perform_authentication(self, request: Request) -> None:
        """Check the signature over method, path, sequence, time and body."""
        self.node = request_authenticate(
            credential_id=request.headers.get("Gpuaas-Credential", ""),
            sequence=_number(request, "Gpuaas-Sequence"),
            timestamp=_number(request, "Gpuaas-Timestamp"),
            signature=request.headers.get("Gpuaas-Signature", ""),
            method=request.method or "",
            path=request.get_full_path(),
            body=raw_body(request),
            renewing=self.renews,
        )
        request.auth = Actor(
            kind="node",
            id=str(self.node.pk),
            name=self.node.name,
            request_id=request_id_of(request),
        )


def _number(request: Request, header: str) -> int:
    """A whole number of a header. A malformed one is told like a wrong signature."""
    text = request.headers.get(header, "")
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _MOST:
        raise CredentialInvalid(f"{header} is not a number.")
    return int(text)
