"""How does a tenant's order become an item, and how is a refusal or a wait written down?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from admission.domain.decide import Facts, Gate, Verdict, decide
from admission.models import AdmissionRequest, Decision
from admission.snapshots import Authority
from gpuaas.kernel import clock, events, ids, prepared, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, InvalidRequest, NotFound, ProductError
from gpuaas.kernel.transitions import advance
from placement.domain.fit import Want
from placement.domain.order import WHOLE_NODE, AllocationOrder
from placement.services.bundle import Item, as_json
from placement.snapshots import MOST_SLOTS, Ask, Look, image_of
from tenants.domain import roles
from tenants.domain.names import BadName, clean_name
from tenants.errors import SkuUnknown

DENIED = "admission.admissionrequest.deny"
QUEUED_SUBJECT = "admission.admissionrequest"


def _size(order: AllocationOrder, who: Authority) -> int:
    if who.shape == "baremetal":
        if order.slots not in (None, WHOLE_NODE):
            raise InvalidRequest(
                f"{who.sku} is a whole node: leave slots out.",
                errors=(FieldError("/slots", "not_allowed", "a whole node has no slot count"),),
            )
        return WHOLE_NODE
    return who.slots_min if order.slots is None else order.slots


def _name(order: AllocationOrder, who: Authority, allocation_id: UUID) -> str:
    if not order.name:
        return f"{who.sku}-{allocation_id.hex[-6:]}"
    try:
        return clean_name(order.name)
    except BadName as bad:
        raise InvalidRequest(
            f"The name is refused: {bad}.",
            errors=(FieldError("/name", "name_refused", str(bad)),),
        ) from bad


def item_of(
    ask: Ask, met: Look | None, *, actor: Actor, queued: AdmissionRequest | None = None
) -> Item:
    """Decide on what an order met, and keep both with what is to be placed.

    ``queued`` is the request that waits, decided again. Raises SkuUnknown or InvalidRequest
    for an order that cannot be understood.
    """
    order = ask.order
    if met is None:
        raise SkuUnknown(
            f"There is no SKU {order.sku!r}.",
            errors=(FieldError("/sku", "unknown", "no SKU of this name"),),
        )
    who = met.authority
    size = _size(order, who)
    image = image_of(order, who.shape)
    facts = Facts(
        actor=actor.name,
        may_write=actor.operator
        or roles.may("allocations:write", role=actor.role, operator=False, scopes=actor.scopes),
        tenant_state=who.tenant_state,
        project_known=who.project_known,
        sku=who.sku,
        sku_state=who.sku_state,
        shape=who.shape,
        slots_min=who.slots_min,
        slots_max=who.slots_max,
        slots_asked=size,
        amount_milli=who.units_milli * max(size, 1),
        resource_class=who.resource_class,
        quota=who.quota,
        tier=who.tier,
        tier_asked=order.tier,
        tier_isolation=who.tier_isolation,
        sku_isolation=who.sku_isolation,
        band=who.band,
        image=image,
        image_known=met.image_known,
        keys_unknown=tuple(str(key) for key in order.ssh_key_ids if key not in met.keys),
    )
    allocation_id = ids.new_id()
    name = _name(order, who, allocation_id)
    run_id = queued.run_id if queued is not None else None
    return Item(
        authority=who,
        facts=facts,
        verdict=decide(facts),
        want=Want(size, who.exclusive_nic and size != WHOLE_NODE),
        project_id=ask.project_id,
        name=name,
        image=image,
        ssh_keys=tuple(met.keys.values()),
        spec=queued.spec
        if queued is not None
        else {
            "name": name,
            "image": image,
            "ssh_keys": [str(key) for key in order.ssh_key_ids],
            "tier": order.tier,
        },
        wait=order.wait,
        actor=actor,
        request_id=queued.pk if queued is not None else ids.new_id(),
        run_id=run_id or ids.new_id(),
        where=met.where,
        places=met.places,
        queued=queued is not None,
        allocation_id=allocation_id,
    )


def _capacity_refusal(error: ProductError) -> dict[str, Any]:
    return Gate("capacity", False, error.code, error.detail, error.facts).as_json()


def deny(item: Item, error: ProductError, *, at_capacity: bool) -> ProductError:
    """Keep a refused request with its decision and event; the error is to be raised after.

    One statement: a refusal must not cost more than what it refuses.
    """
    if item.verdict.gates and not item.facts.project_known:
        return NotFound()
    who = item.authority
    gates = [gate.as_json() for gate in item.verdict.gates]
    if at_capacity:
        gates.append(_capacity_refusal(error))
    heard = {DENIED: events.subscribers_of(DENIED)}
    request, decision = str(item.request_id), str(item.decision_id)
    prepared.rows(
        "SELECT admission_refuse(%s::jsonb, %s::jsonb)",
        (
            as_json(
                {
                    "tenant": str(who.tenant_id),
                    "project": str(item.project_id),
                    "request": request,
                    "action": "allocation.create",
                    "sku": str(who.sku_id),
                    "class": str(who.class_id),
                    "tier_id": str(who.tier_id),
                    "pool": who.pool,
                    "slots": max(0, min(item.want.slots, MOST_SLOTS)),
                    "amount": item.amount_milli,
                    "wait": item.wait,
                    "band": who.band,
                    "spec": item.spec,
                    "actor": item.actor.as_json(),
                    "decision": decision,
                    "gates": gates,
                    "code": error.code,
                    "detail": error.detail,
                    "envelope_version": who.quota.version if who.quota else 0,
                    "digest": item.facts.digest(),
                    "uid": str(ids.new_id()),
                    "facts": {"decision": decision, **error.facts},
                    "correlation": item.actor.request_id,
                }
            ),
            as_json(heard),
        ),
    )
    if heard[DENIED]:
        transaction.on_commit(events.wake_outbox)
    error.facts = {**error.facts, "decision": decision, "request": request}
    return error.kept()


@transaction.atomic
def queue(item: Item, error: ProductError) -> None:
    """Let an authorised request wait for capacity, with its decision and its durable run."""
    who = item.authority
    request = AdmissionRequest.objects.create(
        pk=item.request_id,
        tenant_id=who.tenant_id,
        project_id=item.project_id,
        sku_id=who.sku_id,
        resource_class_id=who.class_id,
        tier_id=who.tier_id,
        pool=who.pool,
        slots=max(item.want.slots, 0),
        amount_milli=item.amount_milli,
        wait=item.wait,
        band=who.band,
        spec=item.spec,
        actor=item.actor.as_json(),
        run_id=item.run_id,
    )
    decision = Decision.objects.create(
        pk=item.decision_id,
        tenant_id=who.tenant_id,
        request_id=item.request_id,
        verdict="wait",
        code="waiting_for_capacity",
        gates=[*(gate.as_json() for gate in item.verdict.gates), _capacity_refusal(error)],
        envelope_version=who.quota.version if who.quota else 0,
        digest=item.facts.digest(),
    )
    workflow.start(
        "allocation.create",
        subject_kind=QUEUED_SUBJECT,
        subject_id=request.pk,
        tenant_id=who.tenant_id,
        input={"request": str(request.pk)},
        actor=item.actor,
        done=("admit",),
        run_id=item.run_id,
    )
    request = advance(
        request,
        "queue",
        actor=item.actor,
        reason="waiting_for_capacity",
        changes={
            "code": "waiting_for_capacity",
            "detail": error.detail,
            "queued_at": clock.db_now(),
        },
        facts={"decision": str(decision.pk), **error.facts},
    )
    events.record(
        kind="placement.queue.join",
        subject=request,
        actor=item.actor,
        facts={"pool": who.pool, "band": who.band},
    )


def verdict_error(verdict: Verdict, make: Any) -> ProductError | None:
    """The refusing gate as its declared error, or None when every gate let it through."""
    gate = verdict.refusal
    if gate is None:
        return None
    error: ProductError = make(gate.code, gate.detail, **gate.facts)
    return error
