"""What may one tenant hold of each class, from when, and whom does another envelope touch?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm, SeenForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import errors
from gpuaas.ui.amounts import Units, Whole
from gpuaas.ui.quota import shares_of
from placement.services.impact import Impact, envelope_impact, stale
from tenants.models import Envelope, EnvelopeVersion, OnExcess, QuotaCounter, ResourceClass, Tenant
from tenants.selectors import envelope_versions
from tenants.services.envelopes import (
    DRAIN_AFTER_S,
    KEEP,
    LONGEST_DRAIN_S,
    envelope_schedule,
    envelope_set,
    envelope_version_cancel,
)

HOUR_S = 3600
SHOWN = 50


class TermsForm(SeenForm):
    """An envelope, from now or from a moment on."""

    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    nominal_milli = Units(label="Nominal units", help_text="0 is allowed: it may only borrow.")
    borrow_milli = Units(
        label="May borrow beyond it", required=False, help_text="Empty: as it is now."
    )
    lend_milli = Units(label="Lends when unused", required=False, help_text="Empty: as it is now.")
    lend_all = forms.BooleanField(label="Lends all that is unused", required=False)
    effective_from = forms.DateTimeField(
        label="From",
        required=False,
        help_text="Empty: now. Such as 2027-01-01 00:00 (UTC) or 2027-01-01T00:00+02:00.",
    )
    on_excess = forms.ChoiceField(
        label="What is held beyond it",
        required=False,
        choices=[
            ("", "refuse to go below what is held"),
            (OnExcess.GRANDFATHER, "stays until it is released, counted apart"),
            (OnExcess.DRAIN, "drains: the newest is released after the delay"),
        ],
    )
    drain_after_h = Whole(
        label="Drain begins after (hours)",
        min_value=0,
        max_value=LONGEST_DRAIN_S // HOUR_S,
        initial=DRAIN_AFTER_S // HOUR_S,
        required=False,
    )

    def clean(self) -> dict[str, Any]:
        """What it lends is said once."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("lend_all") and given.get("lend_milli") is not None:
            self.add_error("lend_milli", "Give an amount or tick that it lends all, not both.")
        return given

    def terms(self) -> dict[str, Any]:
        """Nominal, borrowing and lending as the services take them."""
        given = self.cleaned_data
        lend = given["lend_milli"]
        if lend is None:
            lend = None if given["lend_all"] else KEEP
        borrow = given["borrow_milli"]
        return {
            "nominal_milli": given["nominal_milli"],
            "borrow_milli": KEEP if borrow is None else borrow,
            "lend_milli": lend,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One class as it is in force, beside what is used of it."""

    envelope: Envelope
    counter: QuotaCounter | None


def rows_of(tenant: Tenant) -> list[Row]:
    """The tenant's classes by name."""
    counters = {
        counter.resource_class_id: counter for counter in QuotaCounter.objects.filter(tenant=tenant)
    }
    envelopes = Envelope.objects.filter(tenant=tenant).select_related("resource_class")
    return [
        Row(envelope, counters.get(envelope.resource_class_id))
        for envelope in envelopes.order_by("resource_class__name")
    ]


class EnvelopeBoard(OneTenant):
    """Envelopes in force, versions past and to come, and the form of the next."""

    tab = "authority"

    def show(
        self,
        form: TermsForm,
        *,
        impact: Impact | None = None,
        cancel: tuple[UUID, ReasonForm] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with this form, and what it would touch once that is known."""
        tenant = self.subject
        return self.tenant_page(
            "console/authority.html",
            status=status,
            shares=shares_of(tenant.pk),
            rows=rows_of(tenant),
            versions=list(envelope_versions(tenant.pk)[:SHOWN]),
            form=form,
            impact=impact,
            cancel_pk=cancel[0] if cancel else None,
            cancel_form=cancel[1] if cancel else ReasonForm(auto_id="cancel-%s"),
        )


class Authority(EnvelopeBoard):
    """The page itself: envelopes in force, versions past and to come, and the form of the next."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page; with a class in the query, the form begins from what is in force."""
        wanted = request.GET.get("class", "")
        row = Envelope.objects.filter(tenant=self.subject, resource_class__name=wanted).first()
        begin: dict[str, Any] = {}
        if row is not None:
            nominal, rest = divmod(row.nominal_milli, 1000)
            shown = f"{nominal}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(nominal)
            begin = {"resource_class": row.resource_class_id, "nominal_milli": shown}
        return self.show(TermsForm(initial=begin))

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """First what it touches; then, for these very numbers, keep it."""
        form = TermsForm(request.POST)
        if not form.is_valid():
            return self.show(form, status=400)
        impact = self.impact(form)
        if form.errors:
            return self.show(form, impact=impact, status=400)
        if not self.confirmed(form, impact.digest):
            return self.show(form, impact=impact)
        if not self.attempt(form, lambda given: self.keep(form, given, impact)):
            now = self.impact(form)
            if now.digest == impact.digest:
                return self.show(form, impact=impact, status=400)
            form.looked_at(now.digest)
            return self.show(form, impact=now, status=409)
        messages.success(request, "The envelope is kept.")
        return redirect("console:authority", slug)

    def impact(self, form: TermsForm) -> Impact:
        """What it would touch; less than is held, from now on, needs a policy."""
        given = form.cleaned_data
        found = envelope_impact(
            self.subject, given["resource_class"], start=given["effective_from"], **form.terms()
        )
        if found.excess_milli and not given["on_excess"] and given["effective_from"] is None:
            form.add_error(
                "on_excess",
                "It holds more than this: choose what happens with the rest, or give it more. "
                "(envelope_below_use)",
            )
        return found

    def keep(self, form: TermsForm, given: dict[str, Any], shown: Impact) -> None:
        """Now, or from the moment given, if under the locks it is still what was shown.

        Raises PreviewStale with what differs, and what the services raise.
        """

        def confirm() -> None:
            refused = stale(shown, self.impact(form))
            if refused is not None:
                raise refused

        start, policy = given["effective_from"], given["on_excess"] or None
        hours = given["drain_after_h"]
        common = {
            "tenant_id": self.subject.pk,
            "resource_class": given["resource_class"].name,
            "reason": given["reason"],
            "actor": self.actor,
            "confirm": confirm,
            "drain_after_s": DRAIN_AFTER_S if hours is None else hours * HOUR_S,
            **form.terms(),
        }
        if start is None:
            envelope_set(on_excess=policy, **common)
        else:
            envelope_schedule(
                effective_from=start, on_excess=policy or OnExcess.GRANDFATHER, **common
            )


class CancelVersion(EnvelopeBoard):
    """Call off a version that is to come."""

    def post(self, request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
        """Do it with the reason given."""
        found = EnvelopeVersion.objects.filter(pk=pk, tenant=self.subject).first()
        if found is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id="cancel-%s")
        if not self.attempt(
            form,
            lambda given: envelope_version_cancel(
                version_id=found.pk, reason=given["reason"], actor=self.actor
            ),
        ):
            self.tell(form)
            return self.show(TermsForm(), cancel=(found.pk, form), status=400)
        messages.success(request, f"Version {found.version} is called off.")
        return redirect("console:authority", slug)
