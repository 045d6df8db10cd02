"""For how long are rows kept that are over, and how is that changed?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel.retention import (
    LEAST_DAYS,
    MOST_DAYS,
    over_now,
    retention_list,
    retention_set,
)
from gpuaas.ui.frame import Crumb


class RetentionForm(ReasonForm):
    """Other days for one kind of rows."""

    name = forms.ChoiceField(label="Rows")
    days = forms.IntegerField(
        label="Days after they are over",
        min_value=LEAST_DAYS,
        max_value=MOST_DAYS,
        help_text=f"{LEAST_DAYS} to {MOST_DAYS}.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name: Any = self.fields["name"]
        name.choices = [(kept.name, kept.name.replace("_", " ")) for kept in retention_list()]
        self.order_fields(["name", "days", "reason"])


class Retention(ConsolePage):
    """Every kind with its days and what will go next, and the form that changes one."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Retention"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list with an empty form."""
        return self.show(RetentionForm())

    def show(self, form: RetentionForm, status: int = 200) -> HttpResponse:
        """The list with this form."""
        kinds = [(kept, over_now(kept)) for kept in retention_list()]
        return self.page(
            "console/retention.html",
            status=status,
            kinds=kinds,
            form=form,
            may_write=self.may(self.write_action),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Set the days of one kind."""
        form = RetentionForm(request.POST)

        def keep(given: dict[str, Any]) -> None:
            retention_set(**given, actor=self.actor)

        if not self.attempt(form, keep):
            return self.show(form, 400)
        given = form.cleaned_data
        messages.success(request, f"{given['name']}: kept for {given['days']} days.")
        return redirect("console:retention")
