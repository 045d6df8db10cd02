"""How does a tenant lease capacity, change a lease, and give it back?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from django.db import transaction

from admission.domain.outcome import ADMITTED, outcome_of
from admission.errors import WithdrawnAlready
from admission.measures import DURATION
from admission.models import CHANGES, AdmissionRequest, Decision
from admission.services.wishes import change_withdraw
from admission.states import RequestState
from gpuaas.kernel import errors, events, on_the_spot, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError, error_for
from gpuaas.kernel.idempotency import Carried, IdempotencyKeyInUse, KeyUsedError
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.transitions import advance
from placement.domain.fit import Option
from placement.domain.order import AllocationOrder
from placement.domain.sets import NoPlan
from placement.models import Allocation
from placement.services import requests
from placement.services.bundle import Item, capacity_gate, run_begun
from placement.services.engine import (
    Placed,
    Result,
    Unplaced,
    alone_plan,
    attempted,
    group_plan,
    no_capacity_for,
    place_carrying,
    place_group,
    place_one,
)
from placement.services.intents import intent_dropped, intent_taken
from placement.services.queue import waiting
from placement.services.releases import Leaving, Left, releases_begin
from placement.services.spending import spend_told
from placement.snapshots import Ask, Look, look
from tenants.services.tenancy import checked_name

HOURS_A_MONTH = 730


@dataclass(frozen=True)
class Ticket:
    """What a tenant gets for an order: the decision, the run, and the allocation if placed.

    The rows are read when somebody looks at them; the claim itself needs none of them back.
    """

    request_id: UUID
    decision_id: UUID
    run_id: UUID | None
    allocation_id: UUID | None
    workload_id: UUID | None = None
    begun: Callable[[], WorkflowRun] | None = None
    """Tells the run as it was written, where that is known without reading it."""

    @cached_property
    def request(self) -> AdmissionRequest:
        """The request: admitted or queued."""
        return AdmissionRequest.objects.get(pk=self.request_id)

    @cached_property
    def decision(self) -> Decision:
        """The decision with its gates."""
        return Decision.objects.get(pk=self.decision_id)

    @cached_property
    def run(self) -> WorkflowRun:
        """The run that makes the allocation, as it began: the operation. A change on the spot has
        none."""
        if self.run_id is None:
            raise LookupError("this was done on the spot: there is no run")
        if self.begun is not None:
            return self.begun()
        return WorkflowRun.objects.get(pk=self.run_id)

    @cached_property
    def allocation(self) -> Allocation | None:
        """The allocation, when it was placed at once."""
        if self.allocation_id is None:
            return None
        return Allocation.objects.get(pk=self.allocation_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an order would do, without doing it."""

    fits: bool
    code: str
    detail: str
    sku: str
    shape: str
    slots: int
    tier: str
    image: str
    price_hour_micro: int
    price_month_micro: int
    currency: str
    resource_class: str
    envelope_before_milli: int
    envelope_after_milli: int
    envelope_limit_milli: int
    gates: list[dict[str, Any]]
    choice: dict[str, Any] | None
    runner_up: dict[str, Any] | None
    would_wait: bool
    queue_ahead: int = 0
    """How many requests of its pool would be asked before it, were it queued now."""


def _ticket(item: Item, *, placed_at: datetime | None) -> Ticket:
    return Ticket(
        request_id=item.request_id,
        decision_id=item.decision_id,
        run_id=item.run_id,
        allocation_id=item.allocation_id if placed_at else None,
        workload_id=item.workload_id,
        begun=partial(run_begun, item, placed_at) if placed_at else None,
    )


def allocation_request(
    *, tenant_id: UUID, project_id: UUID, order: AllocationOrder, actor: Actor
) -> Ticket:
    """Decide and place at once; those who wait in the pool keep what would be theirs.

    A refusal raises the reason's own error after the request, the decision and the event
    were written; its ``facts`` carry the numbers and the ids. With ``order.wait`` a request
    waits instead for whatever refuses it now, if that can end.

    Reading and deciding need no transaction of their own: the commit checks the node's
    generation and the envelope again under their locks.
    """
    return ask_place(Ask(tenant_id, project_id, order), actor=actor)


def allocation_at_once(
    *,
    tenant_id: UUID,
    project_id: UUID,
    order: AllocationOrder,
    actor: Actor,
    carried: Callable[[UUID, UUID], Carried],
) -> tuple[Carried, datetime] | None:
    """Place an order that nothing stands against, its idempotency key with it, in one statement.

    ``carried`` makes the key with its answer from the ids of the run and the allocation; it comes
    back with the time of the statement. None says that nothing was written, and that
    ``allocation_request`` is to be asked, under the key's guard: for a refusal, a wait, a warning,
    a key that was used, a lost race. Raises IdempotencyKeyInUse.
    """
    ask = Ask(tenant_id, project_id, order)
    with on_the_spot.timed(DURATION) as took:
        try:
            met = look(ask)
            if met is None or met.queue_waits or met.usage is not None:
                return None
            item = requests.item_of(ask, met, actor=actor)
            if item.verdict.refusal is not None:
                return None
            key = carried(item.run_id, item.allocation_id)
            placed = place_carrying(item, key)
        except IdempotencyKeyInUse:
            raise
        except (KeyUsedError, ProductError):
            return None
        if placed is None:
            return None
        took.labels = (ask.action, ADMITTED)
    attempted(item, placed)
    return key, placed.at


