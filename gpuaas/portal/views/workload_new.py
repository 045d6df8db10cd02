"""What would a workload do, and do exactly that?"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import QueryDict

from gpuaas.kernel.scope import platform_scope
from gpuaas.portal.planned import PlannedPage
from gpuaas.portal.typed import DIGITS, MOST_KEYS, held, names, number, uuid_of, word
from gpuaas.ui.frame import Crumb
from placement.services.allocations import Plan
from placement.services.workload_changes import MOST_BAND, MOST_BATCH, MOST_REPLICAS
from placement.services.workloads import KINDS, WorkloadOrder, workload_create, workload_plan
from placement.snapshots.orders import MOST_SLOTS
from tenants.models import Project
from tenants.selectors import dataset_list, storage_list

MOST_FIGURE = 10**14
FIGURES = {
    "parameters": "Parameters",
    "milli_bytes_per_parameter": "Thousandths of a byte per parameter (2000 for 16 bit)",
    "layers": "Layers",
    "kv_heads": "Key-value heads",
    "head_dim": "Head dimension",
    "kv_bytes": "Bytes per key-value element",
    "context_tokens": "Tokens of context",
}
LEVEL_TITLES = {
    "fabric": "one NVLink domain",
    "rack": "one rack",
    "block": "one block",
    "zone": "one zone",
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
    storage: tuple[str, ...]
    band: str
    batch_size: str
    figures: tuple[tuple[str, str], ...]
    together: str = ""
    close: str = ""
    apart: bool = False
    own: str = ""
    movable: bool = False

    @classmethod
    def read(cls, given: QueryDict) -> Wish:
        """The wish in a query string or a form."""
        kind = word(given, "kind")
        return cls(
            kind=kind if kind in KINDS else "job",
            name=word(given, "name"),
            project=word(given, "project"),
            sku=word(given, "sku"),
            slots=word(given, "slots", DIGITS),
            replicas=word(given, "replicas", DIGITS),
            image=word(given, "image"),
            keys=tuple(given.getlist("key")[:MOST_KEYS]),
            wait=given.get("wait") == "1",
            zones=word(given, "zones", 500),
            datasets=tuple(given.getlist("dataset")[:MOST_KEYS]),
            storage=tuple(given.getlist("storage")[:MOST_KEYS]),
            band=word(given, "band", DIGITS),
            batch_size=word(given, "batch_size", DIGITS),
            figures=tuple((name, word(given, name, DIGITS)) for name in FIGURES),
            together=word(given, "together", 8),
            close=word(given, "close", 8),
            apart=given.get("apart") == "1",
            own=word(given, "own", 8),
            movable=given.get("movable") == "1",
        )

    def order(self) -> WorkloadOrder:
        """The order that the services understand. Raises InvalidRequest naming the field."""
        model = {
            name: number(text, f"/spec/model/{name}", most=MOST_FIGURE)
            for name, text in self.figures
            if text
        }
        spec: dict[str, Any] = {"model": model} if model and self.kind == "model" else {}
        batch = number(self.batch_size, "/batch_size", most=MOST_BATCH)
        return WorkloadOrder(
            kind=self.kind,
            name=held(self.name, "/name"),
            sku=held(self.sku, "/sku"),
            slots=number(self.slots, "/slots", "a whole number of slots", most=MOST_SLOTS),
            replicas=number(self.replicas, "/replicas", most=MOST_REPLICAS) or 1,
            image=held(self.image, "/image"),
            ssh_key_ids=tuple(uuid_of(key, "/ssh_keys") for key in self.keys),
            wait=self.wait,
            zones=names(held(self.zones, "/zones", 500)),
            datasets=self.datasets,
            storage=self.storage,
            together=self.together,
            close=self.close,
            apart=self.apart,
            own=self.own,
            movable=self.movable,
            band=number(self.band, "/band", least=0, most=MOST_BAND),
            batch_size=batch if self.kind == "model" else None,
            spec=spec,
        )

    def fields(self) -> list[tuple[str, str]]:
        """What the form that sends the plan carries."""
        plain = ("kind", "name", "sku", "slots", "replicas", "image", "zones", "band", "batch_size")
        more = ("together", "close", "own")
        found = [(name, str(getattr(self, name))) for name in (*plain, *more)]
        found += [("key", key) for key in self.keys]
        found += [("dataset", name) for name in self.datasets]
        found += [("storage", kind) for kind in self.storage]
        flags = [("wait", self.wait), ("apart", self.apart), ("movable", self.movable)]
        found += [*self.figures, *((name, "1") for name, on in flags if on)]
        return [(name, text) for name, text in found if text]


class NewWorkload(PlannedPage[Wish]):
    """Kind, SKU, size and number, planned for all of it together."""

    form_template = "portal/workload_new.html"
    plan_template = "portal/workload_plan.html"

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Workloads", self.url("workloads")), Crumb("Run a workload"))

    def read(self, given: QueryDict) -> Wish:
        """What a query string or a form says."""
        return Wish.read(given)

    def with_key(self, wish: Wish, key: str) -> Wish:
        """The same with this key chosen."""
        return replace(wish, keys=(key,))

    def plan(self, wish: Wish, project: Project) -> Plan:
        """What the workload would do."""
        return workload_plan(
            tenant_id=self.tenant.pk,
            project_id=project.pk,
            order=wish.order(),
            actor=self.actor,
        )

    def more(self, wish: Wish) -> dict[str, Any]:
        """Kinds, data sets and the figures of a model."""
        figures = dict(wish.figures)
        return {
            "kinds": KIND_TITLES.items(),
            "datasets": list(dataset_list(self.tenant.pk)),
            "stores": self.stores(),
            "figures": [(name, title, figures[name]) for name, title in FIGURES.items()],
            "replicas": wish.replicas or "1",
            "levels": LEVEL_TITLES.items(),
        }

    def stores(self) -> list[tuple[str, str]]:
        """Kinds of storage that are offered, with from where each is reached."""
        found: dict[str, list[str]] = {}
        with platform_scope():
            for row in storage_list():
                found.setdefault(row.kind, []).extend(row.zones or ["every zone"])
        return [(kind, ", ".join(sorted(set(zones)))) for kind, zones in sorted(found.items())]

    def act(self, wish: Wish, project: Project) -> str:
        """Submit it: the workload's address."""
        ticket = workload_create(
            tenant_id=self.tenant.pk,
            project_id=project.pk,
            order=wish.order(),
            actor=self.actor,
        )
        if ticket.request.state == "queued":
            messages.info(self.request, "It waits: the decision below says for what.")
        else:
            messages.success(self.request, "Admitted. All of its replicas have their place.")
        return self.url("workload", ticket.workload_id)

    def command(self, wish: Wish, project: Project) -> str:
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
            ("--together", wish.together),
            ("--close", wish.close),
            ("--own", wish.own),
            *(("--zone", zone) for zone in names(wish.zones)),
            *(("--dataset", name) for name in wish.datasets),
            *(("--storage", kind) for kind in wish.storage),
        ]
        words = ["gpuaas workload submit", shlex.quote(wish.name or "NAME")]
        words += [f"{option} {shlex.quote(text)}" for option, text in options if text]
        flags = [("--apart", wish.apart), ("--movable", wish.movable), ("--queue", wish.wait)]
        return " ".join([*words, *(flag for flag, on in flags if on)])
