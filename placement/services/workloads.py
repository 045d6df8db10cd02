"""How does a tenant run, change and stop a workload?  Each step is an action that is admitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from admission.errors import WorkloadStateRefused
from admission.models import Action, AdmissionRequest, Workload
from admission.states import RequestState, WorkloadState
from gpuaas.kernel import clock, ids
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import (
    ConcurrentUpdate,
    FieldError,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    error_for,
)
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.transitions import advance
from placement.domain.order import AllocationOrder
from placement.models import Allocation
from placement.services import requests
from placement.services.allocations import (
    Plan,
    Ticket,
    ask_place,
    plan_of,
    request_withdraw,
)
from placement.services.bundle import Item
from placement.services.intents import (
    intent_change,
    intent_locked,
    waiting_locked,
)
from placement.services.memory import memory_of, whole_number
from placement.services.moves import release_all, standing_newest, surplus
from placement.services.workload_changes import (
    MOST_BATCH,
    MOST_REPLICAS,
    Change,
    batch_size_change,
    placement_change,
    priority_change,
    scale_change,
    sharing_change,
)
from placement.snapshots import Ask, look
from placement.states import AllocationState
from tenants.services.tenancy import checked_name

KINDS: Final = {"job": Action.JOB, "service": Action.SERVICE, "model": Action.MODEL}


@dataclass(frozen=True, slots=True)
class WorkloadOrder:
    """What a tenant wants to run: ``replicas`` allocations of one SKU and size."""

    kind: str
    name: str
    sku: str
    slots: int | None = None
    replicas: int = 1
    image: str = ""
    ssh_key_ids: tuple[UUID, ...] = ()
    wait: bool = False
    zones: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    together: str = ""
    close: str = ""
    apart: bool = False
    own: str = ""
    movable: bool = False
    band: int | None = None
    batch_size: int | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)

    def allocation(self, **changes: Any) -> AllocationOrder:
        """The order for each of its allocations."""
        made = AllocationOrder(
            sku=self.sku,
            slots=self.slots,
            name=self.name,
            image=self.image,
            ssh_key_ids=self.ssh_key_ids,
            wait=self.wait,
            zones=self.zones,
            datasets=self.datasets,
            storage=self.storage,
            together=self.together,
            close=self.close,
            apart=self.apart,
            own=self.own,
            band=self.band,
        )
        return replace(made, **changes)


def _ask(
    tenant_id: UUID,
    project_id: UUID,
    order: WorkloadOrder,
    *,
    name: str,
    workload_id: UUID | None = None,
) -> Ask:
    """What admission is asked for a new workload. Raises InvalidRequest naming a wrong field."""
    action = KINDS.get(order.kind)
    if action is None:
        raise InvalidRequest(
            f"There is no kind {order.kind!r}.",
            errors=(FieldError("/kind", "unknown", "job, service or model"),),
        )
    whole_number(order.replicas, "/replicas", MOST_REPLICAS)
    if order.batch_size is not None:
        whole_number(order.batch_size, "/batch_size", MOST_BATCH)
    fits = None
    if order.kind == "model":
        fits = memory_of(order.sku, order.slots, order.batch_size, order.spec)
    return Ask(
        tenant_id,
        project_id,
        order.allocation(name=name),
        action=action,
        replicas=order.replicas,
        workload_id=workload_id,
        headroom=fits,
        more={"kind": order.kind},
    )


def workload_plan(*, tenant_id: UUID, project_id: UUID, order: WorkloadOrder, actor: Actor) -> Plan:
    """The decision and the price of a new workload, writing nothing. Its name may be empty."""
    return plan_of(_ask(tenant_id, project_id, order, name=order.name), actor=actor)


def workload_create(
    *, tenant_id: UUID, project_id: UUID, order: WorkloadOrder, actor: Actor
) -> Ticket:
    """Submit a job, create a service or deploy a model: all of its allocations, or none.

    A model's memory is checked against its figures in ``spec["model"]`` first. Refused as an
    allocation is; with ``wait`` the workload stays submitted until its reason has ended.
    """
    name, workload_id, spec = checked_name(order.name), ids.new_id(), dict(order.spec)
    ask = _ask(tenant_id, project_id, order, name=name, workload_id=workload_id)

    def intent(item: Item) -> None:
        Workload.objects.create(
            pk=workload_id,
            tenant_id=tenant_id,
            project_id=project_id,
            kind=order.kind,
            name=name,
            sku_id=item.authority.sku_id,
            slots=max(item.want.slots, 0),
            replicas=order.replicas,
            band=item.facts.asked_band,
            batch_size=order.batch_size,
            spec={
                **spec,
                "image": item.image,
                "ssh_keys": [str(key) for key in order.ssh_key_ids],
                "zones": list(order.zones),
                "datasets": list(order.datasets),
                "storage": list(order.storage),
                **_set_of(order),
            },
        )

    return ask_place(ask, actor=actor, intent=intent)


def _set_of(order: WorkloadOrder) -> dict[str, Any]:
    """How its replicas stand to each other and to the tenant's own, and whether they may move."""
    names = ("together", "close", "apart", "own", "movable")
    return {name: getattr(order, name) for name in names}


