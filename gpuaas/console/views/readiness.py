"""What do hosts need before they are sold, and what would other terms do to them?"""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import SeenForm
from gpuaas.console.pages import ConsolePage
from gpuaas.ui.forms import text_in
from gpuaas.ui.frame import Crumb
from placement.domain.readiness import CAPABILITIES, CHECKS
from placement.selectors.readiness_terms import (
    FamilyTerms,
    readiness_terms_list,
    readiness_terms_now,
)
from placement.services import readiness_terms as service
from tenants.errors import PreviewStale

ALWAYS = "always"
_TIME = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


class Validity(forms.CharField):
    """How long a passed check is good: empty, ``always``, or such as 30d.

    Its value: False where it is not needed, None where it has no end, else seconds.
    """

    default_error_messages = {  # noqa: RUF012 - Django's own form
        "bad_time": "Such as 30d, 12h, always, or empty."
    }

    def clean(self, value: Any) -> Any:
        """The seconds."""
        text = str(super().clean(value)).strip().lower()
        if text in ("", ALWAYS):
            return None if text else False
        found = _TIME.fullmatch(text)
        if found is None:
            raise forms.ValidationError(self.error_messages["bad_time"], code="bad_time")
        return int(found[1]) * _UNITS[found[2]]


def spoken(seconds: int | None) -> str:
    """A validity as the form takes it, in the largest unit that tells it whole."""
    if seconds is None:
        return ALWAYS
    unit = next(unit for unit, size in _UNITS.items() if seconds % size == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


class ReadinessForm(SeenForm):
    """All terms of one family: for each shape each check, and the least versions."""

    driver_min = forms.CharField(
        label="Driver, at least", required=False, max_length=40, help_text="Such as 550.54."
    )
    firmware_min = forms.CharField(label="Firmware, at least", required=False, max_length=40)
    auto_promote = forms.BooleanField(
        label="Promote hosts that are meant for a shape, and fit for it, unasked", required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for capability in CAPABILITIES:
            for check in CHECKS:
                self.fields[f"{capability}_{check}"] = Validity(
                    label=f"{capability.capitalize()}: {check.replace('_', ' ')}",
                    required=False,
                    max_length=12,
                )
        needs = [f"{capability}_{check}" for capability in CAPABILITIES for check in CHECKS]
        self.order_fields([*needs, "driver_min", "firmware_min", "auto_promote", "reason"])

    def given(self) -> dict[str, Any]:
        """The terms as the services take them."""
        said = self.cleaned_data
        required = {
            capability: {
                check: said[f"{capability}_{check}"]
                for check in CHECKS
                if said[f"{capability}_{check}"] is not False
            }
            for capability in CAPABILITIES
        }
        names = ("driver_min", "firmware_min", "auto_promote")
        return {"required": required, **{name: said[name] for name in names}}


def _initial(now: FamilyTerms) -> dict[str, Any]:
    needs = {f"{n.capability}_{n.check}": spoken(n.valid_s) for n in now.required}
    names = ("driver_min", "firmware_min", "auto_promote")
    return {**needs, **{name: getattr(now, name) for name in names}}


class ReadinessTerms(ConsolePage):
    """What each family's hosts need."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Terms of fitness"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        return self.page("console/readiness_terms.html", rows=readiness_terms_list())


class ReadinessTermsPage(ConsolePage):
    """One family's terms: first whom others move, then they are set."""

    family = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        up = reverse("console:readiness-terms")
        return (Crumb("Terms of fitness", up), Crumb(self.family))

    def get(self, request: HttpRequest, family: str) -> HttpResponse:
        """The form with what holds now."""
        now = readiness_terms_now(family)
        return self.show(now, ReadinessForm(initial=_initial(now)))

    def show(
        self,
        now: FamilyTerms,
        form: ReadinessForm,
        preview: service.TermsPreview | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with this form, and whom it would move once that is known."""
        self.family = now.family
        family = self.family
        removal = service.readiness_terms_removal(family=family) if now.version else None
        return self.page(
            "console/readiness_terms_one.html",
            status=status,
            now=now,
            form=form,
            preview=preview,
            removal=removal,
            may_set=self.may(self.write_action),
        )

    def post(self, request: HttpRequest, family: str) -> HttpResponse:
        """First whom it moves; then, for exactly that, set it."""
        now = readiness_terms_now(family)
        if request.POST.get("do") == "remove":
            return self._remove(request, now)
        form = ReadinessForm(request.POST)
        answer = self.looked_and_kept(
            form,
            look=lambda: service.readiness_terms_preview(family=family, **form.given()),
            keep=lambda given: service.readiness_terms_set(
                family=family,
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
        messages.success(request, "The terms hold; the hosts are judged within ten seconds.")
        return redirect("console:readiness-terms-one", family)

    def _remove(self, request: HttpRequest, now: FamilyTerms) -> HttpResponse:
        """Remove them, for exactly what the page has shown of it."""
        try:
            service.readiness_terms_remove(
                family=now.family,
                reason=text_in(request),
                seen=text_in(request, "seen", 64),
                actor=self.actor,
            )
        except PreviewStale:
            messages.error(request, "What it moves has changed: look again before you remove them.")
            return redirect("console:readiness-terms-one", now.family)
        messages.success(request, "Removed; the hosts are judged within ten seconds.")
        return redirect("console:readiness-terms-one", now.family)
