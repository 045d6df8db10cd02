"""Where do hosts differ from what is wanted, since when, and who acts upon it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, QuerySet

from gpuaas.kernel.scope import platform_scope
from placement.models import AutomaticAction, Drift, Node
from placement.states import OPEN_AUTOMATIC, STANDING_DRIFT, DriftState

SHOWN_STATES = (DriftState.OPEN, DriftState.ESCALATED, DriftState.ACCEPTED, DriftState.CLOSED)


def drift_list(filters: Mapping[str, Any] | None = None) -> QuerySet[Drift]:
    """Differences, newest first; what may still pass by itself is left out.

    Filters: state (``standing`` for those that count now), kind, actor, outcome, node, pool.
    """
    asked = {name: value for name, value in (filters or {}).items() if value}
    rows = Drift.objects.select_related("node", "allocation").exclude(state=DriftState.SEEN)
    state = asked.get("state", "")
    if state == "standing":
        rows = rows.filter(state__in=STANDING_DRIFT)
    elif state:
        rows = rows.filter(state=state)
    names = {"kind": "kind", "actor": "actor", "outcome": "outcome"}
    names |= {"node": "node__name", "pool": "node__pool__name"}
    rows = rows.filter(**{names[name]: asked[name] for name in names if name in asked})
    return rows.order_by("-created_at", "-id")


def drift_of_node(node: Node) -> list[Drift]:
    """What stands of one host, accepted ones too, the oldest first."""
    rows = Drift.objects.select_related("node", "allocation").filter(node=node)
    kept = (*STANDING_DRIFT, DriftState.ACCEPTED)
    return list(rows.filter(state__in=kept).order_by("created_at"))


def drift_codes(*, node_id: UUID | None = None, allocation_id: UUID | None = None) -> list[str]:
    """The codes of what stands of a host, or of an allocation."""
    with platform_scope():
        rows = Drift.objects.filter(state__in=STANDING_DRIFT)
        if node_id is not None:
            rows = rows.filter(node_id=node_id)
        if allocation_id is not None:
            rows = rows.filter(allocation_id=allocation_id)
        return sorted({f"drift_{kind}" for kind in rows.values_list("kind", flat=True)})


@dataclass(frozen=True, slots=True)
class Standing:
    """How many of a kind stand, and since when the oldest does."""

    kind: str
    count: int
    oldest: datetime


def drift_standing() -> list[Standing]:
    """What stands, by kind."""
    rows = Drift.objects.filter(state__in=STANDING_DRIFT).values("kind")
    found = rows.annotate(n=Count("pk"), first=Min("created_at")).order_by("kind")
    return [Standing(row["kind"], row["n"], row["first"]) for row in found]


def held_list() -> QuerySet[AutomaticAction]:
    """What automation wants to do and may not yet, the longest waiting first."""
    rows = AutomaticAction.objects.select_related("node", "pool")
    return rows.filter(state__in=OPEN_AUTOMATIC).order_by("created_at")


def held_by_pool() -> dict[str, int]:
    """How many actions the breaker holds, by pool."""
    rows = AutomaticAction.objects.filter(state="held").values_list("pool__name")
    return dict(rows.annotate(n=Count("pk")))
