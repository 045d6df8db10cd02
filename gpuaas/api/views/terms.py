"""What is promised or demanded about placement, and by which weights is room valued?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Query, Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import placement as wire
from placement.models import Scoring
from placement.selectors.terms import TermsNow, scoring_list, terms_list, terms_now
from placement.services import terms as service


def terms_shown(now: TermsNow) -> dict[str, Any]:
    """The representation of the terms in force, with what they were."""
    return dict(wire.TermsDetail(now).data)


class PlacementTermsAll(OperatorView):
    """All terms."""

    @extend_schema(
        operation_id="placement_terms_list",
        tags=["placement terms"],
        parameters=[Short],
        responses=wire.TermsList,
    )
    def get(self, request: Request) -> Response:
        """Terms of SKUs, tiers and pools, with who set them and why."""
        query = Short.read(request.query_params)
        return Response(wire.TermsList(part(terms_list(), query=query, name="terms")).data)


class PlacementTermsOne(OperatorView):
    """The terms of one SKU, tier or pool."""

    also_fails = (404, 409)

    @extend_schema(
        operation_id="placement_terms_get", tags=["placement terms"], responses=wire.TermsDetail
    )
    def get(self, request: Request, noun: str, about: str) -> Response:
        """What holds, and what held before."""
        Query.read(request.query_params)
        return Response(terms_shown(terms_now(service.about_of(noun, about))))

    @extend_schema(
        operation_id="placement_terms_set",
        tags=["placement terms"],
        request=wire.TermsSetIn,
        responses=wire.TermsDetail,
    )
    def put(self, request: Request, noun: str, about: str) -> Response:
        """Set all terms, when what they touch is still what was looked at."""
        given = wire.TermsSetIn.read(request.data)
        row = service.terms_set(noun=noun, name=about, actor=self.actor, **given)
        return Response(terms_shown(terms_now(row.about)))


class PlacementTermsPreview(OperatorView):
    """What other terms would touch."""

    remembers = False
    also_fails = (404,)

    @extend_schema(
        operation_id="placement_terms_preview",
        tags=["placement terms"],
        request=wire.TermsIn,
        responses=wire.TermsPreviewOut,
        examples=examples.PLACEMENT_TERMS,
    )
    def post(self, request: Request, noun: str, about: str) -> Response:
        """SKUs that could not be realised any more, nodes ruled out, and what runs on."""
        given = wire.TermsIn.read(request.data)
        shown = service.terms_preview(noun=noun, name=about, **given)
        return Response(preview_shown(shown))


def preview_shown(shown: service.TermsPreview) -> dict[str, Any]:
    """The representation of a preview."""
    body = {
        **{name: getattr(shown, name) for name in shown.__slots__},
        "changes": [
            {"term": term, "before": before, "after": after}
            for term, before, after in shown.changes
        ],
        "digest": shown.digest,
    }
    return dict(wire.TermsPreviewOut(body).data)


class ScoringVersions(OperatorView):
    """The weights of placement."""

    also_fails = (409,)

    @extend_schema(
        operation_id="scoring_list",
        tags=["placement terms"],
        parameters=[Short],
        responses=wire.ScoringList,
    )
    def get(self, request: Request) -> Response:
        """Every version, that in force first."""
        query = Short.read(request.query_params)
        return Response(wire.ScoringList(part(scoring_list(), query=query, name="scoring")).data)

    @extend_schema(
        operation_id="scoring_set",
        tags=["placement terms"],
        request=wire.ScoringIn,
        responses={201: wire.ScoringOut},
    )
    def post(self, request: Request) -> Response:
        """Set new weights: what is placed from half a minute on is chosen by them."""
        row = service.scoring_set(actor=self.actor, **wire.ScoringIn.read(request.data))
        return Response(wire.ScoringOut(Scoring.objects.get(pk=row.pk)).data, status=201)