def workload_scale(
    *, workload_id: UUID, replicas: int, actor: Actor, partial: bool = False, wait: bool = False
) -> Ticket:
    """Change how many replicas run: more are admitted and placed together, fewer released.

    ``partial`` takes as many as there is room for, at least one. Scaling down releases the
    newest first.
    """
    change = scale_change(
        workload_id=workload_id, replicas=replicas, actor=actor, partial=partial, wait=wait
    )
    if not change.takes_capacity:
        return _scale_down(change, replicas, actor)
    row = change.row

    def intent(item: Item) -> None:
        _withdraw(row, actor, action=Action.SCALE)
        unchanged(row)

    return ask_place(change.ask, actor=actor, intent=intent)


def _withdraw(row: Workload, actor: Actor, **which: Any) -> None:
    """Take what waits for the workload out of the queue: newer intent replaces it."""
    rows = AdmissionRequest.objects.filter(workload=row, state=RequestState.QUEUED, **which)
    for request in rows.order_by("pk"):
        request_withdraw(request_id=request.pk, actor=actor)


def unchanged(row: Workload) -> Workload:
    """The workload under its lock, as wanted as it was read. Raises what tells otherwise."""
    fresh = intent_locked(row.pk)
    if fresh.state != row.state:
        raise WorkloadStateRefused(f"The workload is {fresh.state}.", state=fresh.state)
    if fresh.generation != row.generation:
        raise ConcurrentUpdate("The workload was changed meanwhile.")
    return fresh


def _scale_down(change: Change, replicas: int, actor: Actor) -> Ticket:
    def fewer(fresh: Workload) -> None:
        _withdraw(fresh, actor, action=Action.SCALE)
        gone = surplus(fresh, replicas)
        if fresh.replicas != replicas:
            intent_change(fresh, {"replicas": replicas}, actor)
        release_all(gone, "scaled down", actor)

    return _decide(change, actor, fewer)


def _decide(change: Change, actor: Actor, do: Callable[[Workload], object]) -> Ticket:
    """Admit or refuse a change that takes no capacity: the same gates, the same record."""
    workload_id = change.row.pk
    with platform_scope():
        item = requests.item_of(change.ask, look(change.ask), actor=actor, takes_capacity=False)
        refused = requests.verdict_error(item.verdict, error_for)
        if refused is None:
            with transaction.atomic():
                requests.admitted(item)
                waiting_locked(workload_id)
                do(intent_locked(workload_id))
            return Ticket(item.request_id, item.decision_id, None, None, workload_id)
        refused = requests.deny(item, refused, at_capacity=False)
    raise refused