def ask_place(ask: Ask, *, actor: Actor, intent: Callable[[Item], None] | None = None) -> Ticket:
    """The one way from an order to its allocations: decide, place all or none, queue or refuse.

    ``intent`` writes the workload that the request is for; it is called in the transaction
    that admits or queues, and not when the request is refused.
    """
    with on_the_spot.timed(DURATION) as took, platform_scope():
        met = look(ask)
        item = requests.item_of(ask, met, actor=actor)
        refused = requests.verdict_error(item.verdict, error_for)
        at_capacity = refused is None
        if refused is None:
            ahead = waiting(item.authority.pool) if _behind(ask, met) else ()
            result = _place(item, ahead, intent)
            attempted(item, result)
            if isinstance(result, Placed):
                took.labels = (ask.action, ADMITTED)
                spend_told(item, actor)
                return _ticket(item, placed_at=result.at)
            refused = result.error
        if requests.may_wait(item, refused, at_capacity=at_capacity):
            full = requests.queue_full(item)
            if full is None:
                with transaction.atomic():
                    if intent is not None:
                        intent(item)
                    requests.queue(item, refused, at_capacity=at_capacity)
                took.labels = (ask.action, outcome_of("wait", requests.waiting_code(refused)))
                return _ticket(item, placed_at=None)
            refused, at_capacity = full, False
        refused = requests.deny(item, refused, at_capacity=at_capacity)
        took.labels = (ask.action, outcome_of("deny", refused.code))
    raise refused


def _behind(ask: Ask, met: Look | None) -> bool:
    """Whether others come first. What the platform moves makes room for those who wait: they are
    not before it."""
    return not ask.nodes and met is not None and met.queue_waits


def _place(item: Item, ahead: Sequence[Item], intent: Callable[[Item], None] | None) -> Result:
    if item.workload_id is None and item.facts.replicas == 1:
        return place_one(item, ahead=ahead)
    with transaction.atomic():
        if intent is not None:
            intent(item)
        result = place_group(requests.group_of(item), ahead=ahead)
        if isinstance(result, Unplaced):
            transaction.set_rollback(True)
        elif item.workload_id is not None:
            intent_taken(
                item.workload_id,
                item.action,
                item.facts.replicas,
                item.actor,
                spec=item.spec,
            )
    return result


def allocation_plan(
    *, tenant_id: UUID, project_id: UUID, order: AllocationOrder, actor: Actor
) -> Plan:
    """The same decision and search, writing nothing."""
    return plan_of(Ask(tenant_id, project_id, order), actor=actor)


def plan_of(ask: Ask, *, actor: Actor, takes_capacity: bool = True) -> Plan:
    """What an order for one or several allocations would do; its prices are of all together.

    Without ``takes_capacity`` it changes what is held already: nothing is looked for or priced.
    """
    with transaction.atomic(), platform_scope():
        met = look(ask)
        item = requests.item_of(ask, met, actor=actor, takes_capacity=takes_capacity)
        refused = requests.verdict_error(item.verdict, error_for)
        if not item.facts.project_known:
            raise errors.NotFound
        gates = [gate.as_json() for gate in item.verdict.gates]
        options: list[Option] = []
        if refused is None and takes_capacity:
            ahead = waiting(item.authority.pool) if _behind(ask, met) else ()
            found = _planned(item, ahead)
            if isinstance(found, ProductError):
                refused = found
                gates.append(requests.capacity_refusal(refused))
            else:
                options = found[1]
                gates.append(capacity_gate(*found))
        would_wait = refused is not None and requests.may_wait(
            item, refused, at_capacity=item.verdict.refusal is None
        )
        queues = takes_capacity and (would_wait or refused is None)
        ahead_of_it = queued_ahead(item) if queues else 0
    quota = item.authority.quota
    used = quota.used_milli if quota else 0
    price = item.price_hour_micro * ask.replicas if takes_capacity else 0
    yes = "It fits now." if takes_capacity else "It can be done now."
    return Plan(
        fits=refused is None,
        code=refused.code if refused else "",
        detail=refused.detail if refused else yes,
        sku=item.authority.sku,
        shape=item.authority.shape,
        slots=item.want.slots,
        tier=item.authority.tier,
        image=item.image,
        price_hour_micro=price,
        price_month_micro=price * HOURS_A_MONTH,
        currency=item.authority.currency,
        resource_class=item.authority.resource_class,
        envelope_before_milli=used,
        envelope_after_milli=used + item.facts.amount_milli,
        envelope_limit_milli=quota.limit_milli if quota else 0,
        gates=gates,
        choice=options[0].explained() if options else None,
        runner_up=options[1].explained() if len(options) > 1 else None,
        would_wait=would_wait,
        queue_ahead=ahead_of_it,
    )


