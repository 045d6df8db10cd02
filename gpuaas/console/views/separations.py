"""Which tenants are never placed on one host, and what would another set of them come to?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import ReasonForm, SeenForm, Words
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.kernel.models import Event
from gpuaas.ui.frame import Crumb
from placement.models import Separation
from placement.selectors.separations import (
    separation_shown,
    separations,
    separations_shown,
    together_now,
)
from placement.services import separations as service
from tenants.models import Tenant
from tenants.selectors import tenants_called

LISTED = 200
SHOWN = 20


class MembersForm(SeenForm):
    """All members of one set."""

    tenants = Words(
        label="Tenants",
        max_length=4000,
        help_text="Slugs with commas between them: two at least, 50 at most.",
    )


class SeparationForm(MembersForm):
    """A set with its name."""

    # Here as well as in the service, so that it is told beside whatever else is wrong.
    name = forms.RegexField(
        rf"\A{service.NAME.pattern}\Z",
        label="Name of the set",
        max_length=60,
        help_text="a to z, digits, hyphens.",
        error_messages={"invalid": "A slug is needed: a to z, digits, hyphens."},
    )
    field_order = ("name", "tenants")


@dataclass(frozen=True, slots=True)
class Look:
    """A preview as a page asks for it."""

    preview: service.SeparationPreview

    @property
    def changes(self) -> Sequence[str]:
        """Who becomes a member or is one no more."""
        return [*self.preview.added, *self.preview.dropped]

    @property
    def digest(self) -> str:
        """What a confirmation names."""
        return self.preview.digest


class SeparationsBoard(ConsolePage):
    """What the pages of sets do alike."""

    def looked_and_set(
        self,
        form: MembersForm,
        *,
        name: str = "",
        show: Callable[[service.SeparationPreview | None, int], HttpResponse],
    ) -> HttpResponse | None:
        """First what the members come to; then, for exactly that, they are set. None: they are.

        ``name`` is the set's; where it is empty, the form has it.
        """

        def given() -> dict[str, Any]:
            typed = form.cleaned_data
            return {"name": name or typed["name"], "tenants": tenants_called(typed["tenants"])}

        return self.looked_and_kept(
            form,
            look=lambda: Look(service.separation_preview(**given())),
            keep=lambda sent: service.separation_set(
                **given(), seen=sent["seen"], reason=sent["reason"], actor=self.actor
            ),
            show=lambda look, status: show(look.preview if look else None, status),
            unchanged="These are its members already.",
        )

    def done(self, name: str) -> HttpResponse:
        """Say that the set holds, on its page."""
        messages.success(self.request, f"{name} holds from now on; what runs stays where it is.")
        return redirect("console:separation", name)


class Separations(SeparationsBoard):
    """Who is kept apart, how many hosts they share still, and the form of another set."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Kept apart"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        return self.show(SeparationForm())

    def show(
        self,
        form: SeparationForm,
        preview: service.SeparationPreview | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with this form, and with what it comes to once that is known."""
        return self.page(
            "console/separations.html",
            status=status,
            rows=separations_shown(list(separations()[:LISTED])),
            most=LISTED,
            form=form,
            preview=preview,
            may_set=self.may(self.write_action),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """First what the set comes to; then, for exactly that, set it."""
        form = SeparationForm(request.POST)
        answer = self.looked_and_set(
            form, show=lambda preview, status: self.show(form, preview, status)
        )
        return answer if answer is not None else self.done(form.cleaned_data["name"])


class SeparationBoard(SeparationsBoard):
    """One set: its members, the hosts that they share, and what it said before."""

    name = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Kept apart", reverse("console:separations")), Crumb(self.name))

    def row(self, name: str) -> Separation:
        """The set of this name. Raises NotFound."""
        found = separations().filter(name=name).first()
        if found is None:
            raise errors.NotFound
        self.name = found.name
        return found

    def show(
        self,
        row: Separation,
        *,
        form: MembersForm | None = None,
        preview: service.SeparationPreview | None = None,
        remove: ReasonForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the forms that were sent and what they come to."""
        now = separation_shown(row)
        members = ", ".join(slug for _, slug in now.tenants)
        return self.page(
            "console/separation.html",
            status=status,
            now=now,
            shared=together_now([UUID(pk) for pk in row.tenants]),
            versions=versions_of(row),
            form=form or MembersForm(initial={"tenants": members}),
            preview=preview,
            remove=remove or ReasonForm(auto_id="remove-%s"),
            may_set=self.may(self.write_action),
        )


def versions_of(row: Separation) -> list[tuple[Event, str]]:
    """Each time that the set was set, the latest first, with whom it had then."""
    found = list(
        Event.objects.filter(kind="placement.separation.set", subject_id=row.pk).order_by("-id")[
            :SHOWN
        ]
    )
    members = [list((event.after or {}).get("tenants", ())) for event in found]
    ids = {pk for one in members for pk in one}
    slugs = {
        str(pk): slug for pk, slug in Tenant.objects.filter(pk__in=ids).values_list("pk", "slug")
    }
    return [
        (event, ", ".join(slugs.get(pk, pk) for pk in one))
        for event, one in zip(found, members, strict=True)
    ]


class SeparationPage(SeparationBoard):
    """The page itself: one set, and the form of its next members."""

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The page."""
        return self.show(self.row(name))

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """First what other members come to; then, for exactly that, set them."""
        row = self.row(name)
        form = MembersForm(request.POST)
        answer = self.looked_and_set(
            form,
            name=row.name,
            show=lambda preview, status: self.show(row, form=form, preview=preview, status=status),
        )
        return answer if answer is not None else self.done(row.name)


class RemoveSeparation(SeparationBoard):
    """The end of a set."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Let its members share hosts again, with the reason given."""
        row = self.row(name)
        form = ReasonForm(request.POST, auto_id="remove-%s")
        if not self.attempt(
            form,
            lambda given: service.separation_remove(
                name=row.name, reason=given["reason"], actor=self.actor
            ),
        ):
            return self.show(row, remove=form, status=400)
        messages.success(request, f"{row.name} is gone: its members may share hosts again.")
        return redirect("console:separations")
