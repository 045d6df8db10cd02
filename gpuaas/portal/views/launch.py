"""What would a request do, and do exactly that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from gpuaas.kernel import errors, ids
from gpuaas.portal.once import address_of
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import MOST_KEYS, number, uuid_of, word
from gpuaas.ui.quota import Bar
from placement.domain.order import AllocationOrder
from placement.selectors import image_list
from placement.services.allocations import Plan, allocation_plan, allocation_request
from tenants.models import Project, SshKey
from tenants.selectors import ssh_key_list


@dataclass(frozen=True, slots=True)
class Wish:
    """What the form says. Wrong numbers are kept as text, so that they can be told."""

    project: str
    sku: str
    slots: str
    image: str
    name: str
    keys: tuple[str, ...]
    wait: bool

    @classmethod
    def read(cls, given: QueryDict) -> Wish:
        """The wish in a query string or a form."""
        return cls(
            project=word(given, "project"),
            sku=word(given, "sku"),
            slots=word(given, "slots", 6),
            image=word(given, "image"),
            name=word(given, "name"),
            keys=tuple(given.getlist("key")[:MOST_KEYS]),
            wait=given.get("wait") == "1",
        )

    def order(self) -> AllocationOrder:
        """The order that the services understand. Raises InvalidRequest naming the field."""
        return AllocationOrder(
            sku=self.sku,
            slots=number(self.slots, "/slots", "a whole number of slots"),
            name=self.name,
            image=self.image,
            ssh_key_ids=tuple(uuid_of(key, "/ssh_keys") for key in self.keys),
            wait=self.wait,
        )

    def canonical(self) -> bytes:
        """The same wish gives the same bytes: what an idempotency key stands for."""
        return repr(self).encode()


class Launch(TenantPage):
    """Shape, SKU, size, image and keys; the plan; the button that sends exactly the plan."""

    read_action = "catalogue:read"
    write_action = "allocations:write"

    @cached_property
    def keys(self) -> list[SshKey]:
        """The tenant's public keys."""
        return list(ssh_key_list(self.tenant.pk))

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form with the plan for what has been chosen so far."""
        wish = Wish.read(request.GET)
        if not request.GET and self.keys:
            mine = [key for key in self.keys if key.user_id == self.user.pk]
            first = (mine or self.keys)[0]
            wish = Wish(wish.project, wish.sku, wish.slots, "", "", (str(first.pk),), False)
        template = "portal/launch.html"
        if request.headers.get("HX-Request") and not request.headers.get("HX-Boosted"):
            template = "portal/launch_plan.html"
        response = self.answer(template, wish)
        patch_vary_headers(response, ["HX-Request"])
        return response

    def answer(
        self,
        template: str,
        wish: Wish,
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
        images = list(image_list(offer.shape if offer else ""))
        return self.page(
            template,
            status=status,
            wish=wish,
            project=project,
            offers=self.offers,
            offer=offer,
            images=images,
            command=_command(wish, project),
            keys=self.keys,
            chosen_keys=[key for key in self.keys if str(key.pk) in wish.keys],
            plan=plan,
            bar=bar_of(plan) if plan else None,
            error=error,
            once=ids.new_id(),
            may_launch=self.may(self.write_action),
        )

    def plan(self, wish: Wish, project: Project) -> Plan:
        """What the wish would do. Raises a ProductError when it cannot be understood."""
        return allocation_plan(
            tenant_id=self.tenant.pk,
            project_id=project.pk,
            order=wish.order(),
            actor=self.actor,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask for exactly the plan, once for each time that the form was shown."""
        wish = Wish.read(request.POST)
        once = request.POST.get("once", "")[:64]
        try:
            project = self.chosen_project(wish.project)
            return redirect(
                address_of(self, once, wish.canonical(), lambda: self.ask(wish, project))
            )
        except errors.ProductError as refused:
            return self.answer("portal/launch.html", wish, refused, refused.status)

    def ask(self, wish: Wish, project: Project) -> str:
        """The address of what became of the order: an allocation, or the request."""
        try:
            ticket = allocation_request(
                tenant_id=self.tenant.pk,
                project_id=project.pk,
                order=wish.order(),
                actor=self.actor,
            )
        except errors.ProductError as refused:
            kept = refused.facts.get("request")
            if not refused.keep or not kept:
                raise
            messages.error(self.request, f"Refused: {refused.detail}")
            return self.url("request", kept)
        if ticket.allocation is not None:
            return self.url("allocation", ticket.allocation.pk)
        messages.info(self.request, "Nothing fits now. The request waits in the queue.")
        return self.url("request", ticket.request.pk)


def bar_of(plan: Plan) -> Bar:
    """The envelope before and after a plan."""
    return Bar(
        title=plan.resource_class,
        name=plan.resource_class,
        used=plan.envelope_before_milli,
        limit=plan.envelope_limit_milli,
        added=plan.envelope_after_milli - plan.envelope_before_milli,
    )


def _command(wish: Wish, project: Project) -> str:
    """The same order as a command line."""
    words = ["gpuaas allocation create", f"--sku {wish.sku}", f"--project {project.slug}"]
    if wish.slots:
        words.append(f"--slots {shlex.quote(wish.slots)}")
    if wish.name:
        words.append(f"--name {shlex.quote(wish.name)}")
    if wish.image:
        words.append(f"--image {shlex.quote(wish.image)}")
    words += [f"--ssh-key {shlex.quote(key)}" for key in wish.keys]
    return " ".join([*words, "--queue" if wish.wait else "--wait"])
