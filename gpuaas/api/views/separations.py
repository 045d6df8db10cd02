"""Which tenants are never placed on one host: listed, looked at before it is so, set, removed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged, Query
from gpuaas.api.pagination import page
from gpuaas.api.serializers import separations as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel import errors
from placement.models import Separation
from placement.selectors.separations import separations, separations_shown
from placement.services import separations as service
from tenants.selectors import tenants_called


def shown(rows: Sequence[Separation]) -> list[dict[str, Any]]:
    """The representations of sets."""
    bodies = [
        {
            **{name: getattr(now, name) for name in now.__slots__},
            "tenants": [{"id": pk, "slug": slug} for pk, slug in now.tenants],
        }
        for now in separations_shown(rows)
    ]
    return [dict(body) for body in wire.SeparationOut(bodies, many=True).data]


def preview_shown(preview: service.SeparationPreview) -> dict[str, Any]:
    """The representation of what a set would come to."""
    body = {
        "name": preview.name,
        "added": preview.added,
        "dropped": preview.dropped,
        "together": [{"host": host, "tenants": slugs} for host, slugs in preview.together],
        "digest": preview.digest,
    }
    return dict(wire.SeparationPreviewOut(body).data)


class Separations(OperatorView):
    """All sets."""

    @extend_schema(
        operation_id="separation_list",
        tags=["separations"],
        parameters=[Paged],
        responses=page_of(wire.SeparationOut, "Separation"),
    )
    def get(self, request: Request) -> Response:
        """Sets of tenants that are kept apart, by name, with how many hosts they share still."""
        return Response(
            page(
                separations(),
                query=Paged.read(request.query_params),
                name="separations",
                order=("name",),
                render=shown,
            )
        )


class SeparationOne(OperatorView):
    """One set."""

    @extend_schema(
        operation_id="separation_get", tags=["separations"], responses=wire.SeparationOut
    )
    def get(self, request: Request, separation: str) -> Response:
        """Who is kept apart, and why."""
        Query.read(request.query_params)
        row = separations().filter(name=separation).first()
        if row is None:
            raise errors.NotFound
        return Response(shown([row])[0])

    @extend_schema(
        operation_id="separation_set",
        tags=["separations"],
        parameters=[wire.SeparationSetQuery],
        request=wire.SeparationIn,
        responses=PolymorphicProxySerializer(
            component_name="SeparationOrPreview",
            serializers=[wire.SeparationOut, wire.SeparationPreviewOut],
            resource_type_field_name=None,
        ),
        examples=examples.SEPARATION,
    )
    def put(self, request: Request, separation: str) -> Response:
        """Make the set, or set all its members anew. What runs stays where it is.

        ``?dry_run=server`` answers with what it would come to instead and changes nothing.
        """
        query = wire.SeparationSetQuery.read(request.query_params)
        given = wire.SeparationIn.read(request.data)
        tenants = tenants_called(given["tenants"])
        if "dry_run" in query:
            preview = service.separation_preview(name=separation, tenants=tenants)
            return Response(preview_shown(preview))
        row = service.separation_set(
            name=separation,
            tenants=tenants,
            reason=given["reason"],
            seen=given["seen"],
            actor=self.actor,
        )
        return Response(shown([row])[0])

    @extend_schema(
        operation_id="separation_remove",
        tags=["separations"],
        parameters=[wire.SeparationRemoveQuery],
        responses={204: None},
    )
    def delete(self, request: Request, separation: str) -> Response:
        """Let its members share hosts again, with the reason in the query."""
        query = wire.SeparationRemoveQuery.read(request.query_params)
        service.separation_remove(name=separation, reason=query["reason"], actor=self.actor)
        return Response(status=204)
