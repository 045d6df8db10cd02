"""What binds placement, by which weights is room valued, and what would other ones touch?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm, SeenForm, Words
from gpuaas.console.pages import ConsolePage
from gpuaas.ui.amounts import Whole
from gpuaas.ui.frame import Crumb
from placement.domain.terms import Alone
from placement.selectors.terms import TermsNow, scoring_list, terms_list, terms_now
from placement.services import terms
from tenants.models import Tenant
from tenants.selectors import tenants_called

ALONE_TITLES = {
    "shares": "shares all with others",
    "wiring": "no switch, NVLink domain or NIC with another tenant",
    "node": "no host with another tenant",
}
OWN_TITLES = {
    "": "it does not matter",
    "with": "only hosts where the tenant has something",
    "apart": "only hosts where the tenant has nothing",
}


class TermsForm(SeenForm):
    """All terms of one SKU, tier or pool."""

    alone = forms.ChoiceField(
        label="Shared with no other tenant",
        choices=[(level.name.lower(), ALONE_TITLES[level.name.lower()]) for level in Alone],
    )
    own = forms.ChoiceField(
        label="Beside the tenant's own", required=False, choices=list(OWN_TITLES.items())
    )
    driver_min = forms.CharField(
        label="Driver, at least", required=False, max_length=40, help_text="Such as 550.54."
    )
    driver_below = forms.CharField(label="Driver, below", required=False, max_length=40)
    runtime_min = forms.CharField(label="Runtime, at least", required=False, max_length=40)
    tenants = Words(
        label="Only for these tenants (of a pool)",
        required=False,
        max_length=2000,
        help_text="Slugs with commas between them; empty: for everybody.",
    )

    def given(self) -> dict[str, Any]:
        """The terms as the services take them. Raises InvalidRequest for a strange tenant."""
        names = ("alone", "own", "driver_min", "driver_below", "runtime_min")
        found = {name: self.cleaned_data[name] for name in names}
        return {**found, "tenants": tenants_called(self.cleaned_data["tenants"])}


class ScoringForm(ReasonForm):
    """Weights in thousandths."""

    gap = Whole(label="Gaps of shared GPUs", min_value=0)
    fragment = Whole(label="Fragments", min_value=0)
    stranded = Whole(label="Stranded capacity", min_value=0)
    broken = Whole(label="Broken NUMA nodes and switches", min_value=0)


class PlacementTerms(ConsolePage):
    """What was set, by whom and why; and everything that terms can be set of."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Terms of placement"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        names = {
            noun: list(rows.order_by("name").values_list("name", flat=True)[:200])
            for noun, rows in terms.NOUNS.items()
        }
        return self.page(
            "console/placement_terms.html",
            rows=[(now, *now.about.split(":", 1)) for now in terms_list()],
            nouns=names.items(),
            weights=scoring_list()[0],
        )


class PlacementTermsPage(ConsolePage):
    """One SKU's, tier's or pool's terms: first what others touch, then they are set."""

    about = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        up = reverse("console:placement-terms")
        return (Crumb("Terms of placement", up), Crumb(self.about))

    def get(self, request: HttpRequest, noun: str, name: str) -> HttpResponse:
        """The form with what holds now."""
        self.about = terms.about_of(noun, name)
        now = terms_now(self.about)
        slugs = Tenant.objects.filter(pk__in=now.tenants).values_list("slug", flat=True)
        return self.show(now, TermsForm(initial={**now.given(), "tenants": ", ".join(slugs)}))

    def show(
        self,
        now: TermsNow,
        form: TermsForm,
        preview: terms.TermsPreview | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with this form, and what it would touch once that is known."""
        return self.page(
            "console/placement_terms_one.html",
            status=status,
            now=now,
            form=form,
            preview=preview,
            may_set=self.may(self.write_action),
        )

    def post(self, request: HttpRequest, noun: str, name: str) -> HttpResponse:
        """First what it touches; then, for exactly that, set it."""
        self.about = terms.about_of(noun, name)
        now = terms_now(self.about)
        form = TermsForm(request.POST)
        answer = self.looked_and_kept(
            form,
            look=lambda: terms.terms_preview(noun=noun, name=name, **form.given()),
            keep=lambda given: terms.terms_set(
                noun=noun,
                name=name,
                seen=given["seen"],
                reason=given["reason"],
                actor=self.actor,
                **form.given(),
            ),
            show=lambda preview, status: self.show(now, form, preview, status),
            unchanged="No term is different from what holds.",
        )
        if answer is not None:
            return answer
        messages.success(request, "The terms hold from now on; what runs keeps its promises.")
        return redirect("console:placement-terms-one", noun, name)


class ScoringPage(ConsolePage):
    """The weights in all their versions, and the form of the next."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        up = reverse("console:placement-terms")
        return (Crumb("Terms of placement", up), Crumb("Weights"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form with what is in force."""
        now = scoring_list()[0]
        names = ("gap", "fragment", "stranded", "broken")
        return self.show(ScoringForm(initial={name: getattr(now, name) for name in names}))

    def show(self, form: ScoringForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        return self.page(
            "console/scoring.html",
            status=status,
            form=form,
            rows=scoring_list(),
            may_set=self.may(self.write_action),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Set them with the reason given."""
        form = ScoringForm(request.POST)
        if not self.attempt(form, lambda given: terms.scoring_set(actor=self.actor, **given)):
            return self.show(form, 400)
        messages.success(request, "The weights are in force within half a minute.")
        return redirect("console:scoring")