def workload_batch_size(*, workload_id: UUID, batch_size: int, actor: Actor) -> Ticket:
    """Change the batch size; a model's memory is checked first. Reversible by the same call."""
    change = batch_size_change(workload_id=workload_id, batch_size=batch_size, actor=actor)
    return _decide(
        change, actor, lambda fresh: intent_change(fresh, {"batch_size": batch_size}, actor)
    )


def gpu_sharing(*, workload_id: UUID, mode: str, actor: Actor) -> Ticket:
    """Say what a workload shares: none, shared, mig, or node, by its tier and its SKU.

    ``node`` keeps other tenants off the nodes of whatever is placed for it from now on.
    """
    change = sharing_change(workload_id=workload_id, mode=mode, actor=actor)
    return _decide(
        change,
        actor,
        lambda fresh: intent_change(fresh, {"spec": {**fresh.spec, "sharing": mode}}, actor),
    )


def workload_priority(*, workload_id: UUID, band: int, actor: Actor) -> Ticket:
    """Change the priority within the tier's band; what waits for the workload is re-ordered."""

    def reorder(fresh: Workload) -> None:
        intent_change(fresh, {"band": band}, actor)
        waiting = AdmissionRequest.objects.filter(workload=fresh, state=RequestState.QUEUED)
        for request in waiting.select_for_update(no_key=True):
            request.band = band
            request.spec = {**request.spec, "band": band}
            request.version += 1
            request.save(update_fields=["band", "spec", "version"])

    change = priority_change(workload_id=workload_id, band=band, actor=actor)
    return _decide(change, actor, reorder)


def workload_placement(
    *,
    workload_id: UUID,
    actor: Actor,
    zones: tuple[str, ...] = (),
    datasets: tuple[str, ...] = (),
    wait: bool = False,
) -> Ticket:
    """Move a workload: all new places are claimed before the old ones are released.

    While both stand both are charged, so the envelope has to allow it. Refused, nothing moves.
    With ``wait`` a move that cannot be made now holds nothing and is made when it can be; a
    newer one replaces it. It moves what stands then, however many that are.
    """
    change = placement_change(
        workload_id=workload_id, actor=actor, zones=zones, datasets=datasets, wait=wait
    )
    row = change.row

    def intent(item: Item) -> None:
        _withdraw(row, actor, action=Action.PLACEMENT)
        unchanged(row)

    return ask_place(change.ask, actor=actor, intent=intent)


def workload_stop(
    *, workload_id: UUID, reason: str, actor: Actor, version: int | None = None
) -> Workload:
    """Stop a workload: what waits for it is withdrawn, what it holds is released.

    Raises PreconditionFailed when it is not at ``version`` any more.
    """
    with transaction.atomic():
        row = Workload.objects.filter(pk=workload_id).first()
        if row is None:
            raise NotFound
        if row.state in (WorkloadState.STOPPING, WorkloadState.ENDED):
            return row
        with platform_scope():
            waiting_locked(row.pk)
            row = intent_locked(row.pk)
            if row.state == WorkloadState.ENDED:
                return row
            if version not in (None, row.version):
                raise PreconditionFailed(version=row.version, asked=[version])
            _withdraw(row, actor)
            row = advance(row, "stop", actor=actor, reason=reason)
            release_all(standing_newest(row), reason or "stopped", actor)
            return workload_settle(workload_id=row.pk, actor=actor)


def workload_settle(*, workload_id: UUID, actor: Actor) -> Workload:
    """End a stopping workload when nothing of it is held any more."""
    row = intent_locked(workload_id)
    held = Allocation.objects.filter(workload=row).exclude(state=AllocationState.RELEASED)
    if row.state != WorkloadState.STOPPING or held.exists():
        return row
    changes = {"outcome": "ended", "ended_at": clock.db_now()}
    return advance(row, "end", actor=actor, changes=changes)
