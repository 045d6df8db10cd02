"""What was decided about this tenant's actions, told apart by how it ended?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from admission.domain.outcome import OUTCOMES
from admission.models import Action, Decision
from admission.selectors import decisions_ended
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.outcomes import MARKS, mark_of_outcome
from gpuaas.ui.paging import part_of

PAGE = 50


class Decisions(TenantPage):
    """Every decision with its reason, newest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page, of one outcome and one action or all."""
        outcome, action = request.GET.get("outcome", ""), request.GET.get("action", "")
        rows = Decision.objects.select_related("request__sku", "request__project")
        if outcome in OUTCOMES:
            rows = rows.filter(decisions_ended(outcome))
        if action in Action.values:
            rows = rows.filter(request__action=action)
        if self.project:
            rows = rows.filter(request__project=self.project)
        part = part_of(rows, request.GET.get("cursor", ""), PAGE)
        return self.page(
            "portal/decisions.html",
            decisions=[(row, mark_of_outcome(row.verdict, row.code)) for row in part.items],
            cursor=part.next,
            outcome=outcome,
            outcomes=[(name, mark.word) for name, mark in MARKS.items()],
            action=action,
            actions=Action.values,
            project=self.project,
        )
