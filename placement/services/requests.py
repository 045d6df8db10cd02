"""How does a tenant's order become an item, and how is a refusal or a wait written down?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from admission import rules
from admission.domain.decide import Gate, Judge, Verdict, decide
from admission.domain.facts import Facts, Holding, Quota
from admission.domain.locality import in_order
from admission.domain.policy import judge
from admission.domain.sharing import OWN_TENANT, PART_MODES, neighbours_of
from admission.models import AdmissionRequest, Decision
from admission.snapshots import Authority
from gpuaas.kernel import clock, events, ids, prepared, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, InvalidRequest, NotFound, ProductError
from gpuaas.kernel.jsontext import as_json
from gpuaas.kernel.transitions import advance
from placement.domain.fit import Want
from placement.domain.order import WHOLE_NODE, AllocationOrder
from placement.domain.parts import SHARE
from placement.domain.terms import Alone
from placement.services.bundle import Item
from placement.services.durations import lasts_of
from placement.services.part_orders import one_part, part_of, sharing_of
from placement.services.standing import closeness_of, own_of, target_of, wishes_kept
from placement.snapshots import Ask, Look, image_of
from placement.snapshots.orders import MOST_SLOTS
from placement.snapshots.waiting import Waiting
from tenants.domain import roles
from tenants.domain.caps import committed_micro
from tenants.domain.names import BadName, clean_name
from tenants.errors import SkuUnknown, TooManyWaiting

DENIED = "admission.admissionrequest.deny"
QUEUED_SUBJECT = "admission.admissionrequest"
WAITS = "waiting_for_capacity"
ENDS_WITH_CAPACITY = frozenset(
    {
        "sku_unavailable",
        "forbidden_by_locality",
        "forbidden_by_topology",
        "envelope_exceeded",
        "cohort_exhausted",
        "project_quota_exceeded",
    }
)
"""What may refuse at the moment of placing and ends by itself or by somebody's act."""


