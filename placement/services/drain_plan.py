"""What would become of everything on a node if it were drained?  Planned, and written nowhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError, error_for
from gpuaas.kernel.scope import platform_scope
from placement.domain.fit import Option, Want
from placement.domain.leaving import DrainPlan, Leaving
from placement.domain.maintenance import Fate, fate
from placement.domain.order import AllocationOrder
from placement.errors import NotMovable
from placement.models import Node, NodeDrain
from placement.selectors.occupants import Standing, occupants_of
from placement.services import requests
from placement.services.engine import option_beside
from placement.services.maintenance import Selector, window_checked
from placement.services.nodes import need_reason
from placement.services.refusals import no_capacity
from placement.services.workloads import workload_placement
from placement.snapshots import Ask, look

MOST_SHOWN = 50
"""So many nodes of one preview are planned; the plan itself takes all."""
Gone = dict[int, list[tuple[Option, Want]]]


def drain_plan(*, node_id: UUID, actor: Actor, at: datetime | None = None) -> DrainPlan:
    """What happens to each allocation on the node: the engine's own answer for each, in turn.

    ``at`` is by when the node has to be empty. Each sees what those before it would take. For the
    place of one that stays, its tenant would have to lease anew.
    """
    with transaction.atomic(), platform_scope():
        node = Node.objects.filter(pk=node_id).first()
        if node is None:
            raise errors.NotFound
        gone: Gone = {}
        found = [_leaving(node, one, at, gone, actor) for one in occupants_of(node_id)]
        names = dict(Node.objects.filter(num__in=gone).values_list("num", "name"))
        leaving = tuple(one if num is None else replace(one, to=names[num]) for one, num in found)
    return DrainPlan(node.name, at, leaving)


def windows_preview(
    *, selector: Selector, starts_at: datetime, ends_at: datetime, actor: Actor
) -> list[DrainPlan]:
    """What windows of these nodes would touch, node by node; each plan stands by itself.

    Raises what ``window_plan`` raises for wrong times, nodes and overlaps.
    """
    found = window_checked(selector, starts_at, ends_at)
    return [drain_plan(node_id=node.pk, actor=actor, at=starts_at) for node in found[:MOST_SHOWN]]


def _leaving(
    node: Node, standing: Standing, at: datetime | None, gone: Gone, actor: Actor
) -> tuple[Leaving, int | None]:
    row, occupant = standing.allocation, standing.occupant
    becomes = fate(occupant, at or occupant.ends_at or clock.db_now())
    told: dict[str, Any] = {
        "allocation_id": row.pk,
        "name": row.name,
        "tenant": row.tenant.slug,
        "sku": row.sku.name,
        "slots": row.slots,
        "fate": becomes,
        "ends_at": occupant.ends_at,
    }
    if becomes == Fate.ENDS:
        return Leaving(**told), None
    try:
        num = _place(node, standing, gone, actor)
    except ProductError as error:
        return Leaving(**told, code=error.code, detail=error.detail, facts=error.facts), None
    return Leaving(**told), num


def _place(node: Node, standing: Standing, gone: Gone, actor: Actor) -> int:
    """The number of the node on which it would be placed now. Raises why there is none."""
    row, spec = standing.allocation, standing.allocation.request.spec
    left = standing.occupant.ends_at
    order = AllocationOrder(
        sku=row.sku.name,
        slots=row.slots or None,
        name=row.name,
        image=row.image,
        zones=tuple(spec.get("zones", [])),
        datasets=tuple(spec.get("datasets", [])),
        storage=tuple(spec.get("storage", [])),
        own=spec.get("own", ""),
        max_duration_s=max(60, int((left - clock.db_now()).total_seconds())) if left else None,
    )
    ask = Ask(row.tenant_id, row.project_id, order)
    item = requests.item_of(ask, look(ask), actor=actor)
    refused = requests.verdict_error(item.verdict, error_for)
    if refused is not None:
        raise refused
    option = option_beside(item, gone, avoid=frozenset({node.num}))
    if option is None:
        raise no_capacity(item)
    gone.setdefault(option.num, []).append((option, item.want))
    return option.num


@dataclass(frozen=True, slots=True)
class Moved:
    """One workload that was asked to move: the request, or why not."""

    workload: str
    request_id: UUID | None
    code: str = ""
    detail: str = ""


def drain_moves(*, node_id: UUID, reason: str, actor: Actor) -> list[Moved]:
    """Move off a drained node whatever its tenant allows to be moved, workload by workload.

    Each new place is claimed before the old one is released; a workload that finds no place
    stays, and says why. Raises NotMovable unless the whole node is drained: it would be chosen
    again.
    """
    need_reason(reason)
    drained = NodeDrain.objects.filter(
        node_id=node_id, slot_index__isnull=True, ended_at__isnull=True
    )
    if not drained.exists():
        raise NotMovable
    moved = []
    for workload in dict.fromkeys(
        standing.allocation.workload
        for standing in occupants_of(node_id)
        if standing.occupant.movable
    ):
        assert workload is not None
        spec = workload.spec
        try:
            ticket = workload_placement(
                workload_id=workload.pk,
                actor=actor,
                zones=tuple(spec.get("zones", [])),
                datasets=tuple(spec.get("datasets", [])),
            )
        except ProductError as refused:
            moved.append(Moved(workload.name, None, refused.code, refused.detail))
        else:
            moved.append(Moved(workload.name, ticket.request_id))
    return moved
