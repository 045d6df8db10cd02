"""In which projects does a tenant work, and how much is theirs?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import is_id, page
from gpuaas.api.serializers import access as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel.errors import NotFound
from placement.selectors import holdings_of
from tenants import selectors
from tenants.errors import ProjectNotEmpty
from tenants.models import (
    Envelope,
    Project,
    QuotaCounter,
)
from tenants.services import deletion, tenancy


class Projects(TenantView):
    """The tenant's projects."""

    @extend_schema(
        operation_id="project_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.ProjectOut, "Project"),
    )
    def get(self, request: Request) -> Response:
        """Projects by name."""
        query = Paged.read(request.query_params)
        rows = Project.objects.filter(deleted_at__isnull=True)
        if self.actor.tenant_id:
            rows = selectors.project_list(self.actor.tenant_id)
        return Response(
            page(
                rows,
                query=query,
                name="projects",
                order=("slug", "id"),
                render=lambda found: wire.ProjectOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="project_create",
        tags=["access"],
        request=wire.ProjectIn,
        responses={201: wire.ProjectOut},
    )
    def post(self, request: Request) -> Response:
        """Make a project."""
        given = wire.ProjectIn.read(request.data)
        project = tenancy.project_create(
            tenant_id=self.tenant_id, name=given["name"], actor=self.actor
        )
        project.refresh_from_db()
        return Response(wire.ProjectOut(project).data, status=201)


def project_named(view: TenantView, named: str) -> Project:
    """The project of this slug or id in the caller's tenant. Raises NotFound."""
    rows = Project.objects.filter(deleted_at__isnull=True)
    if view.actor.tenant_id:
        rows = rows.filter(tenant_id=view.actor.tenant_id)
    found = is_id(named)
    if found is not None:
        project = rows.filter(pk=found).first()
    else:
        # A slug is unique in a tenant only.
        project = rows.filter(slug=named).first() if view.actor.tenant_id else None
    if project is None:
        raise NotFound
    return project


class ProjectDetail(TenantView):
    """One project."""

    also_fails = (409,)

    @extend_schema(operation_id="project_get", tags=["access"], responses=wire.ProjectOut)
    def get(self, request: Request, project: str) -> Response:
        """A project by slug or id."""
        return Response(wire.ProjectOut(project_named(self, project)).data)

    @extend_schema(operation_id="project_delete", tags=["access"], responses={204: None})
    def delete(self, request: Request, project: str) -> Response:
        """Close a project in which nothing is held; refused with the list of what is."""
        row = project_named(self, project)
        try:
            deletion.project_delete(project_id=row.pk, actor=self.actor)
        except ProjectNotEmpty as full:
            held = holdings_of(tenant_id=row.tenant_id, project_id=row.pk)
            full.facts |= {"held_count": held.count, "held": held.as_json()}
            raise
        return Response(status=204)


class Envelopes(TenantView):
    """What the tenant may hold."""

    @extend_schema(
        operation_id="envelope_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.EnvelopeOut, "Envelope"),
    )
    def get(self, request: Request) -> Response:
        """Limits and use by resource class, in thousandths."""
        query = Paged.read(request.query_params)
        rows = Envelope.objects.select_related("resource_class")
        if self.actor.tenant_id:
            rows = rows.filter(tenant_id=self.actor.tenant_id)
        return Response(
            page(
                rows,
                query=query,
                name="envelopes",
                order=("tenant_id", "resource_class_id"),
                render=lambda found: wire.EnvelopeOut(envelopes_shown(found), many=True).data,
            )
        )


def envelopes_shown(envelopes: list[Envelope]) -> list[dict[str, Any]]:
    """Envelopes with the counters beside them, in two queries."""
    tenants = {envelope.tenant_id for envelope in envelopes}
    counters = {
        (counter.tenant_id, counter.resource_class_id): counter
        for counter in QuotaCounter.objects.filter(tenant_id__in=tenants)
    }
    shown = []
    for envelope in envelopes:
        counter = counters.get((envelope.tenant_id, envelope.resource_class_id))
        limit = counter.limit_milli if counter else envelope.nominal_milli
        used = counter.used_milli if counter else 0
        shown.append(
            {
                "id": envelope.pk,
                "tenant_id": envelope.tenant_id,
                "resource_class": envelope.resource_class,
                "nominal_milli": envelope.nominal_milli,
                "limit_milli": limit,
                "used_milli": used,
                "free_milli": max(0, limit - used),
                "excess_milli": max(0, used - limit),
                "version": envelope.version,
            }
        )
    return shown
