"""Which tier and which cohort does one tenant have, and what would another touch?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from gpuaas.console.acts import Again, ReasonForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import errors
from placement.selectors import leases_of_tenant
from placement.services.impact import digest_of, move_impact
from tenants.errors import PreviewStale
from tenants.models import Cohort, SlaTier, TierAssignment
from tenants.services.cohorts import tenant_cohort_set
from tenants.services.tiers import tier_assign, tier_preview

SHOWN = 50
NONE = "-"
"""What stands for no cohort in an address: no cohort can have this name."""


class ConfirmForm(ReasonForm):
    """What was looked at, by its digest."""

    wanted = forms.CharField(widget=forms.HiddenInput, max_length=60)
    seen = forms.CharField(widget=forms.HiddenInput, max_length=64)


class StandingBoard(OneTenant):
    """The tier with its terms, its history, and the cohort."""

    tab = "tenant-tier"

    def show(self, sent: dict[str, forms.Form] | None = None, status: int = 200) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        found, tenant = sent or {}, self.subject
        tier = self.wanted("tier", found)
        cohort = self.wanted("cohort", found)
        context: dict[str, Any] = {"wanted_tier": tier, "wanted_cohort": cohort}
        if tier:
            preview = tier_preview(
                tenant_id=tenant.pk, tier=tier, running=leases_of_tenant(tenant.pk)
            )
            context["preview"] = preview
            context["tier_form"] = found.get("tier") or ConfirmForm(
                initial={"wanted": tier, "seen": preview.digest}, auto_id="tier-%s"
            )
        if cohort:
            impacts = move_impact(tenant, self.cohort(cohort))
            context["impacts"] = impacts
            context["cohort_form"] = found.get("cohort") or ConfirmForm(
                initial={"wanted": cohort, "seen": digest_of(impacts)}, auto_id="cohort-%s"
            )
        history = TierAssignment.objects.filter(tenant=tenant).select_related("tier")
        return self.tenant_page(
            "console/standing.html",
            status=status,
            tiers=list(SlaTier.objects.order_by("priority_band", "name")),
            cohorts=list(Cohort.objects.order_by("depth", "name")),
            assignments=list(history.order_by("-version")[:SHOWN]),
            none=NONE,
            **context,
        )

    def wanted(self, kind: str, sent: dict[str, forms.Form]) -> str:
        """The name that was looked at: of the form that was sent, or of the query."""
        form = sent.get(kind)
        return str(form.data.get("wanted", "")) if form else self.request.GET.get(kind, "")[:60]

    def cohort(self, name: str) -> Cohort | None:
        """The cohort of this name, None for none. Raises NotFound."""
        if name == NONE:
            return None
        found = Cohort.objects.filter(name=name).first()
        if found is None:
            raise errors.NotFound(f"There is no cohort {name!r}.")
        return found


class Standing(StandingBoard):
    """The page itself: the tier with its terms, its history, and the cohort."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page; with a tier or a cohort in the query, what having it would touch."""
        return self.show()


class ActOnStanding(StandingBoard):
    """Give a tier, or move into a cohort, as it was looked at."""

    def post(self, request: HttpRequest, slug: str, kind: str) -> HttpResponse:
        """Do it, unless what it touches has changed."""
        if kind not in ("tier", "cohort"):
            raise errors.NotFound
        form = ConfirmForm(request.POST, auto_id=f"{kind}-%s")
        try:
            done = self.attempt(form, self.give if kind == "tier" else self.move)
        except Again:
            messages.warning(request, "What it touches has changed. Look at it again.")
            query = urlencode({kind: form.cleaned_data["wanted"]})
            return redirect(f"{reverse('console:tenant-tier', args=[slug])}?{query}")
        if not done:
            return self.show({kind: form}, 400)
        messages.success(request, f"{self.subject.name} has another {kind}.")
        return redirect("console:tenant-tier", slug)

    def give(self, given: dict[str, Any]) -> None:
        """Raises what the service raises, and Again."""
        pk = self.subject.pk
        try:
            tier_assign(
                tenant_id=pk,
                tier=given["wanted"],
                running=leases_of_tenant(pk),
                seen=given["seen"],
                reason=given["reason"],
                actor=self.actor,
            )
        except PreviewStale as stale:
            raise Again from stale

    def move(self, given: dict[str, Any]) -> None:
        """Raises what the service raises, and Again."""
        cohort = self.cohort(given["wanted"])
        if given["seen"] != digest_of(move_impact(self.subject, cohort)):
            raise Again
        tenant_cohort_set(
            tenant_id=self.subject.pk,
            cohort=cohort.name if cohort else None,
            reason=given["reason"],
            actor=self.actor,
        )
