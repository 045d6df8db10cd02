"""What was promised to the tenant, what may it ask for, and how does it end?"""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from admission.services.tenancies import tenant_delete
from gpuaas.kernel import clock, errors
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.forms import refuse
from placement.selectors import holdings_of
from tenants.models import Entitlement
from tenants.states import TenantState

PPM_A_PERCENT = 10_000


class DeletionForm(forms.Form):
    """Why, and the tenant's address once more, so that nobody does it by a slip."""

    reason = forms.CharField(label="Why", max_length=500)
    address = forms.CharField(label="Type the tenant's address", max_length=60)

    def __init__(self, *args: object, slug: str) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # POST data or nothing
        self.slug = slug
        self.fields["address"].help_text = f"It is {slug}."
        self.fields["address"].widget.attrs["autocomplete"] = "off"

    def clean_address(self) -> str:
        """It must be this tenant's."""
        given = str(self.cleaned_data["address"]).strip()
        if given != self.slug:
            raise ValidationError("This is not the tenant's address.")
        return given


class TenantFacts(TenantPage):
    """The tenant's contract and state."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page with an empty form."""
        return self.show(DeletionForm(slug=self.tenant.slug))

    def show(
        self, form: DeletionForm, refusal: errors.ProductError | None = None, status: int = 200
    ) -> HttpResponse:
        """The page with this form, and why the deletion was refused."""
        granted = Entitlement.objects.filter(tenant=self.tenant).select_related("sku")
        tier = self.tenant.tier
        may_delete = self.may("tenant:write") and self.tenant.state in (
            TenantState.ACTIVE,
            TenantState.SUSPENDED,
        )
        return self.page(
            "portal/tenant.html",
            status=status,
            tier=tier,
            availability=f"{tier.availability_ppm / PPM_A_PERCENT:g}"
            if tier.availability_ppm
            else "",
            granted=list(granted.order_by("sku__name")),
            now=clock.db_now(),
            held=holdings_of(tenant_id=self.tenant.pk),
            form=form,
            refusal=refusal,
            may_delete=may_delete,
        )


class DeleteTenant(TenantFacts):
    """Begin its end."""

    def post(self, request: HttpRequest) -> HttpResponse:
        """Begin it, or say why not; a rule's refusal stays on record."""
        form = DeletionForm(request.POST, slug=self.tenant.slug)
        if not form.is_valid():
            return self.show(form, status=400)
        try:
            tenant_delete(
                tenant_id=self.tenant.pk, reason=form.cleaned_data["reason"], actor=self.actor
            )
        except errors.ProductError as refused:
            kept = self.kept(refused)
            if kept is not None:
                return redirect(kept)
            refuse(form, refused)
            return self.show(form, refused, refused.status)
        messages.success(request, "The deletion has begun. It ends with the last proof.")
        return redirect(self.url("tenant"))
