"""How much may the tenant hold, and how does it ask for more?"""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from admission.models import AdmissionRequest
from admission.services.wishes import increase_ask, increase_withdraw
from gpuaas.kernel import errors
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.amounts import Units
from gpuaas.ui.forms import refuse
from gpuaas.ui.paging import part_of
from gpuaas.ui.quota import shares_of
from tenants.models import QuotaIncrease, ResourceClass, Shape, TenantCaps
from tenants.selectors import increase_list

SHOWN = 50


class WishForm(forms.Form):
    """A larger envelope, and why."""

    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    nominal_asked_milli = Units(label="Units to hold at a time", least=1)
    justification = forms.CharField(
        label="What for", max_length=2000, widget=forms.Textarea(attrs={"rows": 3})
    )


class Quota(TenantPage):
    """Bars and numbers, the caps, and the wishes for more."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with an empty form."""
        return self.show(WishForm())

    def show(self, form: WishForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        part = part_of(increase_list(self.tenant.pk), self.request.GET.get("cursor", ""), SHOWN)
        asked = AdmissionRequest.objects.filter(subject_id__in=[wish.pk for wish in part.items])
        decided = dict(asked.values_list("subject_id", "id"))
        shares = shares_of(self.tenant.pk)
        return self.page(
            "portal/quota.html",
            status=status,
            shares=shares,
            classes=[(bar, self.left_of(bar.name)) for bar in shares],
            caps=TenantCaps.objects.filter(tenant=self.tenant).first(),
            wishes=[(wish, decided.get(wish.pk)) for wish in part.items],
            cursor=part.next,
            form=form,
            may_write=self.may("quota:write"),
            may_see=self.may("allocations:read"),
        )

    def left_of(self, resource_class: str) -> int:
        """What of a class nobody holds now, in milli-units, by the offers that draw on it.

        Offers that share a family share its slots, so the largest of them is the answer.
        """
        sold: dict[tuple[str, str], int] = {}
        for offer in self.offers:
            if offer.resource_class == resource_class:
                place = (offer.pool, offer.family)
                whole = offer.shape == Shape.BAREMETAL
                units = offer.available_nodes if whole else offer.available_slots
                sold[place] = max(sold.get(place, 0), units * offer.units_milli)
        return sum(sold.values())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask for more, or say what is wrong with it."""
        form = WishForm(request.POST)
        if form.is_valid():
            given = form.cleaned_data
            try:
                increase_ask(
                    tenant_id=self.tenant.pk,
                    resource_class=given["resource_class"].name,
                    nominal_asked_milli=given["nominal_asked_milli"],
                    justification=given["justification"],
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                kept = self.kept(refused)
                if kept is not None:
                    return redirect(kept)
                refuse(form, refused)
            else:
                messages.success(request, "The operators have your request.")
                return redirect(self.url("quota"))
        return self.show(form, 400)


class WithdrawWish(TenantPage):
    """Take a wish back."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Do it, while it is open."""
        if not QuotaIncrease.objects.filter(pk=pk, tenant=self.tenant).exists():
            raise errors.NotFound
        increase_withdraw(increase_id=pk, actor=self.actor)
        messages.success(request, "The request has been withdrawn.")
        return redirect(self.url("quota"))
