"""What would a request do, and do exactly that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from gpuaas.kernel import errors, idempotency, ids
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.quota import Bar
from placement.domain.order import AllocationOrder
from placement.selectors import image_list
from placement.services.allocations import Plan, allocation_plan, allocation_request
from tenants.models import Project, SshKey
from tenants.selectors import ssh_key_list

MOST_KEYS = 20


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

        def word(name: str, most: int = 120) -> str:
            return given.get(name, "").strip()[:most]

        return cls(
            project=word("project"),
            sku=word("sku"),
            slots=word("slots", 6),
            image=word("image"),
            name=word("name"),
            keys=tuple(given.getlist("key")[:MOST_KEYS]),
            wait=given.get("wait") == "1",
        )

    def order(self) -> AllocationOrder:
        """The order that the services understand. Raises InvalidRequest naming the field."""
        return AllocationOrder(
            sku=self.sku,
            slots=_number(self.slots),
            name=self.name,
            image=self.image,
            ssh_key_ids=tuple(_uuid(key) for key in self.keys),
            wait=self.wait,
        )

    def canonical(self) -> bytes:
        """The same wish gives the same bytes: what an idempotency key stands for."""
        return repr(self).encode()


def _number(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise _wrong("/slots", "not_a_number", "a whole number of slots")
    return int(text)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _wrong("/ssh_keys", "bad_format", "choose from the list") from None


def _wrong(pointer: str, code: str, detail: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        f"{pointer.strip('/')}: {detail}.", errors=(errors.FieldError(pointer, code, detail),)
    )


class Launch(TenantPage):
    """Shape, SKU, size, image and keys; the plan; the button that sends exactly the plan."""

    read_action = "catalogue:read"
    write_action = "allocations:write"

    @cached_property
    def keys(self) -> list[SshKey]:
        """The tenant's public keys."""
        return list(ssh_key_list(self.tenant.pk))

    def chosen_project(self, slug: str) -> Project:
        """The project named, or the first. Raises NotFound."""
        if not slug and self.projects:
            default = [p for p in self.projects if p.slug == "default"]
            return (default or list(self.projects))[0]
        found = next((p for p in self.projects if p.slug == slug), None)
        if found is None:
            raise errors.NotFound
        return found

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
            bar=_bar(plan) if plan else None,
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
            if not once:
                raise _wrong("/once", "missing", "show the plan again and send it from there")
            return redirect(self.ask(wish, project, once))
        except errors.ProductError as refused:
            return self.answer("portal/launch.html", wish, refused, refused.status)

    def ask(self, wish: Wish, project: Project, once: str) -> str:
        """The address of what became of the order: an allocation, or the request."""
        fingerprint = idempotency.fingerprint_of("POST", self.request.path, wish.canonical())
        principal = idempotency.principal_of(self.actor)
        with idempotency.guard(principal, once, fingerprint) as use:
            if use.replay is not None:
                return use.replay.headers["Location"]
            address = self._ask(wish, project)
            use.store(303, {"Location": address}, b"")
        return address

    def _ask(self, wish: Wish, project: Project) -> str:
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


def _bar(plan: Plan) -> Bar:
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
