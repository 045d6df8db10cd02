"""What is leased across all tenants, and which cleanups need a person?"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.actions import ANSWERS, allocation_actions, allocation_run
from gpuaas.console.pages import ConsolePage, in_words
from gpuaas.console.phases import phase_rows
from gpuaas.kernel import errors
from gpuaas.ui.forms import text_in
from gpuaas.ui.four import sides_of
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import cursor_at, part_of, position_of
from placement.models import Allocation, CleanupProof
from placement.selectors import (
    allocation_explain,
    allocation_phase,
    allocation_states,
    allocation_timeline,
    override_of,
    phases_by_sku,
    residue_left,
)
from placement.services.overrides import approval_rule
from placement.states import AllocationState

PAGE = 50


class Allocations(ConsolePage):
    """The list over all tenants."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """What is not released, unless a state is asked for."""
        state = request.GET.get("state", "live")
        rows = Allocation.objects.select_related("tenant", "project", "sku", "node")
        if state == "live":
            rows = rows.exclude(state=AllocationState.RELEASED)
        elif state in AllocationState.values:
            rows = rows.filter(state=state)
        # Those that are released become ever more: they are listed and not counted.
        standing = Allocation.objects.exclude(state=AllocationState.RELEASED)
        counts: dict[str, int | None] = dict(standing.values_list("state").annotate(n=Count("id")))
        chips: list[tuple[str, str, int | None]] = [
            ("live", "live", sum(n or 0 for n in counts.values()))
        ]
        counts.setdefault(AllocationState.RELEASED, None)
        chips += [(s, s.replace("_", " "), counts.get(s, 0)) for s in AllocationState.values]
        phases, reach = phase_rows(phases_by_sku())
        part = part_of(rows, request.GET.get("cursor", ""), PAGE, by_id=True)
        return self.page(
            "console/allocations.html",
            allocations=part.items,
            cursor=part.next,
            chips=chips,
            state=state,
            phases=phases,
            reach=reach,
        )


class OneAllocation(ConsolePage):
    """What pages about one allocation share."""

    name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Allocations", reverse("console:allocations")), Crumb(self.name))

    def row(self, pk: UUID) -> Allocation:
        """The allocation of whichever tenant. Raises NotFound."""
        rows = Allocation.objects.select_related("tenant", "project", "sku", "node", "request")
        found = rows.filter(pk=pk).first()
        if found is None:
            raise errors.NotFound
        self.name = found.name
        return found


class AllocationPage(OneAllocation):
    """One allocation with its host, proofs and what can be done about a blocked cleanup."""

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page."""
        row = self.row(pk)
        override = override_of(row)
        open_ask = override is not None and override.approved_at is None
        asked_by = override.asked_by.get("name", "somebody") if override and open_ask else ""
        proofs = CleanupProof.objects.filter(claim__allocation=row).select_related("slot", "claim")
        cursor = request.GET.get("cursor", "")
        timeline = allocation_timeline(
            row.pk, operator=True, after=position_of(cursor) if cursor else None
        )
        return self.page(
            "console/allocation.html",
            allocation=row,
            phase=allocation_phase(row),
            four=sides_of(allocation_states(row), ages=row.state != AllocationState.RELEASED),
            timeline=timeline.items,
            cursor=cursor_at(timeline.after),
            decision=in_words(allocation_explain(row.pk, operator=True)),
            claims=list(row.claims.order_by("slot_index")),
            proofs=list(proofs.order_by("-attempt", "claim__slot_index")),
            override=override,
            actions=self.offered(
                allocation_actions(
                    row.state, asked_by, rule=approval_rule(), residue=residue_left(row)
                )
            ),
        )


class ActOnAllocation(OneAllocation):
    """Retry a cleanup; ask for an override, answer one, or withdraw it."""

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it with the reason given."""
        row = self.row(pk)
        run = allocation_run(action)
        if run is None:
            raise errors.NotFound
        if action in ANSWERS:
            self.check_may("overrides:write")
        run(row.pk, text_in(request), self.actor)
        messages.success(request, f"{row.name}: {action.replace('-', ' ')} done.")
        return redirect("console:allocation", row.pk)
