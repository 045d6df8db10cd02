"""Which cohorts and service levels are there, and how do operators change them?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Paged, Query, Short
from gpuaas.api.pagination import page, part
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.api.views.authority import preview_shown
from placement.selectors import leases_of_tier
from tenants import snapshots
from tenants.models import Cohort, SlaTier, TierVersion
from tenants.services import cohorts, tiers


def cohorts_shown() -> list[dict[str, Any]]:
    """Every cohort with its classes, parents before children."""
    classes: dict[str, list[snapshots.CohortNode]] = {}
    for node in snapshots.cohort_tree():
        classes.setdefault(node.name, []).append(node)
    rows = Cohort.objects.select_related("parent").prefetch_related("tenants")
    return [
        {
            "name": row.name,
            "title": row.title,
            "parent": row.parent.name if row.parent else None,
            "depth": row.depth,
            "tenants": sorted(tenant.slug for tenant in row.tenants.all()),
            "classes": classes.get(row.name, []),
        }
        for row in rows.order_by("depth", "name")
    ]


class Cohorts(OperatorView):
    """Who lends to whom."""

    @extend_schema(
        operation_id="cohort_list", tags=["cohorts"], parameters=[Short], responses=wire.CohortList
    )
    def get(self, request: Request) -> Response:
        """The tree of cohorts with its counters."""
        query = Short.read(request.query_params)
        return Response(wire.CohortList(part(cohorts_shown(), query=query, name="cohorts")).data)

    @extend_schema(
        operation_id="cohort_create",
        tags=["cohorts"],
        request=wire.CohortIn,
        responses={201: wire.CohortOut},
        examples=examples.COHORT,
    )
    def post(self, request: Request) -> Response:
        """Make a cohort. Its parent never changes."""
        given = wire.CohortIn.read(request.data)
        row = cohorts.cohort_create(actor=self.actor, **given)
        return Response(_cohort(row.name), status=201)


def _cohort(name: str) -> dict[str, Any]:
    cohorts.cohort_named(name)
    (body,) = [shown for shown in cohorts_shown() if shown["name"] == name]
    return dict(wire.CohortOut(body).data)


class CohortDetail(OperatorView):
    """One cohort."""

    also_fails = (409,)

    @extend_schema(operation_id="cohort_get", tags=["cohorts"], responses=wire.CohortOut)
    def get(self, request: Request, cohort: str) -> Response:
        """A cohort with its classes."""
        Query.read(request.query_params)
        return Response(_cohort(cohort))

    @extend_schema(operation_id="cohort_delete", tags=["cohorts"], responses={204: None})
    def delete(self, request: Request, cohort: str) -> Response:
        """Remove a cohort that has no members."""
        cohorts.cohort_delete(cohort=cohort, actor=self.actor)
        return Response(status=204)


class CohortLimits(OperatorView):
    """What a cohort borrows and lends."""

    @extend_schema(
        operation_id="cohort_limits_set",
        tags=["cohorts"],
        request=wire.CohortLimitsIn,
        responses=wire.CohortOut,
    )
    def put(self, request: Request, cohort: str, resource_class: str) -> Response:
        """Limit what it borrows from its parent, and what it lends to it."""
        given = wire.CohortLimitsIn.read(request.data)
        cohorts.cohort_limits_set(
            cohort=cohort, resource_class=resource_class, actor=self.actor, **given
        )
        return Response(_cohort(cohort))


class Tiers(OperatorView):
    """The service levels."""

    @extend_schema(
        operation_id="tier_list", tags=["tiers"], parameters=[Short], responses=wire.TierList
    )
    def get(self, request: Request) -> Response:
        """Tiers, the most urgent first."""
        query = Short.read(request.query_params)
        rows = list(SlaTier.objects.order_by("priority_band", "name"))
        return Response(wire.TierList(part(rows, query=query, name="tiers")).data)

    @extend_schema(
        operation_id="tier_create",
        tags=["tiers"],
        request=wire.TierIn,
        responses={201: wire.TierOut},
        examples=examples.TIER,
    )
    def post(self, request: Request) -> Response:
        """Make a tier that nobody has yet."""
        given = wire.TierIn.read(request.data)
        row = tiers.tier_create(actor=self.actor, **given)
        return Response(wire.TierOut(tiers.tier_named(row.name)).data, status=201)


class TierDetail(OperatorView):
    """One service level."""

    @extend_schema(operation_id="tier_get", tags=["tiers"], responses=wire.TierOut)
    def get(self, request: Request, tier: str) -> Response:
        """A tier, in the version in force."""
        row = tiers.tier_named(tier)
        return self.tagged(request, wire.TierOut(row).data, version=row.version)


class TierVersions(OperatorView):
    """What a tier promised, and when."""

    @extend_schema(
        operation_id="tier_version_list",
        tags=["tiers"],
        parameters=[Paged],
        responses=page_of(wire.TierVersionOut, "TierVersion"),
    )
    def get(self, request: Request, tier: str) -> Response:
        """Every version that was kept, the latest first."""
        return Response(
            page(
                TierVersion.objects.filter(tier=tiers.tier_named(tier)),
                query=Paged.read(request.query_params),
                name="tier-versions",
                order=("-version", "-id"),
                render=lambda rows: wire.TierVersionOut(rows, many=True).data,
            )
        )


class TierPreview(OperatorView):
    """What a change of terms would touch."""

    remembers = False

    @extend_schema(
        operation_id="tier_preview",
        tags=["tiers"],
        request=wire.TierTerms,
        responses=wire.PreviewOut,
        examples=examples.TIER_TERMS,
    )
    def post(self, request: Request, tier: str) -> Response:
        """Whom the terms touch, which get worse, which leases would be below them."""
        given = wire.TierTerms.read(request.data)
        shown = tiers.tier_change_preview(
            name=tier, terms=given["terms"], running=leases_of_tier(tier)
        )
        return Response(preview_shown(shown.as_json()))


class TierChange(OperatorView):
    """The next version of a tier."""

    @extend_schema(
        operation_id="tier_change",
        tags=["tiers"],
        request=wire.TierChangeIn,
        responses=wire.TierOut,
    )
    def post(self, request: Request, tier: str) -> Response:
        """Change the terms, when what they touch is still what was looked at."""
        given = wire.TierChangeIn.read(request.data)
        tiers.tier_change(name=tier, running=leases_of_tier(tier), actor=self.actor, **given)
        return Response(wire.TierOut(tiers.tier_named(tier)).data)
