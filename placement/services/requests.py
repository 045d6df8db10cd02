"""How does a tenant's order become an item, and how is a refusal or a wait written down?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from admission.domain.decide import Facts, Gate, Verdict, decide
from admission.models import AdmissionRequest, Decision
from admission.snapshots import Authority, authority
from gpuaas.kernel import clock, events, ids, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, InvalidRequest, NotFound, ProductError
from gpuaas.kernel.transitions import advance
from placement.domain.fit import Want
from placement.domain.order import WHOLE_NODE, AllocationOrder
from placement.models import Image
from placement.services.bundle import Item
from tenants.domain import roles
from tenants.domain.names import BadName, clean_name
from tenants.errors import SkuUnknown
from tenants.models import SshKey

DEFAULT_IMAGES = {"gpu_slice": "ubuntu-24.04-cuda", "baremetal": "ubuntu-24.04-baremetal"}
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


def _keys(tenant_id: UUID, wanted: tuple[UUID, ...]) -> tuple[dict[UUID, str], tuple[str, ...]]:
    if not wanted:
        return {}, ()
    rows = SshKey.objects.filter(tenant_id=tenant_id, pk__in=wanted)
    found = {key.pk: key.public_key for key in rows}
    return found, tuple(str(key) for key in wanted if key not in found)


def item_of(*, tenant_id: UUID, project_id: UUID, order: AllocationOrder, actor: Actor) -> Item:
    """Read the facts, decide, and keep both with what is to be placed.

    Raises SkuUnknown or InvalidRequest for an order that cannot be understood.
    """
    who = authority(tenant_id=tenant_id, project_id=project_id, sku=order.sku)
    if who is None:
        raise SkuUnknown(
            f"There is no SKU {order.sku!r}.",
            errors=(FieldError("/sku", "unknown", "no SKU of this name"),),
        )
    allocation_id = ids.new_id()
    size = _size(order, who)
    image = order.image or DEFAULT_IMAGES[who.shape]
    image_known = Image.objects.filter(
        name=image, shapes__contains=[who.shape], retired_at__isnull=True
    ).exists()
    keys, unknown = _keys(tenant_id, order.ssh_key_ids)
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
        image_known=image_known,
        keys_unknown=unknown,
    )
    name = _name(order, who, allocation_id)
    return Item(
        authority=who,
        facts=facts,
        verdict=decide(facts),
        want=Want(size, who.exclusive_nic and size != WHOLE_NODE),
        project_id=project_id,
        name=name,
        image=image,
        ssh_keys=tuple(keys.values()),
        spec={
            "name": name,
            "image": image,
            "ssh_keys": [str(key) for key in order.ssh_key_ids],
            "tier": order.tier,
        },
        wait=order.wait,
        actor=actor,
        request_id=ids.new_id(),
        run_id=ids.new_id(),
        allocation_id=allocation_id,
    )


def _request_row(item: Item, **state: Any) -> AdmissionRequest:
    who = item.authority
    return AdmissionRequest.objects.create(
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
        **state,
    )


def _decision_row(item: Item, verdict: str, code: str, gates: list[dict[str, Any]]) -> Decision:
    who = item.authority
    return Decision.objects.create(
        pk=item.decision_id,
        tenant_id=who.tenant_id,
        request_id=item.request_id,
        verdict=verdict,
        code=code,
        gates=gates,
        envelope_version=who.quota.version if who.quota else 0,
        digest=item.facts.digest(),
    )


def _capacity_refusal(error: ProductError) -> dict[str, Any]:
    return Gate("capacity", False, error.code, error.detail, error.facts).as_json()


@transaction.atomic
def deny(item: Item, error: ProductError, *, refused_at_capacity: bool) -> ProductError:
    """Keep a refused request with its decision and event; the error is to be raised after."""
    if item.verdict.gates and not item.facts.project_known:
        return NotFound()
    gates = [gate.as_json() for gate in item.verdict.gates]
    if refused_at_capacity:
        gates.append(_capacity_refusal(error))
    request = _request_row(item)
    decision = _decision_row(item, "deny", error.code, gates)
    advance(
        request,
        "deny",
        actor=item.actor,
        reason=error.code,
        changes={"code": error.code, "detail": error.detail},
        facts={"decision": str(decision.pk), **error.facts},
    )
    error.facts = {**error.facts, "decision": str(decision.pk), "request": str(request.pk)}
    return error.kept()


@transaction.atomic
def queue(item: Item, error: ProductError) -> tuple[AdmissionRequest, Decision]:
    """Let an authorised request wait for capacity, with its durable run."""
    request = _request_row(item, run_id=item.run_id)
    gates = [*(gate.as_json() for gate in item.verdict.gates), _capacity_refusal(error)]
    decision = _decision_row(item, "wait", "waiting_for_capacity", gates)
    workflow.start(
        "allocation.create",
        subject_kind=QUEUED_SUBJECT,
        subject_id=request.pk,
        tenant_id=item.authority.tenant_id,
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
        facts={"pool": item.authority.pool, "band": item.authority.band},
    )
    return request, decision


def verdict_error(verdict: Verdict, make: Any) -> ProductError | None:
    """The refusing gate as its declared error, or None when every gate let it through."""
    gate = verdict.refusal
    if gate is None:
        return None
    error: ProductError = make(gate.code, gate.detail, **gate.facts)
    return error
