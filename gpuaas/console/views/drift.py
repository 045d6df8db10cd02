"""Where do hosts differ from what is wanted, who acts, and what is held for a person?"""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.forms import text_in
from gpuaas.ui.frame import Crumb
from gpuaas.ui.paging import part_of
from placement.domain.drift import ACTORS, KINDS
from placement.models import BreakerRule
from placement.selectors import drift_list, drift_standing, held_list
from placement.services.breaker import held_allow, held_reject
from placement.services.drift import drift_accept, drift_remove

PAGE = 50
STATES = ("standing", "open", "escalated", "accepted", "closed")
ACCEPTABLE = frozenset(kind for kind, one in KINDS.items() if one.acceptable)
REMOVABLE = frozenset({"released_but_present", "vm_missing"})


class Drifts(ConsolePage):
    """The list, by state, kind and who acts; and what the breaker holds."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Drift"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of it."""
        asked = {name: request.GET.get(name, "") for name in ("state", "kind", "actor", "node")}
        if asked["state"] not in (*STATES, "all"):
            asked["state"] = "standing"
        if asked["kind"] not in KINDS:
            asked["kind"] = ""
        if asked["actor"] not in ACTORS:
            asked["actor"] = ""
        wanted = {**asked, "state": "" if asked["state"] == "all" else asked["state"]}
        part = part_of(drift_list(wanted), request.GET.get("cursor", ""), PAGE)
        return self.page(
            "console/drift.html",
            rows=part.items,
            cursor=part.next,
            asked=asked,
            states=(*STATES, "all"),
            actors=ACTORS,
            standing=drift_standing(),
            held=list(held_list()[:PAGE]),
            rules=list(BreakerRule.objects.select_related("pool").order_by("pool__name")),
            acceptable=ACCEPTABLE,
            removable=REMOVABLE,
            may_act=self.may(self.write_action),
        )


class ActOnDrift(ConsolePage):
    """Decide about one difference, or about one held action."""

    def post(self, request: HttpRequest, pk: UUID, action: str) -> HttpResponse:
        """Do it with the reason given, and go back to the list."""
        reason = text_in(request)
        if action == "accept":
            drift_accept(drift_id=pk, reason=reason, actor=self.actor)
        elif action == "remove":
            drift_remove(drift_id=pk, reason=reason, actor=self.actor)
        elif action == "allow":
            held_allow(action_id=pk, reason=reason, actor=self.actor)
        elif action == "reject":
            held_reject(action_id=pk, reason=reason, actor=self.actor)
        else:
            raise errors.NotFound
        messages.success(request, f"Done: {action}.")
        return redirect(reverse("console:drift"))
