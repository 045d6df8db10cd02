"""Which service levels are there, and what does another version of one touch?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm, SeenForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel.models import Event
from gpuaas.ui.amounts import Whole
from gpuaas.ui.frame import Crumb
from placement.selectors import leases_of_tier
from tenants.domain.tiers import ISOLATIONS, PREEMPTIONS, TERMS, Preview
from tenants.models import SlaTier, Tenant, TierVersion
from tenants.services.tiers import (
    NEW_TIER,
    terms_of,
    tier_change,
    tier_change_preview,
    tier_create,
    tier_named,
)
from tenants.states import TenantState

SHOWN = 50
GONE = (TenantState.DELETED, TenantState.REJECTED)


class TermsForm(ReasonForm):
    """Every term of a tier; their ranges are the service's own."""

    availability_ppm = Whole(
        label="Availability (parts per million)",
        help_text="999000 is 99.9 %. 0 promises nothing.",
    )
    provision_target_s = Whole(label="Time to provision (seconds)")
    throughput_floor_permille = Whole(
        label="Throughput (per mille of what is expected)", help_text="0 promises nothing."
    )
    priority_band = Whole(label="Priority band", help_text="0 goes first.")
    preemptible = forms.BooleanField(label="May be preempted", required=False)
    preemption = forms.ChoiceField(
        label="When it may be preempted",
        choices=[(name, name.replace("_", " ")) for name in PREEMPTIONS],
    )
    protected_run_s = Whole(
        label="Protected run time (seconds)", help_text="Not preempted before it ran so long."
    )
    checkpoint_grace_s = Whole(
        label="Checkpoint grace (seconds)", help_text="Between the warning and the end."
    )
    isolation = forms.ChoiceField(
        label="Isolation, at least", choices=[(name, name) for name in ISOLATIONS]
    )
    degradation_rank = Whole(
        label="Degradation rank", help_text="Lower degrades first when something has to give."
    )
    credit_ladder = forms.CharField(
        label="Credit ladder (JSON)",
        required=False,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 4, "spellcheck": "false"}),
        help_text='Steepest last, such as [{"below_ppm": 999000, "credit_permille": 100}]. '
        "Empty: no credits.",
    )

    def clean_credit_ladder(self) -> list[Any]:
        """The rungs; whether they make sense is the service's to say."""
        text = self.cleaned_data["credit_ladder"]
        try:
            found = json.loads(text) if text else []
        except ValueError as wrong:
            raise ValidationError(f"This is not JSON: {wrong}.") from wrong
        if not isinstance(found, list):
            raise ValidationError("A list of rungs with below_ppm and credit_permille.")
        return found

    def terms(self) -> dict[str, Any]:
        """Every term as the services take it."""
        return {name: self.cleaned_data[name] for name in TERMS}


class NewForm(TermsForm):
    """A tier nobody has yet."""

    name = forms.CharField(label="Name", max_length=40, help_text="a to z, digits, hyphens.")
    title = forms.CharField(label="Title", max_length=120)

    field_order = ("name", "title")


class ChangeForm(SeenForm, TermsForm):
    """The next version of a tier."""


def typed(terms: dict[str, Any]) -> dict[str, Any]:
    """Terms as the form shows them."""
    ladder = terms["credit_ladder"]
    return {**terms, "credit_ladder": json.dumps(ladder) if ladder else ""}


@dataclass(frozen=True, slots=True)
class Step:
    """One version and what changed with it."""

    version: TierVersion
    changes: list[tuple[str, Any, Any]]


def steps_of(tier: SlaTier) -> list[Step]:
    """The latest versions first, each beside the one before it."""
    rows = list(TierVersion.objects.filter(tier=tier).order_by("-version")[: SHOWN + 1])
    out = []
    for row, before in zip(rows, [*rows[1:], None], strict=False):
        terms = before.terms if before else {}
        changes = [
            (name, terms[name], value)
            for name, value in row.terms.items()
            if name in terms and terms[name] != value
        ]
        out.append(Step(row, changes))
    return out[:SHOWN]


class Tiers(ConsolePage):
    """Service levels, the most urgent first."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Tiers"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Tiers in force."""
        return self.page(
            "console/tiers.html",
            tiers=list(SlaTier.objects.order_by("priority_band", "name")),
        )


class NewTier(ConsolePage):
    """The form of a tier nobody has yet."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Tiers", reverse("console:tiers")), Crumb("New tier"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form with the terms that a new tier begins with."""
        return self.show(NewForm(initial=typed({**terms_of(SlaTier()), **NEW_TIER})))

    def show(self, form: NewForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        return self.page("console/tier_new.html", status=status, form=form)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep it, or say what is wrong beside the field."""
        form = NewForm(request.POST)
        if not self.attempt(
            form,
            lambda given: tier_create(
                name=given["name"],
                title=given["title"],
                terms=form.terms(),
                reason=given["reason"],
                actor=self.actor,
            ),
        ):
            return self.show(form, 400)
        messages.success(request, "The tier is kept. Nobody has it yet.")
        return redirect("console:tier", form.cleaned_data["name"])


class TierPage(ConsolePage):
    """One tier: its terms, who has it, its versions, and the form of the next."""

    title = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Tiers", reverse("console:tiers")), Crumb(self.title))

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The page."""
        tier = tier_named(name)
        return self.show(tier, ChangeForm(initial=typed(terms_of(tier))))

    def show(
        self, tier: SlaTier, form: ChangeForm, preview: Preview | None = None, status: int = 200
    ) -> HttpResponse:
        """The page with this form, and whom it would touch once that is known."""
        self.title = tier.title
        return self.page(
            "console/tier.html",
            status=status,
            tier=tier,
            terms=terms_of(tier),
            holders=list(
                Tenant.objects.filter(tier=tier).exclude(state__in=GONE).order_by("name")[:500]
            ),
            steps=steps_of(tier),
            events=list(Event.objects.filter(subject_id=tier.pk).order_by("-id")[:20]),
            form=form,
            preview=preview,
        )

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """First whom it touches; then, for exactly that, keep the next version."""
        tier = tier_named(name)
        form = ChangeForm(request.POST)
        answer = self.looked_and_kept(
            form,
            look=lambda: tier_change_preview(
                name=name, terms=form.terms(), running=leases_of_tier(name)
            ),
            keep=lambda given: tier_change(
                name=name,
                terms=form.terms(),
                running=leases_of_tier(name),
                seen=given["seen"],
                reason=given["reason"],
                actor=self.actor,
            ),
            show=lambda preview, status: self.show(tier, form, preview, status),
            unchanged="No term is different from the version in force.",
        )
        if answer is not None:
            return answer
        messages.success(request, "The next version is in force.")
        return redirect("console:tier", name)