def _size(order: AllocationOrder, who: Authority) -> int:
    if who.shape == "baremetal":
        if order.slots not in (None, WHOLE_NODE):
            raise InvalidRequest(
                f"{who.sku} is a whole node: leave slots out.",
                errors=(FieldError("/slots", "not_allowed", "a whole node has no slot count"),),
            )
        return WHOLE_NODE
    if who.shape in PART_MODES:
        one_part(order, who)
        return 1
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
    ask: Ask,
    met: Look | None,
    *,
    actor: Actor,
    queued: Waiting | None = None,
    holds: bool = False,
    ahead_milli: int = 0,
    takes_capacity: bool = True,
) -> Item:
    """Decide on what an order met, and keep both with what is to be placed.

    Without ``takes_capacity`` the action changes what is held already, and takes no quota.

    ``queued`` is the request that waits, decided again; with ``holds`` a node is kept free for it,
    and those before it are about to take ``ahead_milli`` of the same quota. Raises SkuUnknown or
    InvalidRequest for an order that cannot be understood.
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
    count = ask.replicas
    amount = who.units_milli * max(size, 1) * count if takes_capacity else 0
    part = part_of(who)
    neighbours = neighbours_of(order.sharing, tier_isolation=who.tier_isolation, shape=who.shape)
    sharing = ask.sharing or sharing_of(who, neighbours)
    facts = Facts(
        actor=actor.name,
        may_write=actor.operator
        or roles.may("allocations:write", role=actor.role, operator="", scopes=actor.scopes),
        tenant_state=who.tenant_state,
        project_known=who.project_known,
        sku=who.sku,
        sku_state=who.sku_state,
        shape=who.shape,
        slots_min=who.slots_min,
        slots_max=who.slots_max,
        slots_asked=size,
        amount_milli=amount,
        resource_class=who.resource_class,
        quota=_used(who.quota, ahead_milli),
        tier=who.tier,
        tier_asked=order.tier,
        tier_isolation=who.tier_isolation,
        sku_isolation=who.sku_isolation,
        band=who.band,
        image=image,
        image_known=met.image_known,
        keys_unknown=tuple(str(key) for key in order.ssh_key_ids if key not in met.keys),
        action=ask.action,
        kind=ask.more.get("kind", "lease"),
        tenant=who.tenant_slug,
        family=who.family,
        pool=who.pool,
        pool_known=met.pool_known,
        entitled=who.entitled,
        preemption=who.preemption,
        replicas=count,
        wait=order.wait,
        band_asked=order.band,
        holding=_holding(met, who.hour_micro * max(size, 1) * count if takes_capacity else 0),
        zones=order.zones,
        data=in_order(met.data, order.datasets),
        data_unknown=tuple(sorted(set(order.datasets) - {d.name for d in met.data})),
        storage=order.storage,
        stores=met.stores,
        neighbours=neighbours,
        sharing=sharing,
        headroom=ask.headroom,
        hour=who.hour,
        weekday=who.weekday,
        policy_version=rules.version_of(who.policy_stamp),
    )
    terms = met.terms
    if facts.neighbours == OWN_TENANT:
        terms = replace(terms, alone=max(terms.alone, Alone.NODE))
    if order.own:
        terms = replace(terms, own=own_of(order, terms))
    matters = met.fenced or terms.about_tenants
    want = Want(
        size,
        who.exclusive_nic and size != WHOLE_NODE,
        terms,
        who.tenant_id if matters or (part is not None and part.kind == SHARE) else None,
        part,
        lasts_of(order),
    )
    where = target_of(met, facts, ask.nodes)
    allocation_id = ids.new_id()
    name = _name(order, who, allocation_id)
    run_id = queued.run_id if queued is not None else None
    return Item(
        authority=who,
        facts=facts,
        verdict=decide(facts, judge=_judge(who.policy_stamp)),
        want=want,
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
            **wishes_kept(order),
            **ask.more,
        },
        wait=order.wait,
        actor=actor,
        request_id=queued.id if queued is not None else ids.new_id(),
        run_id=run_id or ids.new_id(),
        where=where,
        places=met.places if where == met.where and not terms.bind and part is None else None,
        closeness=closeness_of(ask),
        queued=queued is not None,
        holds=holds,
        action=ask.action,
        workload_id=ask.workload_id,
        subject_id=ask.subject_id,
        allocation_id=allocation_id,
    )


def _used(quota: Quota | None, more: int) -> Quota | None:
    """The quota with so much more of it used."""
    return replace(quota, used_milli=quota.used_milli + more) if quota and more else quota


def _holding(met: Look, more_hour_micro: int) -> Holding | None:
    """The caps beside what they count; money with the request in it, to the month's end."""
    caps, usage = met.authority.caps, met.usage
    if caps is None or usage is None:
        return None
    spend = committed_micro(
        accrued_micro=usage.accrued_micro,
        hour_micro=usage.hour_micro + more_hour_micro,
        seconds_left=usage.seconds_left,
    )
    return Holding(caps, usage.live, usage.waiting, spend)


def _judge(stamp: str) -> Judge | None:
    active = rules.active(stamp)
    return partial(judge, active, timer=clock.thread_s) if active else None


def capacity_refusal(error: ProductError) -> dict[str, Any]:
    """The last gate, as it is stored when it refused."""
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
        gates.append(capacity_refusal(error))
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
                    "action": item.action,
                    "replicas": item.facts.replicas,
                    # A workload that was to be created does not exist.
                    "workload": str(item.workload_id) if item.subject_id else None,
                    "subject": str(item.subject_id) if item.subject_id else None,
                    "seen": item.facts.seen(),
                    "policy_version": item.facts.policy_version,
                    "sku": str(who.sku_id),
                    "class": str(who.class_id),
                    "tier_id": str(who.tier_id),
                    "pool": who.pool,
                    "slots": max(0, min(item.want.slots, MOST_SLOTS)),
                    "amount": item.facts.amount_milli,
                    "wait": item.wait,
                    "band": item.facts.asked_band,
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


def may_wait(item: Item, error: ProductError, *, at_capacity: bool) -> bool:
    """Whether an order that was refused may queue: it asked to, and the reason can end."""
    if not item.wait:
        return False
    if at_capacity:
        return error.code in ENDS_WITH_CAPACITY and not error.facts.get("never")
    gate = item.verdict.refusal
    return gate is not None and gate.waits


