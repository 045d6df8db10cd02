"""What was admitted, made to wait and refused, over all tenants, and why?"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from admission.models import Action, AdmissionRequest, Decision
from admission.selectors import decisions_ended
from gpuaas.console.pages import ConsolePage, in_words
from gpuaas.kernel import clock, errors
from gpuaas.ui.frame import Crumb
from gpuaas.ui.outcomes import MARKS, mark_of_outcome, outcome_counts
from gpuaas.ui.paging import part_of
from placement.selectors import request_explain

PAGE = 50
DAYS = {"1": "a day", "7": "a week", "30": "30 days"}
DEFAULT_DAYS = "7"


class Decisions(ConsolePage):
    """Decisions with filters that keep the five ends apart."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Decisions"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them, newest first."""
        days = request.GET.get("days", DEFAULT_DAYS)
        if days not in DAYS:
            raise self.strange("days", days, ", ".join(DAYS))
        since = clock.db_now() - timedelta(days=int(days))
        part = part_of(self.rows(request), request.GET.get("cursor", ""), PAGE, by_id=True)
        return self.page(
            "console/decisions.html",
            decisions=[(row, mark_of_outcome(row.verdict, row.code)) for row in part.items],
            cursor=part.next,
            outcome=request.GET.get("outcome", ""),
            counts=outcome_counts(since),
            days=days,
            windows=DAYS.items(),
            actions=Action.values,
            filtered=any(request.GET.get(n) for n in ("outcome", "tenant", "action", "code")),
        )

    def rows(self, request: HttpRequest) -> QuerySet[Decision]:
        """Those that the filters name. Raises InvalidRequest for an end there is not."""
        rows = Decision.objects.select_related("tenant", "request__sku")
        outcome, action = request.GET.get("outcome", ""), request.GET.get("action", "")
        if outcome:
            if outcome not in MARKS:
                raise self.strange("outcome", outcome, ", ".join(MARKS))
            rows = rows.filter(decisions_ended(outcome))
        if action:
            if action not in Action.values:
                raise self.strange("action", action, ", ".join(Action.values))
            rows = rows.filter(request__action=action)
        if tenant := request.GET.get("tenant", "").strip():
            rows = rows.filter(tenant__slug=tenant[:60])
        if code := request.GET.get("code", "").strip():
            rows = rows.filter(code=code[:64])
        return rows

    def strange(self, field: str, value: str, known: str) -> errors.InvalidRequest:
        """The refusal of a filter's value that there is not."""
        return errors.InvalidRequest(
            f"There is no {field} {value[:40]!r}.",
            errors=(errors.FieldError(f"/{field}", "unknown", known),),
        )


class RequestPage(ConsolePage):
    """One request with its decision, gate by gate, and the places that were compared."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Decisions", reverse("console:decisions")), Crumb("Request"))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        row = (
            AdmissionRequest.objects.select_related(
                "tenant", "project", "sku", "tier", "resource_class"
            )
            .filter(pk=pk)
            .first()
        )
        if row is None:
            raise errors.NotFound
        decision = in_words(request_explain(row.pk, operator=True))
        earlier = Decision.objects.filter(request=row).order_by("-created_at")
        return self.page(
            "console/request.html",
            row=row,
            decision=decision,
            end=MARKS.get(decision["outcome_class"]),
            earlier=[(d, mark_of_outcome(d.verdict, d.code)) for d in earlier[1:PAGE]],
        )
