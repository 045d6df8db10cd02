"""What stands around an operator's page?"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.urls import reverse

from gpuaas.config import Config
from gpuaas.ui.frame import Frame, Link, Section, with_current
from gpuaas.ui.pages import OperatorView
from placement.models import Allocation, Node
from placement.states import AllocationState, NodeState
from tenants.models import QuotaIncrease, Tenant
from tenants.selectors import tenants_of
from tenants.states import IncreaseState, TenantState

_ENVIRONMENT = "demo" if Config.from_env().demo else ""


def in_words(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision without the raw numbers in its sentence: a table beside it shows them."""
    return {**decision, "why": str(decision["why"]).split("; first choice")[0]}


class ConsolePage(OperatorView):
    """A page of the console; it sees every tenant."""

    read_action = "operator:read"

    @cached_property
    def waiting(self) -> dict[str, int]:
        """How much work waits for a person, by kind."""
        return {
            "tenants": Tenant.objects.filter(state=TenantState.PENDING).count(),
            "nodes": Node.objects.filter(state=NodeState.VERIFYING).count(),
            "wishes": QuotaIncrease.objects.filter(state=IncreaseState.ASKED).count(),
            "cleanups": Allocation.objects.filter(state=AllocationState.CLEANUP_BLOCKED).count(),
        }

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
                ),
            ),
            Section(
                "Customers",
                (
                    link("Approvals", "approvals", "queue", waiting["tenants"] + waiting["wishes"]),
                    link("Tenants", "tenants", "tenant", waiting["tenants"]),
                    link("Allocations", "allocations", "box", waiting["cleanups"]),
                    link("Decisions", "decisions", "gavel"),
                    link("Policies", "policies", "book"),
                    link("Tiers and cohorts", "tiers", "tag"),
                ),
            ),
            Section(
                "Records",
                (
                    link("Break-glass", "break-glass", "key"),
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
            sections=with_current(sections, self.request.path),
            environment=_ENVIRONMENT or "operator",
            tenants=tuple(tenants_of(self.user)),
            crumbs=self.crumbs(),
        )
