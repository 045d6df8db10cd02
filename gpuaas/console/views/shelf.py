"""Which products may one tenant ask for?"""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from gpuaas.console.acts import ReasonForm
from gpuaas.console.views.one_tenant import OneTenant
from gpuaas.kernel import clock, errors
from placement.models import Allocation
from placement.states import AllocationState
from tenants.models import Entitlement, Sku
from tenants.selectors import sku_list
from tenants.services.entitlements import (
    catalogue_choose,
    entitlement_grant,
    entitlement_revoke,
)


class CatalogueForm(ReasonForm):
    """All that is published, or what is listed."""

    catalogue = forms.ChoiceField(
        label="The tenant may ask for",
        choices=[("all", "every published SKU"), ("listed", "only the SKUs listed here")],
    )


class GrantForm(ReasonForm):
    """One SKU, for ever or until a moment."""

    sku = forms.ModelChoiceField(Sku.objects.exclude(state="retired").order_by("name"), label="SKU")
    until = forms.DateTimeField(
        label="Until",
        required=False,
        help_text="Empty: for good. Such as 2027-01-01 00:00 (UTC) or 2027-01-01T00:00+02:00.",
    )


class Shelf(OneTenant):
    """The choice, what was granted, and what that leaves out."""

    tab = "tenant-catalogue"

    def show(
        self,
        *,
        choose: CatalogueForm | None = None,
        grant: GrantForm | None = None,
        revoke: tuple[UUID, ReasonForm] | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The page, with the forms that were sent and refused."""
        tenant, now = self.subject, clock.db_now()
        granted = list(
            Entitlement.objects.filter(tenant=tenant).select_related("sku").order_by("sku__name")
        )
        names = {row.sku.name for row in granted if row.until is None or row.until > now}
        held = Allocation.objects.filter(tenant=tenant).exclude(state=AllocationState.RELEASED)
        published = list(sku_list().values_list("name", flat=True))
        begin = {"catalogue": tenant.catalogue}
        return self.tenant_page(
            "console/catalogue.html",
            status=status,
            granted=granted,
            now=now,
            published=published,
            left_out=[name for name in published if name not in names],
            held_outside=held.exclude(sku__name__in=names).count(),
            choose=choose or CatalogueForm(initial=begin, auto_id="choose-%s"),
            grant=grant or GrantForm(auto_id="grant-%s"),
            revoke_pk=revoke[0] if revoke else None,
            revoke=revoke[1] if revoke else ReasonForm(auto_id="revoke-%s"),
        )


class Catalogue(Shelf):
    """The page itself: the choice, what was granted, and what that leaves out."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page."""
        return self.show()

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Choose the catalogue."""
        form = CatalogueForm(request.POST, auto_id="choose-%s")
        if not self.attempt(
            form,
            lambda given: catalogue_choose(tenant_id=self.subject.pk, actor=self.actor, **given),
        ):
            return self.show(choose=form, status=400)
        messages.success(request, "The catalogue is chosen.")
        return redirect("console:tenant-catalogue", slug)


class Grant(Shelf):
    """Let the tenant ask for a SKU."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Do it, or say what is wrong beside the field."""
        form = GrantForm(request.POST, auto_id="grant-%s")
        if not self.attempt(
            form,
            lambda given: entitlement_grant(
                tenant_id=self.subject.pk,
                sku=given["sku"].name,
                until=given["until"],
                reason=given["reason"],
                actor=self.actor,
            ),
        ):
            return self.show(grant=form, status=400)
        messages.success(request, f"{self.subject.name} may ask for {form.cleaned_data['sku']}.")
        return redirect("console:tenant-catalogue", slug)


class Revoke(Shelf):
    """Take an entitlement away; what runs goes on."""

    def post(self, request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
        """Do it with the reason given."""
        row = Entitlement.objects.select_related("sku").filter(pk=pk, tenant=self.subject).first()
        if row is None:
            raise errors.NotFound
        form = ReasonForm(request.POST, auto_id="revoke-%s")
        if not self.attempt(
            form,
            lambda given: entitlement_revoke(
                tenant_id=self.subject.pk,
                sku=row.sku.name,
                reason=given["reason"],
                actor=self.actor,
            ),
        ):
            return self.show(revoke=(row.pk, form), status=400)
        messages.success(request, f"{row.sku.name} is taken away; what runs goes on.")
        return redirect("console:tenant-catalogue", slug)
