"""What would become of everything on a node if it were drained?  Planned, and written nowhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from admission.models import Workload
from gpuaas.kernel import clock, errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError, error_for
from gpuaas.kernel.scope import platform_scope
from placement.domain.fit import Option, Want
from placement.domain.leaving import DrainPlan, Leaving
from placement.domain.maintenance import Fate, fate
from placement.domain.order import AllocationOrder
from placement.domain.sets import NoPlan
from placement.errors import NotMovable
from placement.models import Node, NodeDrain
from placement.selectors.occupants import Standing, occupants_of
from placement.services import requests
from placement.services.bundle import Item
from placement.services.engine import group_beside, no_capacity_for, option_beside
from placement.services.maintenance import Selector, window_checked
from placement.services.moves import move_under_way
from placement.services.nodes import need_reason
from placement.services.refusals import no_capacity
from placement.services.workload_changes import placement_change
from placement.services.workloads import workload_placement
from placement.snapshots import Ask, look

MOST_SHOWN = 50
"""So many nodes of one preview are planned; the plan itself takes all."""
Gone = dict[int, list[tuple[Option, Want]]]


def drain_plan(*, node_id: UUID, actor: Actor, at: datetime | None = None) -> DrainPlan:
    """What happens to each allocation on the node: the engine's own answer for each, in turn.

    ``at`` is by when the node has to be empty. Each sees what those before it would take. A
    workload moves as a whole, from other nodes too: its allocations here are told its new places
    in turn. For the place of one that stays, its tenant would have to lease anew.
    """
    with transaction.atomic(), platform_scope():
        node = Node.objects.filter(pk=node_id).first()
        if node is None:
            raise errors.NotFound
        world = _World(node, actor)
        found = [_leaving(world, one, at) for one in occupants_of(node_id)]
        names = dict(Node.objects.filter(num__in=world.gone).values_list("num", "name"))
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


def _leaving(world: _World, standing: Standing, at: datetime | None) -> tuple[Leaving, int | None]:
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
        workload = row.workload if becomes == Fate.MOVES else None
        num = world.leased_anew(standing) if workload is None else world.moved(workload)
    except ProductError as error:
        return Leaving(**told, code=error.code, detail=error.detail, facts=error.facts), None
    return Leaving(**told), num


class _World:
    """What the plan has given away elsewhere so far."""

    def __init__(self, node: Node, actor: Actor) -> None:
        self._actor, self._avoid = actor, frozenset({node.num})
        self.gone: Gone = {}
        self._places: dict[UUID, list[int] | ProductError] = {}

    def moved(self, workload: Workload) -> int:
        """The next of the places to which a workload would be moved. Raises why there are none.

        It may have more here than it takes along: what leaves already, by a preemption or by an
        earlier move, gets no place of its own, and is told where the last of the others goes.
        """
        if workload.pk not in self._places:
            try:
                self._places[workload.pk] = self._all_moved(workload)
            except ProductError as error:
                self._places[workload.pk] = error
        places = self._places[workload.pk]
        if isinstance(places, ProductError):
            raise places
        return places.pop(0) if len(places) > 1 else places[0]

    def _all_moved(self, workload: Workload) -> list[int]:
        zones, datasets = _near(workload)
        change = placement_change(
            workload_id=workload.pk, actor=self._actor, zones=zones, datasets=datasets
        )
        group = requests.group_of(self._let_through(change.ask))
        found = group_beside(group, self.gone, avoid=self._avoid)
        if isinstance(found, NoPlan) or len(found) < len(group):
            raise no_capacity_for(group, found)
        for item, [option] in found:
            self.gone.setdefault(option.num, []).append((option, item.want))
        return [option.num for _, [option] in found]

    def leased_anew(self, standing: Standing) -> int:
        """Where its like would be placed now. Raises why there is none."""
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
        item = self._let_through(Ask(row.tenant_id, row.project_id, order))
        option = option_beside(item, self.gone, avoid=self._avoid)
        if option is None:
            raise no_capacity(item)
        self.gone.setdefault(option.num, []).append((option, item.want))
        return option.num

    def _let_through(self, ask: Ask) -> Item:
        item = requests.item_of(ask, look(ask), actor=self._actor)
        refused = requests.verdict_error(item.verdict, error_for)
        if refused is not None:
            raise refused
        return item


def _near(workload: Workload) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The zones and data sets that a workload asks for, as before."""
    return tuple(workload.spec.get("zones", [])), tuple(workload.spec.get("datasets", []))


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
    stays, and says why; one that leaves already is not moved twice. Raises NotMovable unless the
    whole node is drained: it would be chosen again.
    """
    need_reason(reason)
    drained = NodeDrain.objects.filter(
        node_id=node_id, slot_index__isnull=True, ended_at__isnull=True
    )
    if not drained.exists():
        raise NotMovable
    leaving: dict[Workload, list[UUID]] = {}
    for standing in occupants_of(node_id):
        if standing.occupant.movable and standing.allocation.workload is not None:
            leaving.setdefault(standing.allocation.workload, []).append(standing.allocation.pk)
    moved = []
    for workload, allocations in leaving.items():
        begun = move_under_way(workload, allocations)
        if begun is not None:
            moved.append(Moved(workload.name, begun.pk))
            continue
        zones, datasets = _near(workload)
        try:
            ticket = workload_placement(
                workload_id=workload.pk, actor=actor, zones=zones, datasets=datasets
            )
        except ProductError as refused:
            moved.append(Moved(workload.name, None, refused.code, refused.detail))
        else:
            moved.append(Moved(workload.name, ticket.request_id))
    return moved
