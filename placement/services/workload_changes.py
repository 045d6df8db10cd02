"""What does a change of a workload ask of admission, and what would it do?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from admission.domain.sharing import eligible
from admission.errors import WorkloadStateRefused
from admission.models import Action, AdmissionRequest, Workload
from admission.states import RequestState, WorkloadState
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.scope import platform_scope
from placement.domain.order import AllocationOrder, order_of_spec
from placement.models import Allocation
from placement.services import requests
from placement.services.allocations import Plan, plan_of
from placement.services.engine import room_for
from placement.services.intents import move_of
from placement.services.memory import memory_of, whole_number
from placement.services.moves import standing_newest, surplus
from placement.snapshots import Ask, look

MOST_REPLICAS: Final = 1024
MOST_BATCH: Final = 1_000_000
MOST_BAND: Final = 32_767


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a workload: what is asked, and what is wanted before and after it."""

    row: Workload
    ask: Ask
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    takes_capacity: bool = False
    goes: tuple[Allocation, ...] = ()
    """What it has now and is released for it: at once, or once its new places run."""


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What a change would do, without doing it. Money is in millionths an hour."""

    plan: Plan
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    takes: int
    """How many allocations are placed anew."""
    releases: tuple[tuple[UUID, str], ...]
    """Ids and names of what is released."""
    released_after: bool
    """Whether that is only once the new places run."""
    waiting: int
    """How many requests that wait for the workload it replaces or, of a priority, re-orders."""
    hour_before_micro: int
    hour_after_micro: int


def order_of(row: Workload, **changes: Any) -> AllocationOrder:
    """The order for one more allocation of a workload, with some members otherwise."""
    made = order_of_spec(row.spec, sku=row.sku.name, slots=row.slots or None, name=row.name)
    return replace(made, **changes)


def _workload(workload_id: UUID, *states: str) -> Workload:
    """The workload in one of these states. Raises NotFound or WorkloadStateRefused."""
    row = Workload.objects.select_related("sku", "tenant__tier").filter(pk=workload_id).first()
    if row is None:
        raise NotFound
    if row.state not in (states or (WorkloadState.ADMITTED,)):
        raise WorkloadStateRefused(f"The workload is {row.state}.", state=row.state)
    return row


def _ask(
    row: Workload,
    action: str,
    *,
    order: AllocationOrder | None = None,
    replicas: int | None = None,
    more: Mapping[str, Any],
    **answers: Any,
) -> Ask:
    return Ask(
        row.tenant_id,
        row.project_id,
        order or order_of(row),
        action=action,
        replicas=row.replicas if replicas is None else replicas,
        workload_id=row.pk,
        subject_id=row.pk,
        more={"kind": row.kind, **more},
        **answers,
    )


def scale_change(
    *, workload_id: UUID, replicas: int, actor: Actor, partial: bool = False, wait: bool = False
) -> Change:
    """More or fewer replicas; of more, with ``partial``, as many as there is room for."""
    whole_number(replicas, "/replicas", MOST_REPLICAS)
    row = _workload(workload_id)
    more = replicas - row.replicas
    before = {"replicas": row.replicas}
    if more <= 0:
        ask = _ask(row, Action.SCALE, more={"replicas_to": replicas})
        return Change(row, ask, before, {"replicas": replicas}, goes=tuple(surplus(row, replicas)))
    ask = _ask(
        row,
        Action.SCALE,
        order=order_of(row, wait=wait, name=f"{row.name}-r{row.generation}"),
        replicas=more,
        more={"replicas_to": replicas, "partial": partial},
    )
    if partial and more > 1:
        with platform_scope():
            item = requests.item_of(ask, look(ask), actor=actor)
            quota = item.facts.quota
            each = max(1, item.amount_milli)
            free = quota.free_milli // each if quota else 0
            most = max(1, min(more, free, room_for(item, more)))
        ask = replace(ask, replicas=most)
    after = {"replicas": row.replicas + ask.replicas}
    return Change(row, ask, before, after, takes_capacity=True)


def batch_size_change(*, workload_id: UUID, batch_size: int, actor: Actor) -> Change:
    """Another batch size; a model's memory is looked at."""
    whole_number(batch_size, "/batch_size", MOST_BATCH)
    row = _workload(workload_id)
    fits = None
    if row.kind == "model":
        fits = memory_of(row.sku.name, row.slots, batch_size, row.spec)
    kept = {"batch_size": batch_size, "batch_size_before": row.batch_size}
    ask = _ask(row, Action.BATCH_SIZE, headroom=fits, more=kept)
    return Change(row, ask, {"batch_size": row.batch_size}, {"batch_size": batch_size})


