"""Which limits does one tenant have beside its envelopes, and how near is it to them?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.datastructures import MultiValueDict

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.console.acts import ReasonForm, Words
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.console.views.tenants import live_of
from gpuaas.ui.amounts import Money, Whole
from placement.models import Node
from tenants.models import Shape, TenantCaps
from tenants.services.caps import COUNTS, LISTS, MONEY, caps_set


class CapsForm(ReasonForm):
    """Every cap; an empty one is no limit."""

    allocations = Whole(label="Live allocations at once", required=False, min_value=0)
    slots_per_request = Whole(label="Slots a request", required=False, min_value=1)
    waiting = Whole(label="Requests that wait at once", required=False, min_value=0)
    best_band = Whole(
        label="Most urgent priority band",
        required=False,
        min_value=0,
        help_text="0 goes first; with 10 here, bands 0 to 9 are refused.",
    )
    shapes = forms.MultipleChoiceField(
        label="Shapes",
        choices=[
            (Shape.GPU_SLICE, "slices of a host"),
            (Shape.BAREMETAL, "whole hosts"),
            (Shape.MIG, "MIG instances"),
            (Shape.GPU_SHARE, "shares of a GPU"),
        ],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="None ticked: every shape.",
    )
    zones = Words(label="Zones", required=False, max_length=400)
    spend_soft_micro = Money(
        label="Spend a month, soft", required=False, help_text="Passing it is told, once a month."
    )
    spend_hard_micro = Money(
        label="Spend a month, hard", required=False, help_text="What would pass it is refused."
    )
    seen_version = Whole(widget=forms.HiddenInput, required=False, min_value=0)

    def __init__(self, *args: Any, zones: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = f" There are {', '.join(zones)}." if zones else ""
        self.fields["zones"].help_text = f"With commas between them; empty: every zone.{known}"


def _typed(micro: int | None) -> str:
    """Millionths as somebody would type them."""
    if micro is None:
        return ""
    whole, rest = divmod(micro, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)


def _zones() -> list[str]:
    found = Node.objects.exclude(zone="").values_list("zone", flat=True)
    return sorted(set(found))


class Caps(OneTenant):
    """The caps in force, what counts against them, and the form."""

    tab = "tenant-caps"

    def row(self) -> TenantCaps | None:
        """The caps in force; None: none were ever set."""
        return TenantCaps.objects.filter(tenant=self.subject).first()

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The form as it is in force."""
        row = self.row()
        begin: dict[str, Any] = {"seen_version": row.version if row else 0}
        if row is not None:
            begin |= {name: getattr(row, name) for name in (*COUNTS, "shapes")}
            begin |= {name: _typed(getattr(row, name)) for name in MONEY}
            begin["zones"] = ", ".join(row.zones)
        return self.show(CapsForm(initial=begin, zones=_zones()))

    def show(self, form: CapsForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        waits = AdmissionRequest.objects.filter(tenant=self.subject, state=RequestState.QUEUED)
        return self.tenant_page(
            "console/caps.html",
            status=status,
            caps=self.row(),
            live=live_of(self.subject),
            waiting=waits.count(),
            form=form,
        )

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Set them all, or say what is wrong beside the field."""
        row = self.row()
        form = CapsForm(request.POST, zones=_zones())
        now = str(row.version if row else 0)
        if request.POST.get("seen_version") != now:
            form.data = MultiValueDict({**dict(request.POST.lists()), "seen_version": [now]})
            messages.warning(
                request,
                "Somebody changed the caps meanwhile. What is in force is shown beside the "
                "form; send it again to put yours in its place.",
            )
            return self.show(form, 409)
        if not self.attempt(form, self.keep):
            return self.show(form, 400)
        messages.success(request, "The caps are kept; they hold from the next request on.")
        return redirect("console:tenant-caps", slug)

    def keep(self, given: dict[str, Any]) -> None:
        """Raises what the service raises."""
        caps_set(
            tenant_id=self.subject.pk,
            changes={name: given[name] for name in (*COUNTS, *MONEY, *LISTS)},
            reason=given["reason"],
            actor=self.actor,
            version=given["seen_version"],
        )
