"""What stands around an operator's page?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.config import Config
from gpuaas.console.actions import Offered
from gpuaas.console.acts import Again, SeenForm
from gpuaas.console.permissions import PAGES
from gpuaas.kernel import errors
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Frame, Link, Section, with_current
from gpuaas.ui.pages import OperatorView
from placement.domain.compared import FIRST_CHOICE
from placement.models import Allocation, CleanupOverride, Node
from placement.states import AllocationState, ClaimState, NodeState, ResidueState
from tenants.errors import PreviewStale, SecondFactorNeeded
from tenants.models import QuotaIncrease, Tenant
from tenants.selectors import tenants_of
from tenants.states import IncreaseState, TenantState

CHANGED: Final = "What it touches has changed. Look at it again."
_ENVIRONMENT = "demo" if Config.from_env().demo else ""


class Preview(Protocol):
    """What a change would touch, before it is made."""

    @property
    def changes(self) -> Sequence[object]:
        """What is otherwise; empty when nothing is."""

    @property
    def digest(self) -> str:
        """What a confirmation names."""


Seen = TypeVar("Seen", bound=Preview)


def in_words(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision without the raw numbers in its sentence: a table beside it shows them."""
    return {**decision, "why": str(decision["why"]).split(FIRST_CHOICE)[0]}


def _overrides_asked() -> int:
    """How many answers open overrides need: one for all that an allocation left blocked."""
    rows = CleanupOverride.objects.filter(
        Q(claim__state=ClaimState.CLEANUP_BLOCKED) | Q(residue__state=ResidueState.FOUND),
        approved_at__isnull=True,
    ).values_list("claim__allocation_id", "residue__left_by", "residue__slot_id")
    return len({str(next(filter(None, keys))) for keys in rows})


class ConsolePage(OperatorView):
    """A page of the console; it sees every tenant."""

    pages = PAGES

    def attempt(self, form: forms.Form, act: Callable[[dict[str, Any]], object]) -> bool:
        """Whether the form was right and ``act`` went through; if not, the form says why.

        What was typed stays in the form. A missing second factor is not the form's matter.
        """
        if not form.is_valid():
            return False
        try:
            act(dict(form.cleaned_data))
        except SecondFactorNeeded:
            raise
        except errors.ProductError as refused:
            refuse(form, refused)
            return False
        return True

    def tell(self, form: forms.Form) -> None:
        """Say what was refused on top as well: its form may not be offered any more."""
        for fault in form.non_field_errors():
            messages.error(self.request, str(fault))

    def confirmed(self, form: SeenForm, digest: str) -> bool:
        """Whether what would happen is what was looked at; if not, the page says so."""
        if form.looked_at(digest):
            return True
        if form.cleaned_data["seen"]:
            messages.warning(self.request, CHANGED)
        return False

    def looked_and_kept(
        self,
        form: SeenForm,
        *,
        look: Callable[[], Seen],
        keep: Callable[[dict[str, Any]], object],
        show: Callable[[Seen | None, int], HttpResponse],
        unchanged: str,
    ) -> HttpResponse | None:
        """First what it touches, then, for exactly that, ``keep`` it; None once that was done.

        ``show`` is the page with the form, and with what it touches where that is known.
        """
        found: list[Seen] = []
        if not self.attempt(form, lambda _given: found.append(look())):
            return show(None, 400)
        [seen] = found
        if not seen.changes:
            form.add_error(None, unchanged)
            return show(seen, 400)
        if not self.confirmed(form, seen.digest):
            return show(seen, 200)

        def exactly_that(given: dict[str, Any]) -> None:
            try:
                keep(given)
            except PreviewStale as stale:
                raise Again from stale

        try:
            done = self.attempt(form, exactly_that)
        except Again:
            messages.warning(self.request, CHANGED)
            return redirect(self.request.path)
        return None if done else show(seen, 400)

    @property
    def only_reads(self) -> str:
        """The reader's role, where it does not carry what the page's forms need."""
        if not self.write_action or self.may(self.write_action):
            return ""
        return self.actor.operator_role or "none"

    def offered(self, offers: list[Offered]) -> list[Offered]:
        """Those of the actions that the reader's role carries."""
        return [one for one in offers if self.may(one.needs or self.write_action)]

    @cached_property
    def waiting(self) -> dict[str, int]:
        """How much work waits for a person, by kind."""
        return {
            "tenants": Tenant.objects.filter(state=TenantState.PENDING).count(),
            "nodes": Node.objects.filter(state=NodeState.VERIFYING).count(),
            "wishes": QuotaIncrease.objects.filter(state=IncreaseState.ASKED).count(),
            "cleanups": Allocation.objects.filter(state=AllocationState.CLEANUP_BLOCKED).count(),
            "overrides": _overrides_asked(),
        }

    @property
    def to_approve(self) -> int:
        """How many answers the inbox waits for."""
        return sum(self.waiting[kind] for kind in ("tenants", "wishes", "overrides"))

    def frame(self) -> Frame:
        """The console's navigation."""

        def link(title: str, name: str, icon: str, count: int = 0) -> Link:
            return Link(title, reverse(f"console:{name}"), icon, count)

        waiting = self.waiting
        sections = (
            Section(
                "",
                (
                    link("Overview", "home", "home"),
                    link("Fleet", "fleet", "fleet"),
                    link("Nodes", "nodes", "node", waiting["nodes"]),
                    link("Node tasks", "tasks", "task"),
                    link("Drift", "drift", "fleet"),
                    link("Maintenance", "maintenance", "queue"),
                    link("Fragmentation", "fragmentation", "gauge"),
                    link("Make room", "defrag", "broom"),
                    link("Placement terms", "placement-terms", "list"),
                    link("Fitness terms", "readiness-terms", "list"),
                ),
            ),
            Section(
                "Customers",
                (
                    link("Products", "stock", "tag"),
                    link("Approvals", "approvals", "queue", self.to_approve),
                    link("Tenants", "tenants", "tenant", waiting["tenants"]),
                    link("Allocations", "allocations", "box", waiting["cleanups"]),
                    link("Decisions", "decisions", "gavel"),
                    link("Policies", "policies", "book"),
                    link("Tiers", "tiers", "tag"),
                    link("Cohorts", "cohorts", "team"),
                    link("Kept apart", "separations", "tenant"),
                    link("Storage", "storage", "box"),
                ),
            ),
            Section(
                "Records",
                (
                    link("Break-glass", "break-glass", "key"),
                    link("Operators", "operators", "team"),
                    link("Retention", "retention", "broom"),
                    link("Control keys", "control-keys", "key"),
                    Link("Admin", reverse("admin:index"), "list"),
                ),
            ),
        )
        return Frame(
            place="console",
            home=reverse("console:home"),
            search=reverse("console:search"),
            user=self.user,
            actor=self.actor,
            sections=with_current(sections, self.request.path, self.crumbs()),
            environment=_ENVIRONMENT or "operator",
            tenants=tuple(tenants_of(self.user)),
            crumbs=self.crumbs(),
        )
