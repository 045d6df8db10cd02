"""Who shares with whom, how much, and what does another limit of a cohort touch?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.acts import SeenForm, SureForm
from gpuaas.console.cohort_tree import drawing, rows_of
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel.models import Event
from gpuaas.ui.amounts import Units
from gpuaas.ui.frame import Crumb
from placement.services.impact import Impact, bound_impact
from tenants.models import Cohort, CohortCounter, ResourceClass
from tenants.services.cohorts import (
    cohort_create,
    cohort_delete,
    cohort_limits_set,
    cohort_named,
)
from tenants.snapshots import cohort_tree

SHOWN = 20


class CohortForm(forms.Form):
    """A cohort without members."""

    name = forms.CharField(label="Name", max_length=60, help_text="a to z, digits, hyphens.")
    title = forms.CharField(label="Title", max_length=120, required=False)
    parent = forms.ModelChoiceField(
        Cohort.objects.order_by("depth", "name"),
        label="Inside",
        required=False,
        empty_label="nothing: a root",
        to_field_name="name",
        help_text="Chosen once and for all.",
    )


class LimitsForm(SeenForm):
    """What a cohort may borrow from its parent and lends to it, of one class."""

    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    borrow_milli = Units(
        label="Borrows from its parent at most", required=False, help_text="Empty: no own limit."
    )
    lend_milli = Units(label="Lends to its parent at most", required=False, help_text="Empty: all.")


class Cohorts(ConsolePage):
    """The tree as a picture and as tables, and the form of another cohort."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Cohorts"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page, for one class."""
        return self.show(CohortForm())

    def show(self, form: CohortForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        kinds = list(ResourceClass.objects.order_by("name"))
        wanted = self.request.GET.get("class", "")
        kind = next((k for k in kinds if k.name == wanted), kinds[0] if kinds else None)
        rows = rows_of(kind)
        title = f"Who shares {kind.title if kind else 'nothing'} with whom: {len(rows)} lines"
        return self.page(
            "console/cohorts.html",
            status=status,
            kinds=kinds,
            kind=kind,
            rows=rows,
            picture=drawing(rows, title) if rows else "",
            counters=[n for n in cohort_tree() if kind and n.resource_class == kind.name],
            form=form,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it, or say what is wrong beside the field."""
        form = CohortForm(request.POST)

        def make(given: dict[str, Any]) -> None:
            parent = given["parent"].name if given["parent"] else None
            cohort_create(**{**given, "parent": parent}, actor=self.actor)

        if not self.attempt(form, make):
            return self.show(form, 400)
        messages.success(request, "The cohort is made. Nobody is in it yet.")
        return redirect("console:cohort", form.cleaned_data["name"])


class CohortBoard(ConsolePage):
    """One cohort: who is in it, what they share, its limits."""

    title = ""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Cohorts", reverse("console:cohorts")), Crumb(self.title))

    def show(
        self,
        cohort: Cohort,
        *,
        form: LimitsForm | None = None,
        impact: Impact | None = None,
        delete: SureForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the forms that were sent and what they would touch."""
        self.title = cohort.title or cohort.name
        counters = CohortCounter.objects.filter(cohort=cohort).select_related("resource_class")
        return self.page(
            "console/cohort.html",
            status=status,
            cohort=cohort,
            tenants=list(cohort.tenants.select_related("tier").order_by("name")),
            children=list(cohort.children.order_by("name")),
            counters=list(counters.order_by("resource_class__name")),
            form=form or LimitsForm(),
            impact=impact,
            delete=delete or SureForm(name=cohort.name, auto_id="delete-%s"),
            events=list(Event.objects.filter(subject_id=cohort.pk).order_by("-id")[:SHOWN]),
        )


class CohortPage(CohortBoard):
    """The page itself: one cohort: who is in it, what they share, its limits."""

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        """The page."""
        return self.show(cohort_named(name))

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """First what other limits touch; then, for exactly that, keep them."""
        cohort = cohort_named(name)
        form = LimitsForm(request.POST)
        if not form.is_valid():
            return self.show(cohort, form=form, status=400)
        impact = self.impact(cohort, form)
        if not self.confirmed(form, impact.digest):
            return self.show(cohort, form=form, impact=impact)
        if not self.attempt(form, lambda given: self.keep(cohort, given)):
            return self.show(cohort, form=form, impact=impact, status=400)
        messages.success(request, "The limits are kept.")
        return redirect("console:cohort", name)

    def impact(self, cohort: Cohort, form: LimitsForm) -> Impact:
        """What the form's limits touch."""
        given = form.cleaned_data
        return bound_impact(
            cohort,
            given["resource_class"],
            borrow_milli=given["borrow_milli"],
            lend_milli=given["lend_milli"],
        )

    def keep(self, cohort: Cohort, given: dict[str, Any]) -> None:
        """Raises what the service raises."""
        cohort_limits_set(
            cohort=cohort.name,
            resource_class=given["resource_class"].name,
            borrow_milli=given["borrow_milli"],
            lend_milli=given["lend_milli"],
            reason=given["reason"],
            actor=self.actor,
        )


class DeleteCohort(CohortBoard):
    """Remove a cohort that has nobody in it."""

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        """Do it with the reason given, once its name was typed."""
        cohort = cohort_named(name)
        form = SureForm(request.POST, name=cohort.name, auto_id="delete-%s")
        if not self.attempt(
            form,
            lambda given: cohort_delete(
                cohort=cohort.name, reason=given["reason"], actor=self.actor
            ),
        ):
            return self.show(cohort, delete=form, status=400)
        messages.success(request, f"{cohort.name} is gone.")
        return redirect("console:cohorts")
