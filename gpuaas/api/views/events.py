"""What happened?  The tenant's sealed chain as a feed, in chain order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import TenantView
from gpuaas.api.pagination import limit_of
from gpuaas.api.problems import InvalidQuery
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.serializers.common import EventOut, EventPage
from gpuaas.kernel.errors import FieldError
from gpuaas.kernel.models import EventSeal
from placement import selectors

PLATFORM_CHAIN = UUID(int=0)


def seals_after(chain: UUID, after: int, limit: int) -> list[EventSeal]:
    """The next seals of a chain with their events."""
    rows: QuerySet[EventSeal] = EventSeal.objects.filter(chain=chain, seq__gt=after)
    return list(rows.select_related("event").order_by("seq")[:limit])


def event_shown(seal: EventSeal, *, operator: bool) -> dict[str, Any]:
    """The representation of a sealed event; what it says of hosts is for operators only."""
    event = seal.event
    subject = None
    if event.subject_kind:
        subject = {"kind": event.subject_kind, "id": str(event.subject_id or "") or None}
    actor = selectors.event_actor(event, operator=operator)
    body = {
        "seq": seal.seq,
        "id": event.uid,
        "at": event.at,
        "kind": event.kind,
        "subject": subject,
        "actor": {name: actor.get(name, "") for name in ("kind", "id", "name")},
        "before": event.before,
        "after": event.after,
        "reason": selectors.event_reason(event, operator=operator),
        "facts": selectors.event_facts(event, operator=operator),
        "request_id": event.correlation,
        "digest": bytes(seal.digest).hex(),
    }
    return dict(EventOut(body).data)


class Events(TenantView):
    """The feed."""

    @extend_schema(
        operation_id="event_list",
        tags=["events"],
        parameters=[wire.EventQuery],
        responses=EventPage,
    )
    def get(self, request: Request) -> Response:
        """Sealed events after a position. Operators without a tenant read the platform's chain.

        Pages follow the chain's own order, in which nothing appears before what is already
        read; the cursor is the last position.
        """
        query = wire.EventQuery.read(request.query_params)
        after = int(query.get("after") or _position(query.get("cursor", "")) or 0)
        limit = limit_of(query)
        chain = self.actor.tenant_id or PLATFORM_CHAIN
        found = seals_after(chain, after, limit + 1)
        operator = self.actor.operator
        shown = [event_shown(seal, operator=operator) for seal in found[:limit]]
        last = shown[-1]["seq"] if shown else after
        following = str(last) if len(found) > limit else ""
        return Response({"items": shown, "next": following, "last_seq": last})


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20) or int(cursor) >= 2**63:
        wrong = FieldError("/cursor", "bad_format", "the 'next' of the page before")
        raise InvalidQuery("The cursor is not a position of this feed.", errors=(wrong,))
    return int(cursor)
