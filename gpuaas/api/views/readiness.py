"""What do hosts need before they are sold, and what would other terms do to them?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Query, Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import readiness as wire
from gpuaas.kernel import errors
from placement.selectors import readiness_terms as selectors
from placement.services import readiness_terms as service


def given_terms(body: dict[str, Any]) -> dict[str, Any]:
    """The body as the services take it. Raises InvalidRequest for a check that is named twice."""
    required: dict[str, dict[str, int | None]] = {}
    for need in body.pop("required"):
        checks = required.setdefault(need["capability"], {})
        if need["check"] in checks:
            text = f"{need['check']} is named twice for {need['capability']}"
            raise errors.InvalidRequest(
                errors=(errors.FieldError("/required", "not_unique", text),)
            )
        checks[need["check"]] = need["valid_s"]
    return {**body, "required": required}


def preview_shown(shown: service.TermsPreview) -> dict[str, Any]:
    """The representation of what other terms would do."""
    body = {
        **{name: getattr(shown, name) for name in shown.__slots__},
        "changes": [
            {"term": term, "before": before, "after": after}
            for term, before, after in shown.changes
        ],
        "digest": shown.digest,
    }
    return dict(wire.ReadinessPreviewOut(body).data)


class ReadinessTermsAll(OperatorView):
    """All terms."""

    @extend_schema(
        operation_id="readiness_terms_list",
        tags=["nodes"],
        parameters=[Short],
        responses=wire.ReadinessTermsList,
    )
    def get(self, request: Request) -> Response:
        """What the hosts of each family need before they are sold, who set it and why."""
        query = Short.read(request.query_params)
        shown = part(selectors.readiness_terms_list(), query=query, name="readiness terms")
        return Response(wire.ReadinessTermsList(shown).data)


class ReadinessTermsOne(OperatorView):
    """The terms of one family."""

    also_fails = (404, 409)

    @extend_schema(
        operation_id="readiness_terms_get", tags=["nodes"], responses=wire.ReadinessTermsDetail
    )
    def get(self, request: Request, about: str) -> Response:
        """What holds for a family, or for any without own terms, and what held before."""
        Query.read(request.query_params)
        return Response(wire.ReadinessTermsDetail(selectors.readiness_terms_now(about)).data)

    @extend_schema(
        operation_id="readiness_terms_set",
        tags=["nodes"],
        request=wire.ReadinessTermsSetIn,
        responses=wire.ReadinessTermsDetail,
    )
    def put(self, request: Request, about: str) -> Response:
        """Set all terms of a family, when whom they move is still what was looked at."""
        given = given_terms(wire.ReadinessTermsSetIn.read(request.data))
        now = selectors.readiness_terms_now(about)
        service.readiness_terms_set(family=now.family, actor=self.actor, **given)
        return Response(wire.ReadinessTermsDetail(selectors.readiness_terms_now(about)).data)


class ReadinessTermsRemove(OperatorView):
    """The end of a family's own terms."""

    also_fails = (404, 409)

    @extend_schema(
        operation_id="readiness_terms_remove",
        tags=["nodes"],
        request=wire.ReadinessRemoveIn,
        responses=wire.ReadinessTermsDetail,
    )
    def post(self, request: Request, about: str) -> Response:
        """Remove a family's terms: those of any hold then, and for those the product's."""
        given = wire.ReadinessRemoveIn.read(request.data)
        now = selectors.readiness_terms_now(about)
        service.readiness_terms_remove(family=now.family, actor=self.actor, **given)
        return Response(wire.ReadinessTermsDetail(selectors.readiness_terms_now(about)).data)


class ReadinessTermsRemoval(OperatorView):
    """What would hold without a family's own terms."""

    remembers = False
    also_fails = (404, 409)

    @extend_schema(
        operation_id="readiness_terms_preview_removal",
        tags=["nodes"],
        request=wire.ReadinessRemovalIn,
        responses=wire.ReadinessPreviewOut,
    )
    def post(self, request: Request, about: str) -> Response:
        """Which hosts would move if a family's terms were removed. Nothing is changed."""
        wire.ReadinessRemovalIn.read(request.data)
        now = selectors.readiness_terms_now(about)
        return Response(preview_shown(service.readiness_terms_removal(family=now.family)))


class ReadinessTermsPreview(OperatorView):
    """What other terms would do."""

    remembers = False
    also_fails = (404,)

    @extend_schema(
        operation_id="readiness_terms_preview",
        tags=["nodes"],
        request=wire.ReadinessTermsIn,
        responses=wire.ReadinessPreviewOut,
    )
    def post(self, request: Request, about: str) -> Response:
        """Which hosts would lose a shape, and which would gain one. Nothing is changed."""
        given = given_terms(wire.ReadinessTermsIn.read(request.data))
        now = selectors.readiness_terms_now(about)
        shown = service.readiness_terms_preview(family=now.family, **given)
        return Response(preview_shown(shown))
