"""How does a form show what would happen, and then do exactly that?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from gpuaas.kernel import errors, ids
from gpuaas.portal.once import address_of
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import word
from gpuaas.ui.quota import Bar
from placement.selectors import image_list
from placement.services.allocations import Plan
from tenants.models import Project, SshKey
from tenants.selectors import ssh_key_list


class Typed(Protocol):
    """What a form says. Wrong numbers are kept as text, so that they can be told."""

    @property
    def project(self) -> str:
        """The project's slug, or nothing for the usual one."""

    @property
    def sku(self) -> str:
        """What is wanted, once something was chosen."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Ids of public keys."""


W = TypeVar("W", bound=Typed)


class LivePage(TenantPage):
    """A form with what it would do beside it; the part beside it may be asked for alone."""

    form_template: ClassVar[str]
    plan_template: ClassVar[str]

    def template(self) -> str:
        """The whole page, or only the plan for a form that follows what is typed."""
        follows = self.request.headers.get("HX-Request")
        if follows and not self.request.headers.get("HX-Boosted"):
            return self.plan_template
        return self.form_template

    def led(self, act: Callable[[], str]) -> str:
        """The address of what became of it, or of the refused request that was kept."""
        try:
            return act()
        except errors.ProductError as refused:
            kept = self.kept(refused)
            if kept is None:
                raise
            return kept


class PlannedPage(LivePage, ABC, Generic[W]):
    """A form, the plan for what it says, and the button that sends exactly the plan."""

    @cached_property
    def keys(self) -> list[SshKey]:
        """The tenant's public keys."""
        return list(ssh_key_list(self.tenant.pk))

    @abstractmethod
    def read(self, given: QueryDict) -> W:
        """What a query string or a form says."""

    @abstractmethod
    def with_key(self, wish: W, key: str) -> W:
        """The same with this key chosen."""

    @abstractmethod
    def plan(self, wish: W, project: Project) -> Plan:
        """What it would do. Raises a ProductError when it cannot be understood."""

    @abstractmethod
    def act(self, wish: W, project: Project) -> str:
        """Do it: the address of what became of it. Raises the refusal."""

    @abstractmethod
    def command(self, wish: W, project: Project) -> str:
        """The same as a command line."""

    def more(self, wish: W) -> dict[str, Any]:
        """What else the template shows."""
        return {}

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form with the plan for what has been chosen so far."""
        wish = self.read(request.GET)
        if not request.GET and self.keys:
            mine = [key for key in self.keys if key.user_id == self.user.pk]
            wish = self.with_key(wish, str((mine or self.keys)[0].pk))
        response = self.answer(self.template(), wish)
        patch_vary_headers(response, ["HX-Request"])
        return response

    def answer(
        self,
        template: str,
        wish: W,
        error: errors.ProductError | None = None,
        status: int = 200,
    ) -> HttpResponse:
        """The form, the plan beside it, and what is wrong with either."""
        project = self.chosen_project(wish.project)
        offer = next((o for o in self.offers if o.sku == wish.sku), None)
        plan: Plan | None = None
        if wish.sku and error is None:
            try:
                plan = self.plan(wish, project)
            except errors.ProductError as refused:
                error = refused
        return self.page(
            template,
            status=status,
            wish=wish,
            project=project,
            offers=self.offers,
            offer=offer,
            images=list(image_list(offer.shape if offer else "")),
            command=self.command(wish, project),
            keys=self.keys,
            chosen_keys=[key for key in self.keys if str(key.pk) in wish.keys],
            plan=plan,
            bar=bar_of(plan) if plan else None,
            error=error,
            once=ids.new_id(),
            may_launch=self.may(self.write_action),
            **self.more(wish),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Do exactly the plan, once for each time that the form was shown."""
        wish = self.read(request.POST)
        once = word(request.POST, "once", 64)
        try:
            project = self.chosen_project(wish.project)
            # The same wish gives the same bytes: what an idempotency key stands for.
            asked = repr(wish).encode()
            return redirect(address_of(self, once, asked, lambda: self.ask(wish, project)))
        except errors.ProductError as refused:
            return self.answer(self.form_template, wish, refused, refused.status)

    def ask(self, wish: W, project: Project) -> str:
        """Do it: the address to go to, also when it was refused and kept."""
        return self.led(lambda: self.act(wish, project))


def bar_of(plan: Plan) -> Bar:
    """The envelope before and after a plan."""
    return Bar(
        title=plan.resource_class,
        name=plan.resource_class,
        used=plan.envelope_before_milli,
        limit=plan.envelope_limit_milli,
        added=plan.envelope_after_milli - plan.envelope_before_milli,
    )
