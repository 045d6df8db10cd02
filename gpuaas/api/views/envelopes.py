"""What may a tenant hold of a class, from when, and whom does another envelope touch?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import conditional, examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import access as access_wire
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.views.projects import envelopes_shown
from gpuaas.api.views.tenants import tenant_named
from placement.services.impact import Impact, envelope_impact, stale_digest
from tenants import selectors
from tenants.models import Envelope, EnvelopeVersion, Tenant
from tenants.services import envelopes
from tenants.services.envelopes import KEEP
from tenants.services.quota import class_named


def impact_of(
    tenant: Tenant, resource_class: str, given: dict[str, Any], start: datetime | None
) -> Impact:
    """What the envelope of a body would touch."""
    return envelope_impact(
        tenant,
        class_named(resource_class),
        nominal_milli=given["nominal_milli"],
        borrow_milli=given.get("borrow_milli", KEEP),
        lend_milli=given.get("lend_milli", KEEP),
        start=start,
    )


def confirmation(
    tenant: Tenant, resource_class: str, given: dict[str, Any]
) -> Callable[[], None] | None:
    """What the service asks under its locks, when the body names a preview; takes it out."""
    seen: str | None = given.pop("seen", None)
    if seen is None:
        return None

    def confirm() -> None:
        now = impact_of(tenant, resource_class, given, given.get("effective_from"))
        refused = stale_digest(seen, now)
        if refused is not None:
            raise refused

    return confirm


def version_meant(
    request: Request, tenant: Tenant, resource_class: str, confirm: Callable[[], None] | None
) -> Callable[[], None] | None:
    """The same, with the version that If-Match names, where there is one: asked under the same
    locks, so that of two who read one version only one sets the next."""
    if not request.headers.get("If-Match"):
        return confirm

    def confirm_both() -> None:
        rows = Envelope.objects.filter(tenant=tenant, resource_class__name=resource_class)
        found = rows.values_list("version", flat=True).first()
        # What is not there has no version; whoever names one has not seen that.
        conditional.require_version(request, found or 0)
        if confirm is not None:
            confirm()

    return confirm_both


class TenantEnvelopePreview(OperatorView):
    """What another envelope would touch."""

    remembers = False

    @extend_schema(
        operation_id="tenant_envelope_preview",
        tags=["tenants"],
        request=wire.EnvelopePreviewIn,
        responses=wire.EnvelopePreviewOut,
    )
    def post(self, request: Request, tenant: str, resource_class: str) -> Response:
        """Each number that changes, its neighbours' in the cohort too. Nothing is changed."""
        given = wire.EnvelopePreviewIn.read(request.data)
        row = tenant_named(tenant)
        found = impact_of(row, resource_class, given, given.get("effective_from"))
        return Response(wire.EnvelopePreviewOut(found).data)


class TenantEnvelope(OperatorView):
    """What a tenant may hold of one class."""

    heeds_version = True

    @extend_schema(
        operation_id="tenant_envelope_set",
        tags=["tenants"],
        request=wire.EnvelopeIn,
        responses=access_wire.EnvelopeOut,
        examples=examples.ENVELOPE,
    )
    def put(self, request: Request, tenant: str, resource_class: str) -> Response:
        """Set it from now on. Below what is held needs a policy for the excess."""
        given = wire.EnvelopeIn.read(request.data)
        whose = tenant_named(tenant)
        row = envelopes.envelope_set(
            confirm=version_meant(
                request, whose, resource_class, confirmation(whose, resource_class, given)
            ),
            tenant_id=whose.pk,
            resource_class=resource_class,
            actor=self.actor,
            **given,
        )
        fresh = Envelope.objects.select_related("resource_class").get(pk=UUID(str(row.pk)))
        body = access_wire.EnvelopeOut(envelopes_shown([fresh])[0]).data
        return self.tagged(request, body, version=fresh.version)


class TenantEnvelopeVersions(OperatorView):
    """The versions of a tenant's envelopes."""

    @extend_schema(
        operation_id="tenant_envelope_versions",
        tags=["tenants"],
        parameters=[Short],
        responses=wire.EnvelopeVersionList,
    )
    def get(self, request: Request, tenant: str) -> Response:
        """Every version: in force, to come, called off."""
        query = Short.read(request.query_params)
        whose = tenant_named(tenant)
        rows = list(selectors.envelope_versions(whose.pk))
        shown = part(rows, query=query, name=f"envelope versions {whose.pk}")
        return Response(wire.EnvelopeVersionList(shown).data)


class TenantEnvelopeSchedule(OperatorView):
    """A version from a moment on."""

    @extend_schema(
        operation_id="tenant_envelope_schedule",
        tags=["tenants"],
        request=wire.EnvelopeVersionIn,
        responses={201: wire.EnvelopeVersionOut},
    )
    def post(self, request: Request, tenant: str, resource_class: str) -> Response:
        """Schedule an envelope; one that lies in the past is in force at once."""
        given = wire.EnvelopeVersionIn.read(request.data)
        whose = tenant_named(tenant)
        row = envelopes.envelope_schedule(
            confirm=confirmation(whose, resource_class, given),
            tenant_id=whose.pk,
            resource_class=resource_class,
            actor=self.actor,
            **given,
        )
        fresh = EnvelopeVersion.objects.select_related("resource_class").get(pk=row.pk)
        return Response(wire.EnvelopeVersionOut(fresh).data, status=201)


class EnvelopeVersionCancel(OperatorView):
    """A version that shall not come."""

    @extend_schema(
        operation_id="envelope_version_cancel",
        tags=["tenants"],
        request=Reasoned,
        responses=wire.EnvelopeVersionOut,
    )
    def post(self, request: Request, version_id: UUID) -> Response:
        """Call off a version that is not in force yet."""
        given = Reasoned.read(request.data)
        envelopes.envelope_version_cancel(version_id=version_id, actor=self.actor, **given)
        fresh = EnvelopeVersion.objects.select_related("resource_class").get(pk=version_id)
        return Response(wire.EnvelopeVersionOut(fresh).data)
