"""Which tiers and cohorts are there, and what does giving a tenant another tier touch?"""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.amounts import Units
from gpuaas.ui.forms import refuse
from gpuaas.ui.frame import Crumb
from gpuaas.ui.quota import shares_of
from placement.selectors import leases_of_tenant
from tenants.errors import PreviewStale
from tenants.models import Cohort, OnExcess, ResourceClass, SlaTier, Tenant, TenantCaps
from tenants.selectors import burst_list, envelope_versions
from tenants.services import tiers
from tenants.services.deletion import tenant_delete
from tenants.services.envelopes import KEEP, envelope_schedule, envelope_set
from tenants.services.tenancy import suspension_choose
from tenants.snapshots import cohort_tree


class Tiers(ConsolePage):
    """Service levels, the most urgent first."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Tiers and cohorts"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Tiers in force, and the tree of cohorts."""
        return self.page(
            "console/tiers.html",
            tiers=list(SlaTier.objects.order_by("priority_band", "name")),
            cohorts=list(Cohort.objects.select_related("parent").order_by("depth", "name")),
            counters=cohort_tree(),
        )


class TermsForm(forms.Form):
    """An envelope, from now or from a moment on."""

    resource_class = forms.ModelChoiceField(
        ResourceClass.objects.order_by("name"), label="Class", empty_label=None
    )
    nominal_milli = Units(label="Nominal units")
    borrow_milli = Units(
        label="May borrow beyond it", required=False, help_text="Empty: as it is now."
    )
    lend_milli = Units(label="Lends when unused", required=False, help_text="Empty: as it is now.")
    effective_from = forms.DateTimeField(
        label="From (UTC)", required=False, help_text="Empty: now. Such as 2027-01-01 00:00."
    )
    on_excess = forms.ChoiceField(
        label="What is held beyond it",
        required=False,
        choices=[
            ("", "refuse to go below use"),
            (OnExcess.GRANDFATHER, "keeps, counted apart"),
            (OnExcess.DRAIN, "drains after a day"),
        ],
    )
    reason = forms.CharField(label="Reason", max_length=500)


class Authority(ConsolePage):
    """All that says what one tenant may do: envelopes, versions, caps, bursts, tier, ends."""

    write_action = "tenants:write"
    tenant: Tenant

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        back = reverse("console:tenant", args=[self.tenant.slug])
        return (
            Crumb("Tenants", reverse("console:tenants")),
            Crumb(self.tenant.name, back),
            Crumb("Authority"),
        )

    def find(self, slug: str) -> None:
        """The tenant. Raises NotFound."""
        found = Tenant.objects.select_related("tier", "cohort").filter(slug=slug).first()
        if found is None:
            raise errors.NotFound
        self.tenant = found

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """The page; with a tier in the query, what giving it would touch."""
        self.find(slug)
        return self.show(TermsForm())

    def show(self, form: TermsForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        wanted = self.request.GET.get("tier", "")
        preview = None
        if wanted:
            preview = tiers.tier_preview(
                tenant_id=self.tenant.pk, tier=wanted, running=leases_of_tenant(self.tenant.pk)
            )
        return self.page(
            "console/authority.html",
            status=status,
            subject=self.tenant,
            shares=shares_of(self.tenant.pk),
            versions=list(envelope_versions(self.tenant.pk)[:50]),
            bursts=list(burst_list(self.tenant.pk)[:50]),
            caps=TenantCaps.objects.filter(tenant=self.tenant).first(),
            tiers=list(SlaTier.objects.order_by("priority_band", "name")),
            wanted=wanted,
            preview=preview,
            form=form,
        )

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Set or schedule an envelope, or say what is wrong with it."""
        self.find(slug)
        form = TermsForm(request.POST)
        if form.is_valid():
            try:
                self.set_envelope(form)
            except errors.ProductError as refused:
                refuse(form, refused)
            else:
                messages.success(request, "The envelope is kept.")
                return redirect("console:authority", slug)
        return self.show(form, 400)

    def set_envelope(self, form: TermsForm) -> None:
        """Now, or from the moment given. Raises what the services raise."""
        given = dict(form.cleaned_data)
        start = given.pop("effective_from")
        policy = given.pop("on_excess") or None
        given["resource_class"] = given["resource_class"].name
        for name in ("borrow_milli", "lend_milli"):
            if given[name] is None:
                given[name] = KEEP
        if start is None:
            envelope_set(tenant_id=self.tenant.pk, actor=self.actor, on_excess=policy, **given)
            return
        envelope_schedule(
            tenant_id=self.tenant.pk,
            actor=self.actor,
            effective_from=start,
            on_excess=policy or OnExcess.GRANDFATHER,
            **given,
        )


class ActOnAuthority(Authority):
    """Give a tier after its preview, choose the suspension's policy, begin a deletion."""

    def get(self, request: HttpRequest, slug: str, action: str = "") -> HttpResponse:
        """Nothing to read here."""
        raise errors.NotFound

    def post(self, request: HttpRequest, slug: str, action: str = "") -> HttpResponse:
        """Do it with the reason given."""
        self.find(slug)
        reason = request.POST.get("reason", "").strip()[:500]
        if not reason:
            raise errors.InvalidRequest(
                "This needs a reason.",
                errors=(errors.FieldError("/reason", "required", "say why"),),
            )
        pk = self.tenant.pk
        if action == "tier":
            wanted = request.POST.get("tier", "")
            try:
                tiers.tier_assign(
                    tenant_id=pk,
                    tier=wanted,
                    running=leases_of_tenant(pk),
                    seen=request.POST.get("seen", ""),
                    reason=reason,
                    actor=self.actor,
                )
            except PreviewStale:
                messages.warning(request, "What it touches has changed. Look at it again.")
                return redirect(f"{reverse('console:authority', args=[slug])}?tier={wanted}")
        elif action == "suspension":
            suspension_choose(
                tenant_id=pk,
                suspension=request.POST.get("suspension", ""),
                reason=reason,
                actor=self.actor,
            )
        elif action == "delete":
            tenant_delete(tenant_id=pk, reason=reason, actor=self.actor)
        else:
            raise errors.NotFound
        messages.success(request, f"{self.tenant.name}: {action} done.")
        return redirect("console:authority", slug)
