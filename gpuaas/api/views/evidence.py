"""What is a host fit for, and who decides it?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import evidence as wire
from gpuaas.api.serializers.common import page_of
from placement import selectors
from placement.models import Node, XidEvent
from placement.services import evidence as service
from placement.services.health import health_lift


def evidence_shown(row: Node) -> dict[str, Any]:
    """The representation of a host's fitness."""
    body = {
        "node": {"id": row.pk, "name": row.name},
        "takes": row.takes,
        "capabilities": [asdict(one) for one in selectors.capability_list(row)],
        "evidence": [asdict(one) for one in selectors.evidence_list(row)],
        "devices": [asdict(one) for one in selectors.health_of(row)],
    }
    return dict(wire.EvidenceOut(body).data)


class NodeEvidence(OperatorView):
    """A host's evidence."""

    @extend_schema(operation_id="node_evidence", tags=["nodes"], responses=wire.EvidenceOut)
    def get(self, request: Request, node: str) -> Response:
        """What the host is fit for, by which evidence, until when, and how its GPUs are judged."""
        return Response(evidence_shown(selectors.node_named(node)))

    @extend_schema(
        operation_id="node_evidence_give",
        tags=["nodes"],
        request=wire.EvidenceIn,
        responses={201: wire.EvidenceOut},
    )
    def post(self, request: Request, node: str) -> Response:
        """Hand in a burn-in, a firmware check or what is known of the fabric."""
        given = wire.EvidenceIn.read(request.data)
        row = selectors.node_named(node)
        service.evidence_give(node_id=row.pk, **given, actor=self.actor)
        return Response(evidence_shown(selectors.node_named(str(row.pk))), status=201)


class NodePromote(OperatorView):
    """The decision that a host is sold in a shape."""

    @extend_schema(
        operation_id="node_promote",
        tags=["nodes"],
        request=wire.CapabilityIn,
        responses=wire.EvidenceOut,
    )
    def post(self, request: Request, node: str) -> Response:
        """Promote a host for a shape, on evidence that holds."""
        given = wire.CapabilityIn.read(request.data)
        row = selectors.node_named(node)
        service.node_promote(node_id=row.pk, **given, actor=self.actor)
        return Response(evidence_shown(selectors.node_named(str(row.pk))))


class NodeDemote(OperatorView):
    """The decision that nothing new of a shape is placed on a host."""

    @extend_schema(
        operation_id="node_demote",
        tags=["nodes"],
        request=wire.CapabilityIn,
        responses=wire.EvidenceOut,
    )
    def post(self, request: Request, node: str) -> Response:
        """Demote a host for a shape; what runs goes on."""
        given = wire.CapabilityIn.read(request.data)
        row = selectors.node_named(node)
        service.node_demote(node_id=row.pk, **given, actor=self.actor)
        return Response(evidence_shown(selectors.node_named(str(row.pk))))


class NodeLiftHealth(OperatorView):
    """The word of somebody who has looked at a GPU."""

    @extend_schema(
        operation_id="node_lift_health",
        tags=["nodes"],
        request=wire.LiftIn,
        responses=wire.EvidenceOut,
    )
    def post(self, request: Request, node: str) -> Response:
        """Set aside what is known against a GPU until now; what its host still says counts."""
        given = wire.LiftIn.read(request.data)
        row = selectors.node_named(node)
        health_lift(node_id=row.pk, **given, actor=self.actor)
        return Response(evidence_shown(selectors.node_named(str(row.pk))))


class NodeXids(OperatorView):
    """The errors that a host's GPUs have shown."""

    @extend_schema(
        operation_id="node_xid_list",
        tags=["nodes"],
        parameters=[Paged],
        responses=page_of(wire.XidOut, "Xid"),
    )
    def get(self, request: Request, node: str) -> Response:
        """Error numbers of the host's driver, newest first, with what follows from each."""
        query = Paged.read(request.query_params)
        row = selectors.node_named(node)
        return Response(
            page(
                XidEvent.objects.filter(node=row),
                query=query,
                name=f"xids of {row.pk}",
                render=lambda found: [_xid_shown(event) for event in found],
            )
        )


def _xid_shown(event: XidEvent) -> dict[str, Any]:
    meaning, follows = selectors.xid_words(event)
    names = ("id", "xid", "policy", "count", "gpu_uuid", "boot_id", "allocation", "at")
    body = {name: getattr(event, name) for name in names}
    body |= {"meaning": meaning, "follows": follows, "created_at": event.created_at}
    return dict(wire.XidOut(body).data)
