"""What does the tenant hold, how is each of it doing, and how is it given back?"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.cells import inert
from gpuaas.kernel import clock, errors
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.models.work import ENDED
from gpuaas.portal.costs import cost_so_far
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.forms import text_in
from gpuaas.ui.four import sides_of
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import cursor_at, part_of, position_of
from gpuaas.ui.sheet import sheet
from placement.models import Allocation
from placement.selectors import (
    allocation_explain,
    allocation_phase,
    allocation_states,
    allocation_timeline,
    outcome_detail,
)
from placement.selectors.notices import notice_list
from placement.selectors.occupants import ends_at_of
from placement.services.allocations import allocation_release, allocation_rename
from placement.states import AllocationState

PAGE = 50
MOST = 200
CSV_MOST = 10_000


class AllocationList(TenantPage):
    """What the list and its CSV share: the same filters."""

    def rows(self) -> QuerySet[Allocation]:
        """The tenant's allocations in the project of the address."""
        rows = Allocation.objects.select_related("project", "sku")
        return rows.filter(project=self.project) if self.project else rows

    def state(self) -> str:
        """The state of the address, ``live`` for all but released, or empty."""
        wanted = self.request.GET.get("state", "")
        if wanted and wanted != "live" and wanted not in AllocationState.values:
            raise errors.InvalidRequest(
                f"There is no state {wanted[:40]!r}.",
                errors=(errors.FieldError("/state", "unknown", ", ".join(AllocationState.values)),),
            )
        return wanted

    def filtered(self) -> QuerySet[Allocation]:
        """The rows of both filters."""
        rows, state = self.rows(), self.state()
        if state == "live":
            return rows.exclude(state=AllocationState.RELEASED)
        return rows.filter(state=state) if state else rows


class Allocations(AllocationList):
    """The list."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of it, newest first."""
        limit = _limit(request.GET.get("limit", ""))
        part = part_of(self.filtered(), request.GET.get("cursor", ""), limit)
        # Those that are released become ever more: they are listed and not counted.
        standing = self.rows().exclude(state=AllocationState.RELEASED).order_by()
        counts = dict(standing.values_list("state").annotate(n=Count("id")))
        state = self.state()
        chips = [("", "all", None), ("live", "live", sum(counts.values()))]
        chips += [(s, s.replace("_", " "), counts[s]) for s in AllocationState if s in counts]
        chips.append((AllocationState.RELEASED, "released", None))
        return self.page(
            "portal/allocations.html",
            allocations=part.items,
            cursor=part.next,
            chips=chips,
            state=state,
            project=self.project,
            command=self._command(state),
            may_launch=self.may("allocations:write"),
        )

    def _command(self, state: str) -> str:
        words = ["gpuaas allocation list"]
        if state and state != "live":
            words.append(f"--state {state}")
        if self.project:
            words.append(f"--project {self.project.slug}")
        return " ".join(words)


def _limit(text: str) -> int:
    return min(MOST, max(1, int(text))) if text.isascii() and text.isdigit() else PAGE


class AllocationsCsv(AllocationList):
    """The same list for a spreadsheet."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """All rows of the filters, newest first."""
        return sheet(f"allocations-{self.tenant.slug}", self._lines())

    def _lines(self) -> Iterator[list[object]]:
        yield [
            *("id", "name", "project", "sku", "slots", "state", "outcome"),
            *("price_hour_micro", "currency", "created_at", "active_at", "released_at"),
        ]
        rows = self.filtered().order_by("-created_at", "-id")[:CSV_MOST]
        for row in rows.iterator(chunk_size=1000):
            yield [
                row.pk,
                inert(row.name),
                row.project.slug,
                row.sku.name,
                row.slots,
                row.state,
                row.outcome,
                row.price_hour_micro,
                row.currency,
                row.created_at.isoformat(),
                row.active_at.isoformat() if row.active_at else "",
                row.released_at.isoformat() if row.released_at else "",
            ]


class OneAllocation(TenantPage):
    """What every page about one allocation shares."""

    def allocation(self, pk: UUID) -> Allocation:
        """The tenant's own allocation. Raises NotFound, for a foreign one too."""
        row = Allocation.objects.select_related("project", "sku", "request").filter(pk=pk).first()
        if row is None:
            raise errors.NotFound
        return row


class AllocationPage(OneAllocation):
    """One allocation: phase, four states, connection, timeline, decision, cost, release."""

    name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Allocations", self.url("allocations")), Crumb(self.name))

    def get(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """The page, or only its live part when a script asks for it."""
        row = self.allocation(pk)
        self.name = row.name
        run = WorkflowRun.objects.filter(pk=row.run_id).first()
        part = request.headers.get("HX-Request") == "true"
        cost, cost_until = cost_so_far(row, clock.now())
        cursor = request.GET.get("cursor", "")
        timeline = allocation_timeline(row.pk, after=position_of(cursor) if cursor else None)
        return self.page(
            "portal/allocation_live.html" if part else "portal/allocation.html",
            allocation=row,
            outcome=outcome_detail(row),
            phase=allocation_phase(row),
            four=sides_of(allocation_states(row), ages=row.state != AllocationState.RELEASED),
            timeline=timeline.items,
            cursor=cursor_at(timeline.after),
            decision=allocation_explain(row.pk),
            run=run if run is not None and run.state not in ENDED else None,
            cost=cost,
            cost_until=cost_until,
            may_write=self.may("allocations:write"),
            releasable=row.state in RELEASABLE,
            cancels=row.state in CANCELS,
            ends_at=ends_at_of(row),
            notices=list(notice_list(self.tenant.pk, allocation_id=row.pk)[:5]),
            may_acknowledge=self.may("allocations:write"),
        )


CANCELS = (AllocationState.PLACED, AllocationState.PROVISIONING)
RELEASABLE = (*CANCELS, AllocationState.ACTIVE)


class Release(OneAllocation):
    """Give it back, or cancel it while it is being made."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Begin; repeating it has the effect of one."""
        row = self.allocation(pk)
        reason = text_in(request)
        allocation_release(allocation_id=row.pk, reason=reason, actor=self.actor)
        messages.success(
            request, f"{row.name} is being given back. It ends when the host proves the cleanup."
        )
        return redirect(self.url("allocation", row.pk))


class Rename(OneAllocation):
    """Change its name."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Change it if nobody else changed the allocation since the page was drawn."""
        row = self.allocation(pk)
        version = request.POST.get("version", "")
        allocation_rename(
            allocation_id=row.pk,
            name=request.POST.get("name", ""),
            version=int(version) if version.isascii() and version.isdigit() else 0,
            actor=self.actor,
        )
        return redirect(self.url("allocation", row.pk))
