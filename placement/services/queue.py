"""Who waits, and who goes next?  The pool's cycle over admission's queue."""

from __future__ import annotations

from uuid import UUID

from django.db import DatabaseError, transaction

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel import notify, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError, error_for
from placement.domain.order import AllocationOrder
from placement.services import requests
from placement.services.bundle import Item
from placement.services.engine import Placed, place_many

BATCH = 64
CYCLE = Actor(kind="system", id="cycle", name="platform/cycle", operator=True)


def _item(row: AdmissionRequest) -> Item | ProductError:
    """The waiting request with today's facts: authority is checked again."""
    order = AllocationOrder(
        sku=row.sku.name,
        slots=row.slots or None,
        name=row.spec.get("name", ""),
        image=row.spec.get("image", ""),
        ssh_key_ids=tuple(UUID(key) for key in row.spec.get("ssh_keys", [])),
        wait=True,
        tier=row.spec.get("tier", ""),
    )
    try:
        item = requests.item_of(
            tenant_id=row.tenant_id, project_id=row.project_id, order=order, actor=CYCLE
        )
    except ProductError as error:
        return error
    refused = requests.verdict_error(item.verdict, error_for)
    if refused is not None:
        return refused
    run_id = row.run_id
    assert run_id is not None
    return Item(
        authority=item.authority,
        facts=item.facts,
        verdict=item.verdict,
        want=item.want,
        project_id=item.project_id,
        name=item.name,
        image=item.image,
        ssh_keys=item.ssh_keys,
        spec=row.spec,
        wait=True,
        actor=CYCLE,
        request_id=row.pk,
        run_id=run_id,
        queued=True,
        allocation_id=item.allocation_id,
        decision_id=item.decision_id,
    )


@transaction.atomic
def cycle_run(pool: str, *, limit: int = BATCH) -> int:
    """One cycle of one pool: heads in authority order, decide, place, commit. Placed count.

    What does not fit keeps its place with its reason. Lock order: queue rows, nodes, counters.
    """
    heads = list(
        AdmissionRequest.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .select_related("sku")
        .filter(state=RequestState.QUEUED, pool=pool)
        .order_by("band", "queued_at", "id")[:limit]
    )
    items: list[tuple[AdmissionRequest, Item]] = []
    for row in heads:
        made = _item(row)
        if isinstance(made, ProductError):
            AdmissionRequest.objects.filter(pk=row.pk).update(code=made.code, detail=made.detail)
        else:
            items.append((row, made))
    placed = 0
    try:
        results = place_many([item for _, item in items])
    except ProductError:
        results = {}
        for i, (_, item) in enumerate(items):
            try:
                results[i] = place_many([item])[0]
            except ProductError as error:
                AdmissionRequest.objects.filter(pk=item.request_id).update(
                    code=error.code, detail=error.detail
                )
    for i, (row, item) in enumerate(items):
        result = results.get(i)
        if isinstance(result, Placed):
            placed += 1
            notify.publish(workflow.topic_of(item.run_id))
        elif result is not None and (row.code, row.detail) != (
            "waiting_for_capacity",
            result.error.detail,
        ):
            AdmissionRequest.objects.filter(pk=row.pk).update(
                code="waiting_for_capacity", detail=result.error.detail
            )
    return placed


def cycle_now(pool: str) -> None:
    """Let those who wait go first; a cycle that fails costs the caller nothing."""
    try:
        with transaction.atomic():
            cycle_run(pool)
    except (DatabaseError, ProductError):
        return


def cycle_sweep() -> int:
    """Run a cycle for every pool in which somebody waits."""
    pools = (
        AdmissionRequest.objects.filter(state=RequestState.QUEUED)
        .values_list("pool", flat=True)
        .distinct()
    )
    return sum(cycle_run(pool) for pool in list(pools))
