"""What would a request do, and do exactly that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from django.contrib import messages
from django.http import QueryDict

from gpuaas.portal.planned import PlannedPage
from gpuaas.portal.typed import DIGITS, MOST_KEYS, held, number, uuid_of, word
from placement.domain.order import AllocationOrder
from placement.services.allocations import Plan, allocation_plan, allocation_request
from placement.services.durations import MOST_S
from placement.snapshots.orders import MOST_SLOTS
from tenants.models import Project

MOST_HOURS = MOST_S // 3600


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
    own: str = ""
    hours: str = ""

    @classmethod
    def read(cls, given: QueryDict) -> Wish:
        """The wish in a query string or a form."""
        return cls(
            project=word(given, "project"),
            sku=word(given, "sku"),
            slots=word(given, "slots", DIGITS),
            image=word(given, "image"),
            name=word(given, "name"),
            keys=tuple(given.getlist("key")[:MOST_KEYS]),
            wait=given.get("wait") == "1",
            own=word(given, "own", 8),
            hours=word(given, "hours", DIGITS),
        )

    def order(self) -> AllocationOrder:
        """The order that the services understand. Raises InvalidRequest naming the field."""
        return AllocationOrder(
            sku=held(self.sku, "/sku"),
            slots=number(self.slots, "/slots", "a whole number of slots", most=MOST_SLOTS),
            name=held(self.name, "/name"),
            image=held(self.image, "/image"),
            ssh_key_ids=tuple(uuid_of(key, "/ssh_keys") for key in self.keys),
            wait=self.wait,
            own=self.own,
            max_duration_s=self.lasts_s(),
        )

    def lasts_s(self) -> int | None:
        """After how many seconds it ends. Raises InvalidRequest naming the field."""
        hours = number(self.hours, "/hours", "a whole number of hours", most=MOST_HOURS)
        return None if hours is None else hours * 3600


class Launch(PlannedPage[Wish]):
    """Shape, SKU, size, image and keys."""

    form_template = "portal/launch.html"
    plan_template = "portal/launch_plan.html"

    def read(self, given: QueryDict) -> Wish:
        """What a query string or a form says."""
        return Wish.read(given)

    def with_key(self, wish: Wish, key: str) -> Wish:
        """The same with this key chosen."""
        return replace(wish, keys=(key,))

    def plan(self, wish: Wish, project: Project) -> Plan:
        """What the order would do."""
        return allocation_plan(
            tenant_id=self.tenant.pk,
            project_id=project.pk,
            order=wish.order(),
            actor=self.actor,
        )

    def act(self, wish: Wish, project: Project) -> str:
        """The address of what became of the order: an allocation, or the request."""
        ticket = allocation_request(
            tenant_id=self.tenant.pk,
            project_id=project.pk,
            order=wish.order(),
            actor=self.actor,
        )
        if ticket.allocation is not None:
            return self.url("allocation", ticket.allocation.pk)
        messages.info(self.request, "Nothing fits now. The request waits in the queue.")
        return self.url("request", ticket.request.pk)

    def command(self, wish: Wish, project: Project) -> str:
        """The same order as a command line."""
        words = ["gpuaas allocation create", f"--sku {wish.sku}", f"--project {project.slug}"]
        if wish.slots:
            words.append(f"--slots {shlex.quote(wish.slots)}")
        if wish.name:
            words.append(f"--name {shlex.quote(wish.name)}")
        if wish.image:
            words.append(f"--image {shlex.quote(wish.image)}")
        if wish.own:
            words.append(f"--own {shlex.quote(wish.own)}")
        if wish.hours.isdecimal():
            words.append(f"--max-duration {wish.hours}h")
        words += [f"--ssh-key {shlex.quote(key)}" for key in wish.keys]
        return " ".join([*words, "--queue" if wish.wait else "--wait"])
