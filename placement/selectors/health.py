"""How are a host's GPUs judged, why, and which errors did they show?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from gpuaas.kernel.hints import worded
from placement.domain.health import HEALTHY, HOST_ITSELF, OCCUPIED
from placement.domain.xids import POLICIES, xid_of
from placement.models import DeviceHealth, GpuDevice, Node, Slot, XidEvent
from placement.states import SlotState


@dataclass(frozen=True, slots=True)
class Judged:
    """One GPU of which something is known, with its slot."""

    gpu_uuid: str
    slot_index: int | None
    classification: str
    consequences: list[str]
    findings: list[dict[str, Any]]
    since: datetime
    lifted_at: datetime | None
    lift_reason: str


def health_of(node: Node) -> list[Judged]:
    """The GPUs of which something is known, the gravest first; all others are healthy."""
    slots = dict(
        Slot.objects.filter(node=node)
        .exclude(state=SlotState.RETIRED)
        .values_list("gpu_uuid", "index")
    )
    rows = [
        Judged(
            gpu_uuid=row.gpu_uuid,
            slot_index=slots.get(row.gpu_uuid),
            classification=row.classification,
            consequences=row.consequences,
            findings=[{**one, "unblock": worded(one.get("unblock", ""))} for one in row.findings],
            since=row.since,
            lifted_at=row.lifted_at,
            lift_reason=row.lift_reason,
        )
        for row in DeviceHealth.objects.filter(node=node).order_by("gpu_uuid")
        if row.findings or row.classification != HEALTHY
    ]
    order = ("unhealthy", "degraded", HEALTHY)
    return sorted(rows, key=lambda row: order.index(row.classification))


def xid_list(node: Node) -> QuerySet[XidEvent]:
    """The errors that are kept of a host, newest first."""
    return XidEvent.objects.filter(node=node).order_by("-created_at", "-id")


def xid_words(event: XidEvent) -> tuple[str, str]:
    """What an error means, and what follows from it, in words."""
    return xid_of(event.xid).meaning, POLICIES[event.policy]


def classes_of(node_ids: Iterable[UUID]) -> dict[UUID, dict[str, str]]:
    """The class of every GPU that is not healthy, by host and UUID."""
    found: dict[UUID, dict[str, str]] = {}
    rows = DeviceHealth.objects.filter(node_id__in=list(node_ids)).exclude(classification=HEALTHY)
    for node_id, uuid, word in rows.values_list("node_id", "gpu_uuid", "classification"):
        found.setdefault(node_id, {})[uuid] = word
    return found


def unknown_machines() -> Counter[tuple[str, str]]:
    """Machines that nobody asked for, by host and by what they block: ``slots`` or ``node``."""
    rows = Node.objects.exclude(state="retired").filter(conditions__contains=[{"code": OCCUPIED}])
    counts: Counter[tuple[str, str]] = Counter()
    for name, conditions in rows.values_list("name", "conditions"):
        mine = [one for one in conditions if one["code"] == OCCUPIED]
        whole = {one["detail"] for one in mine if not one.get("slots")}
        parts = {one["detail"] for one in mine} - whole
        counts.update({(name, "node"): len(whole), (name, "slots"): len(parts)})
    return +counts


def device_classes() -> Counter[str]:
    """How many GPUs of the fleet are of each class."""
    rows = DeviceHealth.objects.exclude(classification=HEALTHY).exclude(gpu_uuid=HOST_ITSELF)
    classes = rows.values_list("classification")
    counts: Counter[str] = Counter(dict(classes.annotate(n=Count("pk"))))
    total = GpuDevice.objects.exclude(node__state="retired").count()
    counts[HEALTHY] = max(0, total - sum(counts.values()))
    return counts
