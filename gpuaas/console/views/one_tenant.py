"""What do the pages about one tenant share: how it is found, and the way between them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.urls import reverse

from gpuaas.console.pages import ConsolePage
from gpuaas.kernel import errors
from gpuaas.ui.frame import Crumb
from tenants.models import Tenant

TABS = (
    ("tenant", "Overview"),
    ("authority", "Envelopes"),
    ("tenant-caps", "Caps"),
    ("tenant-bursts", "Bursts"),
    ("tenant-tier", "Tier and cohort"),
    ("tenant-catalogue", "Catalogue"),
    ("tenant-members", "Members"),
    ("tenant-end", "Suspension and end"),
)


@dataclass(frozen=True, slots=True)
class Tab:
    """One of a tenant's pages."""

    title: str
    url: str
    current: bool


class OneTenant(ConsolePage):
    """A page about the tenant in the address; ``tab`` is its place among its neighbours."""

    tab = "tenant"
    tenant: Tenant | None = None

    def setup(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Keep the slug, so that the way here can be told even when nothing is found."""
        super().setup(request, *args, **kwargs)
        self.slug = str(kwargs.get("slug", ""))

    @property
    def subject(self) -> Tenant:
        """The tenant. Raises NotFound."""
        if self.tenant is None:
            rows = Tenant.objects.select_related("tier", "cohort")
            self.tenant = rows.filter(slug=self.slug).first()
        if self.tenant is None:
            raise errors.NotFound
        return self.tenant

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        here = dict(TABS).get(self.tab, "")
        name = self.tenant.name if self.tenant else self.slug
        above = Crumb("Tenants", reverse("console:tenants"))
        if self.tab == "tenant" or self.tenant is None:
            return (above, Crumb(name))
        return (above, Crumb(name, reverse("console:tenant", args=[self.slug])), Crumb(here))

    def tenant_page(self, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
        """The template with the tenant and the way to its other pages."""
        tabs = [
            Tab(title, reverse(f"console:{name}", args=[self.slug]), name == self.tab)
            for name, title in TABS
        ]
        return self.page(template, status=status, subject=self.subject, tabs=tabs, **context)