def sharing_change(*, workload_id: UUID, mode: str, actor: Actor) -> Change:
    """Another way to share its GPUs, as far as its tier and its SKU allow it."""
    row = _workload(workload_id)
    answer = eligible(
        mode,
        shape=row.sku.shape,
        tier_isolation=row.tenant.tier.isolation,
        sku_isolation=row.sku.isolation,
    )
    ask = _ask(row, Action.SHARING, sharing=answer, more={"mode": mode})
    return Change(row, ask, {"mode": row.spec.get("sharing") or "none"}, {"mode": mode})


def priority_change(*, workload_id: UUID, band: int, actor: Actor) -> Change:
    """Another band; a workload that still waits may have one, too."""
    whole_number(band, "/band", MOST_BAND, least=0)
    row = _workload(workload_id, WorkloadState.SUBMITTED, WorkloadState.ADMITTED)
    kept = {"band": band, "band_before": row.band}
    ask = _ask(row, Action.PRIORITY, order=order_of(row, band=band), more=kept)
    return Change(row, ask, {"band": row.band}, {"band": band})


def placement_change(
    *,
    workload_id: UUID,
    actor: Actor,
    zones: tuple[str, ...] = (),
    datasets: tuple[str, ...] = (),
    wait: bool = False,
) -> Change:
    """Other places for all that stands, which keeps its own until the new ones run."""
    row = _workload(workload_id)
    replicas, moves = move_of(row)
    if not replicas:
        raise WorkloadStateRefused("Nothing of the workload stands.", state=row.state)
    ask = _ask(
        row,
        Action.PLACEMENT,
        order=order_of(
            row, zones=zones, datasets=datasets, wait=wait, name=f"{row.name}-m{row.generation}"
        ),
        replicas=replicas,
        more=moves,
    )
    before = {name: list(row.spec.get(name, [])) for name in ("zones", "datasets")}
    after = {"zones": list(zones), "datasets": list(datasets)}
    goes = tuple(standing_newest(row))
    return Change(row, ask, before, after, takes_capacity=True, goes=goes)


def change_plan(change: Change, *, actor: Actor) -> ChangePlan:
    """The same decision and search as the change itself makes, writing nothing."""
    row, action = change.row, change.ask.action
    plan = plan_of(change.ask, actor=actor, takes_capacity=change.takes_capacity)
    waits = AdmissionRequest.objects.filter(workload=row, state=RequestState.QUEUED)
    if action != Action.PRIORITY:
        waits = waits.filter(action=action)
    stands = standing_newest(row)
    hour = sum(one.price_hour_micro for one in stands)
    goes = sum(one.price_hour_micro for one in change.goes)
    if change.goes:
        # What goes gives its quota back: at once as it is told here, in truth by proof.
        back = row.sku.units_milli * max(row.slots, 1) * len(change.goes)
        left = max(0, plan.envelope_after_milli - back)
        plan = plan if change.takes_capacity else replace(plan, envelope_after_milli=left)
    return ChangePlan(
        plan=plan,
        before=change.before,
        after=change.after,
        takes=change.ask.replicas if change.takes_capacity else 0,
        releases=tuple((one.pk, one.name) for one in change.goes),
        released_after=change.takes_capacity and bool(change.goes),
        waiting=waits.count(),
        hour_before_micro=hour,
        hour_after_micro=hour - goes + plan.price_hour_micro,
    )
