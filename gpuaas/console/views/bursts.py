"""When may one tenant go beyond its borrowing limit, and what happens when that ends?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import clock, errors
from gpuaas.ui.amounts import Units
from tenants.domain.bursts import current
from tenants.models import BurstRule, OnExcess, ResourceClass
from tenants.selectors import burst_list
from tenants.services.bursts import burst_create, burst_end, window_of

SHOWN = 100
DAY_S = 86_400
REPEATS = [("", "once"), (str(DAY_S), "every day"), (str(7 * DAY_S), "every week")]
WHEN = "Such as 2027-01-01 18:00 (UTC) or 2027-01-01T18:00+02:00."


class BurstForm(ReasonForm):
    """A window in which the tenant may borrow more."""

    name = forms.CharField(label="Name", max_length=120)
    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    extra_milli = Units(label="Units it may borrow more", least=1)
    opens_at = forms.DateTimeField(label="Opens", help_text=WHEN)
    closes_at = forms.DateTimeField(label="Closes", help_text=WHEN)
    every_s = forms.TypedChoiceField(
        label="Repeats", choices=REPEATS, coerce=int, empty_value=None, required=False
    )
    on_close = forms.ChoiceField(
        label="What is still held beyond the limit at the close",
        choices=[
            (OnExcess.GRANDFATHER, "stays until it is released, counted apart"),
            (OnExcess.DRAIN, "drains: the newest is released"),
        ],
    )


class BurstBoard(OneTenant):
    """The tenant's windows, and the form of another."""

    tab = "tenant-bursts"

    def show(
        self,
        form: BurstForm,
        *,
        ending: tuple[UUID, ReasonForm] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page with these forms."""
        now = clock.db_now()
        bursts = [
            (rule, current(window_of(rule), now)) for rule in burst_list(self.subject.pk)[:SHOWN]
        ]
        return self.tenant_page(
            "console/bursts.html",
            status=status,
            bursts=bursts,
            form=form,
            ending_pk=ending[0] if ending else None,
            ending_form=ending[1] if ending else ReasonForm(auto_id="end-%s"),
        )


class Bursts(BurstBoard):
    """The page itself: the tenant's windows, and the form of another."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show(BurstForm())

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Keep a window, or say what is wrong with it."""
        form = BurstForm(request.POST)
        if not self.attempt(form, self.keep):
            return self.show(form, status=400)
        messages.success(request, "The window is kept.")
        return redirect("console:tenant-bursts", slug)

    def keep(self, given: dict[str, Any]) -> None:
        """Raises what the service raises."""
        kind = given.pop("resource_class").name
        burst_create(tenant_id=self.subject.pk, resource_class=kind, actor=self.actor, **given)


class EndBurst(BurstBoard):
    """End a window for good."""

    def post(self, request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
        """Do it with the reason given."""
        found = BurstRule.objects.filter(pk=pk, tenant=self.subject).first()
        if found is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id="end-%s")
        if not self.attempt(
            form,
            lambda given: burst_end(burst_id=found.pk, reason=given["reason"], actor=self.actor),
        ):
            self.tell(form)
            return self.show(BurstForm(), ending=(found.pk, form), status=400)
        messages.success(request, f"{found.name} has ended.")
        return redirect("console:tenant-bursts", slug)
