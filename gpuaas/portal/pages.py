"""What stands around a tenant's page?"""

from __future__ import annotations

from functools import cached_property

from django.contrib import messages
from django.urls import reverse

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.config import Config
from gpuaas.kernel.errors import NotFound, ProductError
from gpuaas.kernel.scope import platform_scope
from gpuaas.portal.permissions import PAGES
from gpuaas.ui.frame import Frame, Link, Section, with_current
from gpuaas.ui.pages import TenantView
from placement.selectors import Offer, offer_list
from placement.selectors.notices import notice_list
from tenants.models import Project
from tenants.selectors import project_list

_ENVIRONMENT = "demo" if Config.from_env().demo else ""


class TenantPage(TenantView):
    """A page of the portal."""

    pages = PAGES

    @cached_property
    def projects(self) -> tuple[Project, ...]:
        """The tenant's projects by name."""
        return tuple(project_list(self.tenant.pk))

    @cached_property
    def project(self) -> Project | None:
        """The project that the address names as a filter. Raises NotFound for a strange one."""
        wanted = self.request.GET.get("project", "")
        if not wanted:
            return None
        found = next((p for p in self.projects if p.slug == wanted), None)
        if found is None:
            raise NotFound
        return found

    @cached_property
    def offers(self) -> list[Offer]:
        """What is sold, with counts (never hosts) of what is available now."""
        with platform_scope():
            return offer_list(tenant_id=self.tenant.pk)

    def chosen_project(self, slug: str) -> Project:
        """The project that a form names, or the first. Raises NotFound."""
        if not slug and self.projects:
            default = [p for p in self.projects if p.slug == "default"]
            return (default or list(self.projects))[0]
        found = next((p for p in self.projects if p.slug == slug), None)
        if found is None:
            raise NotFound
        return found

    def url(self, name: str, *args: object) -> str:
        """The address of a page of this tenant."""
        return reverse(f"portal:{name}", args=[self.tenant.slug, *args])

    def kept(self, refused: ProductError) -> str | None:
        """Where a refused request that was kept is shown, after its reader was told; or None."""
        request = refused.facts.get("request")
        if not refused.keep or not request:
            return None
        messages.error(self.request, f"Refused: {refused.detail}")
        return self.url("request", request)

    def frame(self) -> Frame:
        """The portal's navigation around this tenant."""
        reads = self.may("allocations:read")
        waiting = AdmissionRequest.objects.filter(state=RequestState.QUEUED).count()
        unread = notice_list(self.tenant.pk, unread=True).count() if reads else 0
        leases = (
            Link("Allocations", self.url("allocations"), "box"),
            Link("Workloads", self.url("workloads"), "task"),
            Link("Requests", self.url("requests"), "queue", waiting),
            Link("Decisions", self.url("decisions"), "gavel"),
            Link("Notices", self.url("notices"), "queue", unread),
            Link("Data sets", self.url("datasets"), "list"),
        )
        use = (
            Link("Home", self.url("home"), "home"),
            Link("Catalogue", self.url("catalogue"), "tag"),
            Link("Launch", self.url("launch"), "launch"),
            *(leases if reads else ()),
            Link("Quota", self.url("quota"), "tag"),
        )
        manage = (
            Link("Team and projects", self.url("team"), "team"),
            Link("Invitations and programs", self.url("access"), "user"),
            Link("API tokens", self.url("tokens"), "token"),
            *((Link("SSH keys", self.url("ssh-keys"), "key"),) if self.may("keys:read") else ()),
            Link("Tenant", self.url("tenant"), "tenant"),
        )
        learn = (Link("Reason codes", reverse("portal:reasons"), "book"),)
        sections = (Section("", use), Section("Manage", manage), Section("Learn", learn))
        return Frame(
            place="portal",
            home=self.url("home"),
            search=self.url("search"),
            user=self.user,
            actor=self.actor,
            sections=with_current(sections, self.request.path, self.crumbs()),
            environment=_ENVIRONMENT,
            tenant=self.tenant,
            tenants=self.tenants,
            projects=self.projects if reads else (),
            crumbs=self.crumbs(),
            window=self.window,
        )
