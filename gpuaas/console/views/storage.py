"""Which storage is offered, from where is it reached, and who declared it?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm, Words
from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.forms import text_in
from gpuaas.ui.frame import Crumb
from tenants.models import Storage
from tenants.selectors import storage_list
from tenants.services.storage import storage_declare, storage_retire

ENDED = 50


class StorageForm(ReasonForm):
    """An offer, as the next version of its name."""

    name = forms.CharField(label="Name", max_length=120)
    kind = forms.CharField(
        label="Kind", max_length=40, help_text="What it is good for, such as parallel or scratch."
    )
    zones = Words(
        label="Reached from",
        required=False,
        max_length=2000,
        help_text="Zones, parted by commas. Empty: from every zone.",
    )


class StorageBoard(ConsolePage):
    """What is offered, what was, and the form of the next offer."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Storage"),)

    def show(
        self,
        *,
        form: StorageForm | None = None,
        retire: tuple[str, ReasonForm] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        offered = [
            (
                row,
                retire[1]
                if retire and retire[0] == row.name
                else ReasonForm(auto_id=f"retire-{row.pk}-%s"),
            )
            for row in storage_list()
        ]
        ended = Storage.objects.filter(retired_at__isnull=False).order_by("-retired_at", "-version")
        return self.page(
            "console/storage.html",
            status=status,
            offered=offered,
            ended=list(ended[:ENDED]),
            form=form or StorageForm(),
            may_write=self.may(self.write_action),
        )


class StorageOffers(StorageBoard):
    """The page itself."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """What is offered, by name."""
        return self.show()

    def post(self, request: HttpRequest) -> HttpResponse:
        """Offer it, or say beside the field what is wrong."""
        form = StorageForm(request.POST)

        def declare(given: dict[str, Any]) -> object:
            return storage_declare(actor=self.actor, **given)

        if not self.attempt(form, declare):
            return self.show(form=form, status=400)
        messages.success(request, f"{form.cleaned_data['name']} is offered.")
        return redirect("console:storage")


class RetireStorage(StorageBoard):
    """The end of an offer."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """No data set may name it any more; what runs goes on."""
        name = text_in(request, "name", 120)
        row = storage_list().filter(name=name).first() if "\0" not in name else None
        if row is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id=f"retire-{row.pk}-%s")
        if not self.attempt(
            form,
            lambda given: storage_retire(name=name, reason=given["reason"], actor=self.actor),
        ):
            self.tell(form)
            return self.show(retire=(name, form), status=400)
        messages.success(request, f"{name} is not offered any more.")
        return redirect("console:storage")
