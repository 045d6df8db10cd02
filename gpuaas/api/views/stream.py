"""What is happening now?  The tenant's events as they are sealed, over one open answer."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from gpuaas.api.base import TenantView
from gpuaas.api.problems import InvalidQuery
from gpuaas.api.serializers.allocations import Position
from gpuaas.api.views.events import PLATFORM_CHAIN, event_shown, seals_after
from gpuaas.kernel import seals
from gpuaas.kernel.errors import FieldError
from gpuaas.kernel.models import EventSeal
from gpuaas.kernel.notify import hub
from gpuaas.kernel.scope import tenant_scope

HEARTBEAT_S = 15.0
BATCH = 200
RETRY_MS = 3000


class Stream(TenantView):
    """Server-sent events. Holds no database connection while nothing happens."""

    @extend_schema(
        operation_id="stream",
        tags=["events"],
        parameters=[
            Position,
            OpenApiParameter(
                "Last-Event-ID", int, OpenApiParameter.HEADER, description="Go on after this seq."
            ),
        ],
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Events after Last-Event-ID (or ``after``), else from now on, as they are sealed.

        Each has its seq as id, its kind as event name and its JSON as data. A comment comes
        every 15 s. When the process has no seat left, the stream ends at once: come again.
        """
        query = Position.read(request.query_params)
        chain = self.actor.tenant_id
        last = request.headers.get("Last-Event-ID", "").strip()
        if last and not (last.isascii() and last.isdigit() and len(last) < 19):
            wrong = FieldError("/Last-Event-ID", "bad_format", "the id of an event")
            raise InvalidQuery("Last-Event-ID is not an event's id.", errors=(wrong,))
        after = int(last) if last else query.get("after")
        response = StreamingHttpResponse(
            frames(chain, after, operator=self.actor.operator),
            content_type="text/event-stream; charset=utf-8",
        )
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Accel-Buffering"] = "no"
        return response


def frames(
    tenant_id: UUID | None, after: int | None, *, operator: bool
) -> Generator[bytes, None, None]:
    """The frames of one stream, until the reader goes away."""
    chain = tenant_id or PLATFORM_CHAIN
    yield f"retry: {RETRY_MS}\n\n".encode()
    for _ in hub.stream([f"{seals.FEED}:{chain}"], HEARTBEAT_S):
        if after is None:
            after = _head(tenant_id, chain)
        found = False
        while batch := _next(tenant_id, chain, after, operator):
            found = True
            for event in batch:
                after = int(event["seq"])
                yield _frame(event)
        if not found:
            yield b": still here\n\n"


def _scope(tenant_id: UUID | None) -> Any:
    return tenant_scope(tenant_id) if tenant_id else nullcontext()


def _head(tenant_id: UUID | None, chain: UUID) -> int:
    with _scope(tenant_id):
        last = EventSeal.objects.filter(chain=chain).order_by("-seq").values_list("seq").first()
    return int(last[0]) if last else 0


def _next(tenant_id: UUID | None, chain: UUID, after: int, operator: bool) -> list[dict[str, Any]]:
    with _scope(tenant_id):
        return [event_shown(seal, operator=operator) for seal in seals_after(chain, after, BATCH)]


def _frame(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, cls=DjangoJSONEncoder, separators=(",", ":"))
    return f"id: {event['seq']}\nevent: {event['kind']}\ndata: {data}\n\n".encode()
