"""Which operators look into which tenant's own view, why, and until when?"""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import clock, errors
from gpuaas.ui.frame import Crumb
from tenants.models import Tenant
from tenants.services import break_glass

SHOWN = 100


class WindowForm(forms.Form):
    """Why, and for how long."""

    reason = forms.CharField(
        label="Reason",
        min_length=break_glass.SHORTEST_REASON,
        max_length=500,
        help_text="The tenant reads it.",
    )
    minutes = forms.TypedChoiceField(
        label="For", coerce=int, choices=[(15, "15 minutes"), (30, "30 minutes"), (60, "an hour")]
    )


class Windows(ConsolePage):
    """Every window there is and was."""

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Break-glass"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The list, the latest first."""
        return self.page(
            "console/break_glass.html",
            windows=list(break_glass.window_list()[:SHOWN]),
            now=clock.db_now(),
        )


class Open(ConsolePage):
    """Open a window into a tenant."""

    tenant: Tenant

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        up = Crumb("Tenants", reverse("console:tenants"))
        if not hasattr(self, "tenant"):
            return (up,)
        back = reverse("console:tenant", args=[self.tenant.slug])
        return (up, Crumb(self.tenant.name, back))

    def find(self, slug: str) -> None:
        """The tenant. Raises NotFound."""
        found = Tenant.objects.filter(slug=slug).first()
        if found is None:
            raise errors.NotFound
        self.tenant = found

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        """What it is and what it leaves behind."""
        self.find(slug)
        return self.show(WindowForm())

    def show(self, form: WindowForm, status: int = 200) -> HttpResponse:
        """The page with this form."""
        return self.page(
            "console/break_glass_open.html",
            status=status,
            subject=self.tenant,
            form=form,
            window=break_glass.window_of(self.user.pk, self.tenant.pk),
        )

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Open it, and go in."""
        self.find(slug)
        form = WindowForm(request.POST)
        if not self.attempt(
            form,
            lambda given: break_glass.break_glass_open(
                tenant_id=self.tenant.pk, user=self.user, actor=self.actor, **given
            ),
        ):
            self.tell(form)
            return self.show(form, 400)
        return redirect("portal:home", slug)


class End(ConsolePage):
    """Close a window."""

    def post(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Close it before its time."""
        break_glass.break_glass_end(window_id=pk, actor=self.actor)
        messages.success(request, "The window is closed.")
        return redirect("console:break-glass")
