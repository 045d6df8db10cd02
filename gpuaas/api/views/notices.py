"""What was a tenant told about its allocations?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import TenantView
from gpuaas.api.pagination import page
from gpuaas.api.serializers import maintenance as wire
from gpuaas.api.serializers.common import page_of
from placement.models import Notice
from placement.selectors.notices import notice_list
from placement.services.notices import notice_acknowledge


def notice_shown(row: Notice) -> dict[str, Any]:
    """The representation of one notice."""
    body = {
        "id": row.pk,
        "allocation": {"id": row.allocation_id, "name": row.allocation.name},
        "kind": row.kind,
        "text": row.text,
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
        "acknowledged_at": row.acknowledged_at,
        "created_at": row.created_at,
    }
    return dict(wire.NoticeOut(body).data)


class Notices(TenantView):
    """What the tenant was told."""

    @extend_schema(
        operation_id="notice_list",
        tags=["notices"],
        parameters=[wire.NoticeQuery],
        responses=page_of(wire.NoticeOut, "Notice"),
    )
    def get(self, request: Request) -> Response:
        """Notices about allocations, newest first."""
        query = wire.NoticeQuery.read(request.query_params)
        rows = notice_list(self.actor.tenant_id, unread=bool(query.get("unread")))
        return Response(
            page(
                rows,
                query=query,
                name="notices",
                render=lambda found: [notice_shown(row) for row in found],
            )
        )


class NoticeAcknowledge(TenantView):
    """A notice that was read."""

    @extend_schema(
        operation_id="notice_acknowledge",
        tags=["notices"],
        request=None,
        responses=wire.NoticeOut,
    )
    def post(self, request: Request, notice_id: UUID) -> Response:
        """Say that it was read."""
        notice_acknowledge(notice_id=notice_id, actor=self.actor)
        return Response(notice_shown(notice_list(self.tenant_id).get(pk=notice_id)))
