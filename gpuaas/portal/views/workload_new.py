"""What would a workload do, and do exactly that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.cache import patch_vary_headers

from gpuaas.kernel import errors, ids
from gpuaas.portal.once import address_of
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import MOST_KEYS, names, number, uuid_of, word
from gpuaas.portal.views.launch import bar_of
from gpuaas.ui.frame import Crumb
from placement.selectors import image_list
from placement.services.allocations import Plan
from placement.services.workloads import KINDS, WorkloadOrder, workload_create, workload_plan
from tenants.models import Project, SshKey
from tenants.selectors import dataset_list, ssh_key_list

FIGURES = {
    "parameters": "Parameters",
    "milli_bytes_per_parameter": "Thousandths of a byte per parameter (2000 for 16 bit)",
    "layers": "Layers",
    "kv_heads": "Key-value heads",
    "head_dim": "Head dimension",
    "kv_bytes": "Bytes per key-value element",
    "context_tokens": "Tokens of context",
}
KIND_TITLES = {
    "job": "A job: it runs to its end",
    "service": "A service: it stays",
    "model": "A model: its memory is checked first",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What the form says. Wrong numbers are kept as text, so that they can be told."""

    kind: str
    name: str
    project: str
    sku: str
    slots: str
    replicas: str
    image: str
    keys: tuple[str, ...]
    wait: bool
    zones: str
    datasets: tuple[str, ...]
    band: str
    batch_size: str
    figures: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, given: QueryDict) -> Wish:
        """The wish in a query string or a form."""
        kind = word(given, "kind")
        return cls(
            kind=kind if kind in KINDS else "job",
            name=word(given, "name"),
            project=word(given, "project"),
            sku=word(given, "sku"),
            slots=word(given, "slots", 6),
            replicas=word(given, "replicas", 6),
            image=word(given, "image"),
            keys=tuple(given.getlist("key")[:MOST_KEYS]),
            wait=given.get("wait") == "1",
            zones=word(given, "zones", 500),
            datasets=tuple(given.getlist("dataset")[:MOST_KEYS]),
            band=word(given, "band", 6),
            batch_size=word(given, "batch_size", 8),
            figures=tuple((name, word(given, name, 16)) for name in FIGURES),
        )

    def order(self) -> WorkloadOrder:
        """The order that the services understand. Raises InvalidRequest naming the field."""
        model = {
            name: number(text, f"/spec/model/{name}")
            for name, text in self.figures
            if text and self.kind == "model"
        }
        spec: dict[str, Any] = {"model": model} if model else {}
        return WorkloadOrder(
            kind=self.kind,
            name=self.name,
            sku=self.sku,
            slots=number(self.slots, "/slots", "a whole number of slots"),
            replicas=number(self.replicas, "/replicas") or 1,
            image=self.image,
            ssh_key_ids=tuple(uuid_of(key, "/ssh_keys") for key in self.keys),
            wait=self.wait,
            zones=names(self.zones),
            datasets=self.datasets,
            band=number(self.band, "/band"),
            batch_size=number(self.batch_size, "/batch_size") if self.kind == "model" else None,
            spec=spec,
        )

    def canonical(self) -> bytes:
        """The same wish gives the same bytes: what an idempotency key stands for."""
        return repr(self).encode()

    def fields(self) -> list[tuple[str, str]]:
        """What the form that sends the plan carries."""
        plain = ("kind", "name", "sku", "slots", "replicas", "image", "zones", "band", "batch_size")
        found = [(name, str(getattr(self, name))) for name in plain]
        found += [("key", key) for key in self.keys]
        found += [("dataset", name) for name in self.datasets]
        found += list(self.figures) + ([("wait", "1")] if self.wait else [])
        return [(name, text) for name, text in found if text]


class NewWorkload(TenantPage):
    """Kind, SKU, size and number; the plan for all of it; the button that sends exactly that."""

    read_action = "allocations:read"
    write_action = "allocations:write"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Workloads", self.url("workloads")), Crumb("Run a workload"))

    @cached_property
    def keys(self) -> list[SshKey]:
        """The tenant's public keys."""
        return list(ssh_key_list(self.tenant.pk))

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form with the plan for what has been chosen so far."""
        wish = Wish.read(request.GET)
        if not request.GET and self.keys:
            mine = [key for key in self.keys if key.user_id == self.user.pk]
            wish = replace(wish, keys=(str((mine or self.keys)[0].pk),))
        template = "portal/workload_new.html"
        if request.headers.get("HX-Request") and not request.headers.get("HX-Boosted"):
            template = "portal/workload_plan.html"
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
                plan = workload_plan(
                    tenant_id=self.tenant.pk,
                    project_id=project.pk,
                    order=wish.order(),
                    actor=self.actor,
                )
            except errors.ProductError as refused:
                error = refused
        figures = dict(wish.figures)
        return self.page(
            template,
            status=status,
            wish=wish,
            kinds=KIND_TITLES.items(),
            project=project,
            offers=self.offers,
            offer=offer,
            images=list(image_list(offer.shape if offer else "")),
            datasets=list(dataset_list(self.tenant.pk)),
            figures=[(name, title, figures[name]) for name, title in FIGURES.items()],
            command=_command(wish, project),
            keys=self.keys,
            chosen_keys=[key for key in self.keys if str(key.pk) in wish.keys],
            plan=plan,
            bar=bar_of(plan) if plan else None,
            replicas=wish.replicas or "1",
            error=error,
            once=ids.new_id(),
            may_launch=self.may(self.write_action),
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Submit exactly the plan, once for each time that the form was shown."""
        wish = Wish.read(request.POST)
        once = word(request.POST, "once", 64)
        try:
            project = self.chosen_project(wish.project)
            return redirect(
                address_of(self, once, wish.canonical(), lambda: self.ask(wish, project))
            )
        except errors.ProductError as refused:
            return self.answer("portal/workload_new.html", wish, refused, refused.status)

    def ask(self, wish: Wish, project: Project) -> str:
        """The address of what became of it: the workload, or the refused request."""
        try:
            ticket = workload_create(
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
        if ticket.request.state == "queued":
            messages.info(self.request, "It waits: the decision below says for what.")
        else:
            messages.success(self.request, "Admitted. All of its replicas have their place.")
        return self.url("workload", ticket.workload_id)


def _command(wish: Wish, project: Project) -> str:
    """The same workload as a command line."""
    options = [
        ("--kind", wish.kind),
        ("--sku", wish.sku),
        ("--project", project.slug),
        ("--slots", wish.slots),
        ("--replicas", wish.replicas),
        ("--image", wish.image),
        ("--band", wish.band),
        ("--batch-size", wish.batch_size if wish.kind == "model" else ""),
        *(("--ssh-key", key) for key in wish.keys),
        *(("--zone", zone) for zone in names(wish.zones)),
        *(("--dataset", name) for name in wish.datasets),
    ]
    words = ["gpuaas workload submit", shlex.quote(wish.name or "NAME")]
    words += [f"{option} {shlex.quote(text)}" for option, text in options if text]
    return " ".join([*words, *(["--queue"] if wish.wait else [])])