def _planned(item: Item, ahead: Sequence[Item]) -> tuple[Item, list[Option]] | ProductError:
    """The first of a request's allocations with its options now, or why not all have a place."""
    if item.facts.replicas == 1 and not item.closeness.matters:
        alone = alone_plan(item, ahead, limit=2)
        return alone if isinstance(alone, ProductError) else (item, alone)
    group = requests.group_of(item)
    found = group_plan(group, ahead)
    if isinstance(found, NoPlan) or len(found) < len(group):
        return no_capacity_for(group, found)
    return found[0]


def queued_ahead(item: Item) -> int:
    """How many queued requests of the item's pool go before one that is queued now."""
    rows = AdmissionRequest.objects.filter(
        state=RequestState.QUEUED, pool=item.authority.pool, band__lte=item.facts.asked_band
    )
    return rows.count()


def allocation_release(
    *, allocation_id: UUID, reason: str, actor: Actor, version: int | None = None
) -> WorkflowRun:
    """Give an allocation back, or cancel one that is still being made. Repeating it is one.

    Raises PreconditionFailed, and does nothing, when it was not at ``version`` any more.
    """
    with transaction.atomic():
        [left] = allocations_release(allocation_ids=[allocation_id], reason=reason, actor=actor)
        if version is not None:
            # Looked at under the release's own locks, which it takes in their one order. A
            # release is one step; somebody else's before it would make two.
            now = Allocation.objects.values_list("version", flat=True).get(pk=allocation_id)
            if now not in (version, version + 1):
                raise errors.PreconditionFailed(version=now - 1, asked=[version])
        with platform_scope():
            return left.run()


def allocations_release(
    *, allocation_ids: Collection[UUID], reason: str, actor: Actor
) -> list[Left]:
    """Give back several together: all of them, or none. Repeating it has the effect of one.

    In the order of the asked. Raises NotFound where the actor's tenant has not all of them.
    """
    with transaction.atomic():
        held = dict(Allocation.objects.filter(pk__in=allocation_ids).values_list("pk", "slots"))
        asked = dict.fromkeys(allocation_ids)
        if len(held) < len(asked):
            raise errors.NotFound
        with platform_scope():
            return releases_begin(
                [leaving(pk, reason=reason, actor=actor, claims=held[pk]) for pk in asked]
            )


def leaving(allocation_id: UUID, *, reason: str, actor: Actor, claims: int = 1) -> Leaving:
    """What a tenant says that gives something back, or cancels what is still being made."""
    return Leaving(
        allocation_id,
        actor,
        code="released",
        detail=reason,
        cancel=reason or "released by the tenant",
        claims=claims,
    )


@transaction.atomic
def allocation_rename(*, allocation_id: UUID, name: str, version: int, actor: Actor) -> Allocation:
    """Change the display name, if the row still has the version that was seen."""
    kept = checked_name(name)
    with platform_scope():
        row = Allocation.objects.select_for_update(no_key=True).get(pk=allocation_id)
        if row.version != version:
            raise errors.PreconditionFailed(
                f"The allocation is at version {row.version}.", version=row.version
            )
        before, row.name, row.version = row.name, kept, row.version + 1
        row.save(update_fields=["name", "version"])
        events.record(
            kind="placement.allocation.rename",
            subject=row,
            actor=actor,
            before={"name": before},
            after={"name": kept},
        )
    return row


def request_withdraw(*, request_id: UUID, actor: Actor) -> AdmissionRequest:
    """Take back a request that waits for capacity, for authority, or for an approval."""
    if AdmissionRequest.objects.filter(pk=request_id, action__in=CHANGES).exists():
        return change_withdraw(request_id=request_id, actor=actor)
    with transaction.atomic():
        row = AdmissionRequest.objects.filter(pk=request_id).first()
        if row is None:
            raise errors.NotFound
        if row.state == RequestState.WITHDRAWN:
            return row
        if row.state != RequestState.QUEUED:
            raise WithdrawnAlready(f"The request is {row.state}.", state=row.state)
        with platform_scope():
            if row.run_id is not None:
                workflow.cancel(row.run_id, actor, "withdrawn")
            row = advance(row, "withdraw", actor=actor, changes={"code": "", "detail": ""})
            intent_dropped(row.workload_id, "cancelled", "withdrawn", actor)
            return row
