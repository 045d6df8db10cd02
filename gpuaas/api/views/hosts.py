"""What does a host measure, and is it still what was approved?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.serializers import hosts as wire
from placement import selectors
from placement.models import Node
from placement.services.differences import slot_accept


class NodeTelemetry(OperatorView):
    """A host's measurements."""

    @extend_schema(
        operation_id="node_telemetry",
        tags=["nodes"],
        parameters=[wire.TelemetryQuery],
        responses=wire.TelemetryOut,
    )
    def get(self, request: Request, node: str) -> Response:
        """The last window with its age; one metric's last hour where it is asked for."""
        query = wire.TelemetryQuery.read(request.query_params)
        row = selectors.node_named(node)
        body = selectors.telemetry_of(row)
        body["measured_by"] = body.pop("source")
        body["node"] = {"id": row.pk, "name": row.name}
        metric = query.get("metric")
        body["history"] = selectors.telemetry_history(row, metric) if metric else []
        return Response(wire.TelemetryOut(body).data)


class NodeIdentityView(OperatorView):
    """A host's identity."""

    @extend_schema(operation_id="node_identity", tags=["nodes"], responses=wire.IdentityOut)
    def get(self, request: Request, node: str) -> Response:
        """Who the host says it is, and every open difference from what was approved."""
        return Response(identity_shown(selectors.node_named(node)))


def identity_shown(row: Node) -> dict[str, Any]:
    """The representation of a host's identity."""
    known = selectors.identity_of(row)
    body = {
        "node": {"id": row.pk, "name": row.name},
        "hostname": known.hostname if known else None,
        "boot_id": known.boot_id if known else None,
        "as_of": known.seen_at if known else None,
        "differences": [asdict(one) for one in selectors.differences_of(row)],
    }
    return dict(wire.IdentityOut(body).data)


class NodeAccept(OperatorView):
    """A decision on what differs."""

    @extend_schema(
        operation_id="node_accept",
        tags=["nodes"],
        request=wire.AcceptIn,
        responses=wire.IdentityOut,
    )
    def post(self, request: Request, node: str) -> Response:
        """Accept what differs about one blocked slot, so that it is sold or retired by it."""
        given = wire.AcceptIn.read(request.data)
        row = selectors.node_named(node)
        slot_accept(node_id=row.pk, **given, actor=self.actor)
        return Response(identity_shown(selectors.node_named(str(row.pk))))