def queue_full(item: Item) -> ProductError | None:
    """The cap on waiting requests, if one more is too many."""
    holding = item.facts.holding
    if holding is None or holding.caps.waiting is None:
        return None
    if holding.waiting < holding.caps.waiting:
        return None
    return TooManyWaiting(
        f"{holding.waiting} wait already, {holding.caps.waiting} may.",
        waiting=holding.waiting,
        cap=holding.caps.waiting,
    )


def waiting_code(error: ProductError) -> str:
    """What a waiting request is said to wait for."""
    return WAITS if error.code in ("sku_unavailable", "never_fits") else error.code


def _request_row(item: Item, *, amount_milli: int, **more: Any) -> AdmissionRequest:
    """The request's row, just received; it takes ``amount_milli`` of quota when placed."""
    who = item.authority
    return AdmissionRequest.objects.create(
        pk=item.request_id,
        tenant_id=who.tenant_id,
        project_id=item.project_id,
        action=item.action,
        sku_id=who.sku_id,
        resource_class_id=who.class_id,
        tier_id=who.tier_id,
        pool=who.pool,
        workload_id=item.workload_id,
        subject_id=item.subject_id,
        slots=max(item.want.slots, 0),
        replicas=item.facts.replicas,
        amount_milli=amount_milli,
        band=item.facts.asked_band,
        spec=item.spec,
        actor=item.actor.as_json(),
        **more,
    )


@transaction.atomic
def queue(item: Item, error: ProductError, *, at_capacity: bool = True) -> None:
    """Let a request wait for what refuses it now, with its decision and its durable run."""
    who = item.authority
    code = waiting_code(error)
    request = _request_row(
        item, amount_milli=item.facts.amount_milli, wait=item.wait, run_id=item.run_id
    )
    decision = keep_decision(item, "wait", code, error, at_capacity=at_capacity)
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
        reason=code,
        changes={"code": code, "detail": error.detail, "queued_at": clock.db_now()},
        facts={"decision": str(decision.pk), **error.facts},
    )
    events.record(
        kind="placement.queue.join",
        subject=request,
        actor=item.actor,
        facts={"pool": who.pool, "band": item.facts.asked_band},
    )


def admitted(item: Item) -> None:
    """Write down what was admitted and takes no capacity: request, decision, event."""
    request = _request_row(item, amount_milli=0)
    decision = keep_decision(item, "admit", "", None, at_capacity=False)
    advance(request, "admit", actor=item.actor, facts={"decision": str(decision.pk)})


def keep_decision(
    item: Item, verdict: str, code: str, error: ProductError | None, *, at_capacity: bool
) -> Decision:
    """One decision row, as the database function writes it for what is placed."""
    gates = [gate.as_json() for gate in item.verdict.gates]
    if at_capacity and error is not None:
        gates.append(capacity_refusal(error))
    return Decision.objects.create(
        pk=item.decision_id,
        tenant_id=item.authority.tenant_id,
        request_id=item.request_id,
        verdict=verdict,
        code=code,
        gates=gates,
        facts=item.facts.seen(),
        policy_version=item.facts.policy_version,
        envelope_version=item.authority.quota.version if item.authority.quota else 0,
        digest=item.facts.digest(),
    )


def group_of(item: Item) -> list[Item]:
    """The allocations of one request: the first leads, and writes what all share."""
    count = item.facts.replicas
    if count == 1:
        return [item]
    return [
        replace(item, name=f"{item.name}-1"),
        *(
            replace(
                item,
                lead=False,
                queued=False,
                name=f"{item.name}-{k}",
                allocation_id=ids.new_id(),
                run_id=ids.new_id(),
                task_id=ids.new_id(),
            )
            for k in range(2, count + 1)
        ),
    ]


def verdict_error(verdict: Verdict, make: Any) -> ProductError | None:
    """The refusing gate as its declared error, or None when every gate let it through."""
    gate = verdict.refusal
    if gate is None:
        return None
    error: ProductError = make(gate.code, gate.detail, **gate.facts)
    return error
