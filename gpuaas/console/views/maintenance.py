"""When is which node out of service by plan, and what does a new window touch?"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm, SeenForm, Words
from gpuaas.console.calendar import strip
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import clock, errors
from gpuaas.ui.forms import text_in
from gpuaas.ui.frame import Crumb
from placement.domain.leaving import DrainPlan, in_words
from placement.models import MaintenanceWindow, Pool
from placement.models.maintenance import OPEN
from placement.selectors import node_named
from placement.services import maintenance as services
from placement.services.drain_plan import drain_moves, drain_plan, windows_preview
from placement.services.maintenance import Selector
from placement.services.replacements import card_approve, card_cancel, card_replace

OVER_SHOWN = 20
WHEN = "Such as 2027-01-01 18:00 (UTC) or 2027-01-01T18:00+02:00."


class WindowForm(SeenForm):
    """Which nodes, from when to when."""

    field_order = ("nodes", "pool", "zone", "rack", "starts_at", "ends_at", "announce")

    nodes = Words(label="Nodes", max_length=4000, required=False, help_text="Names, with commas.")
    pool = forms.ModelChoiceField(
        Pool.objects.order_by("name"), required=False, empty_label="none", label="Or all of a pool"
    )
    zone = forms.CharField(label="Or all of a zone", max_length=40, required=False)
    rack = forms.CharField(label="Or all of a rack", max_length=40, required=False)
    starts_at = forms.DateTimeField(label="Begins", help_text=WHEN)
    ends_at = forms.DateTimeField(label="Ends", help_text=WHEN)
    announce = forms.BooleanField(
        label="Tell the tenants now, not only when their pool's notice is due", required=False
    )

    def selector(self) -> Selector:
        """The nodes that the form names."""
        given = self.cleaned_data
        pool = given["pool"].name if given["pool"] else ""
        return Selector(tuple(given["nodes"]), pool, given["zone"], given["rack"])


def _digest(plans: list[DrainPlan]) -> str:
    seen = [(plan.node, plan.at, [one.allocation_id for one in plan.leaving]) for plan in plans]
    return hashlib.sha256(repr(seen).encode()).hexdigest()


class Maintenance(ConsolePage):
    """The windows by time, and the form of another with what it touches."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Maintenance"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        return self.show(WindowForm(initial={"nodes": request.GET.get("node", "")[:63]}))

    def show(
        self, form: WindowForm, *, plans: list[DrainPlan] | None = None, status: int = 200
    ) -> HttpResponse:
        """The page with this form, and what it would touch."""
        rows = MaintenanceWindow.objects.select_related("node__pool")
        open_now = list(rows.filter(OPEN).order_by("starts_at", "node__num"))
        return self.page(
            "console/maintenance.html",
            status=status,
            windows=open_now,
            over=list(rows.exclude(OPEN).order_by("-ends_at")[:OVER_SHOWN]),
            calendar=strip(open_now, clock.db_now()),
            form=form,
            act=ReasonForm(auto_id=False),
            pools=list(Pool.objects.order_by("name")),
            previews=[(plan, in_words(plan)) for plan in plans or ()],
            told=sorted({one.tenant for plan in plans or () for one in plan.leaving}),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """First what it touches; sent again as it was seen, it is planned."""
        form = WindowForm(request.POST)
        if not form.is_valid():
            return self.show(form, status=400)
        plans: list[DrainPlan] = []

        def look(given: dict[str, Any]) -> None:
            plans.extend(
                windows_preview(
                    selector=form.selector(),
                    starts_at=given["starts_at"],
                    ends_at=given["ends_at"],
                    actor=self.actor,
                )
            )

        if not self.attempt(form, look):
            return self.show(form, status=400)
        if not self.confirmed(form, _digest(plans)):
            return self.show(form, plans=plans)
        if not self.attempt(form, lambda given: self.plan(form, given)):
            return self.show(form, status=400)
        messages.success(request, "The maintenance is planned.")
        return redirect("console:maintenance")

    def plan(self, form: WindowForm, given: dict[str, Any]) -> None:
        """Raises what the service raises."""
        services.window_plan(
            selector=form.selector(),
            starts_at=given["starts_at"],
            ends_at=given["ends_at"],
            announce=given["announce"],
            reason=given["reason"],
            actor=self.actor,
        )


class ActOnWindow(ConsolePage):
    """Announce, cancel or end one window."""

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it with the reason given."""
        reason = text_in(request)
        if action == "announce":
            row = services.window_announce(window_id=pk, reason=reason, actor=self.actor)
        elif action == "cancel":
            row = services.window_cancel(window_id=pk, reason=reason, actor=self.actor)
        elif action == "end":
            row = services.window_end(window_id=pk, reason=reason, actor=self.actor)
        else:
            raise errors.NotFound
        messages.success(request, f"{row.node.name}: the window is {row.state}.")
        return redirect("console:maintenance")


class DrainPlanPage(ConsolePage):
    """What becomes of everything on one node, before and after it is drained."""

    name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        nodes = Crumb("Nodes", reverse("console:nodes"))
        if not self.name:
            return (nodes, Crumb("Drain plan"))
        here = Crumb(self.name, reverse("console:node", args=[self.name]))
        return (nodes, here, Crumb("Drain plan"))

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The plan."""
        node = node_named(name)
        self.name = node.name
        plan = drain_plan(node_id=node.pk, actor=self.actor)
        drained = node.drains.filter(slot_index__isnull=True, ended_at__isnull=True).exists()
        return self.page(
            "console/drain_plan.html",
            node=node,
            plan=plan,
            words=in_words(plan),
            counts=plan.counts(),
            drained=drained,
        )

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Move off the drained node what may be moved."""
        node = node_named(name)
        reason = text_in(request)
        moved = drain_moves(node_id=node.pk, reason=reason, actor=self.actor)
        for one in moved:
            if one.code:
                messages.error(request, f"{one.workload} stays: {one.detail}")
            else:
                messages.success(request, f"{one.workload} moves; its new place is claimed.")
        if not moved:
            messages.info(request, "Nothing there may be moved.")
        return redirect("console:drain-plan", node.name)


class ActOnCard(ConsolePage):
    """Declare that a slot's card was replaced, approve the new one, or take it back."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Do it with the reason given, and go back to the node."""
        node = node_named(name)
        run = {"replace": card_replace, "approve": card_approve, "cancel": card_cancel}.get(
            request.POST.get("do", "")
        )
        slot = request.POST.get("slot", "")
        if run is None or not (slot.isascii() and slot.isdigit() and len(slot) < 4):
            raise errors.NotFound
        reason = text_in(request)
        row = run(node_id=node.pk, slot_index=int(slot), reason=reason, actor=self.actor)
        messages.success(request, f"{node.name} slot {slot}: the replacement is {row.state}.")
        return redirect("console:node", node.name)
