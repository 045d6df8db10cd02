"""Who waits, and who goes next?  The pool's cycle over admission's queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from django.db import connection, transaction

from admission.domain.decide import Quota
from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel import notify, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ConcurrentUpdate, ProductError, error_for
from placement.domain.order import AllocationOrder
from placement.services import requests
from placement.services.bundle import Item
from placement.services.engine import Lost, Placed, Unplaced, place_many
from placement.snapshots import Ask, Look, look_many

BATCH = 64
ROUNDS = 4
CYCLE = Actor(kind="system", id="cycle", name="platform/cycle", operator=True)
WAITS = "waiting_for_capacity"

_HEADS: Final = """
SELECT r.id, r.tenant_id, r.project_id, s.name AS sku_name, r.slots, r.spec, r.run_id, r.code,
       r.detail
  FROM admission_admissionrequest r
  JOIN tenants_sku s ON s.id = r.sku_id
  JOIN kernel_workflowrun w ON w.id = r.run_id
 WHERE r.state = 'queued' AND r.pool = %s
 ORDER BY r.band, r.queued_at, r.id LIMIT %s
"""
_LOCK: Final = " FOR NO KEY UPDATE OF r, w SKIP LOCKED"


@dataclass
class Head:
    """A waiting request, and what came of deciding it again."""

    row: AdmissionRequest
    item: Item | ProductError


def _heads(pool: str, limit: int, *, lock: bool) -> list[AdmissionRequest]:
    """Who goes first; with ``lock``, without those somebody else has in hand.

    The run is locked with its request: whoever withdraws or ends a run locks it first.
    """
    sql = _HEADS + _LOCK if lock else _HEADS
    return list(AdmissionRequest.objects.raw(sql, [pool, limit]))


def _ask(row: AdmissionRequest) -> Ask:
    sku: str = row.sku_name  # type: ignore[attr-defined]  # a column of _HEADS
    order = AllocationOrder(
        sku=sku,
        slots=row.slots or None,
        name=row.spec.get("name", ""),
        image=row.spec.get("image", ""),
        ssh_key_ids=tuple(UUID(key) for key in row.spec.get("ssh_keys", [])),
        wait=True,
        tier=row.spec.get("tier", ""),
    )
    return Ask(row.tenant_id, row.project_id, order)


def _decided(rows: Sequence[AdmissionRequest]) -> list[Head]:
    """Authority is checked again, each request seeing what those before it take."""
    asks = [_ask(row) for row in rows]
    taken: dict[tuple[UUID, UUID], int] = {}
    heads = []
    for row, ask, met in zip(rows, asks, look_many(asks), strict=True):
        item = _item(row, ask, met, taken)
        if isinstance(item, Item):
            key = (item.authority.tenant_id, item.authority.class_id)
            taken[key] = taken.get(key, 0) + item.amount_milli
        heads.append(Head(row, item))
    return heads


def _item(
    row: AdmissionRequest, ask: Ask, met: Look | None, taken: dict[tuple[UUID, UUID], int]
) -> Item | ProductError:
    if met is not None and met.authority.quota is not None:
        who = met.authority
        more = taken.get((who.tenant_id, who.class_id), 0)
        if more:
            met = replace(met, authority=replace(who, quota=_used(met.authority.quota, more)))
    try:
        item = requests.item_of(ask, met, actor=CYCLE, queued=row)
    except ProductError as error:
        return error
    return requests.verdict_error(item.verdict, error_for) or item


def _used(quota: Quota, more: int) -> Quota:
    return replace(quota, used_milli=quota.used_milli + more)


def waiting(pool: str) -> list[Item]:
    """Those at the head of a pool's queue who may be placed, in order; nothing is locked."""
    heads = _decided(_heads(pool, BATCH, lock=False))
    return [head.item for head in heads if isinstance(head.item, Item)]


def cycle_run(pool: str, *, limit: int = BATCH) -> int:
    """Cycles of one pool until nothing was lost to others: how many were placed.

    Each round is a transaction of its own: heads in authority order, decide, place, commit.
    What does not fit keeps its place with its reason. Lock order: queue rows with their runs,
    nodes, counters. Inside a caller's transaction there is one round, since locks would pile
    up in another order.
    """
    placed = 0
    for _ in range(1 if connection.in_atomic_block else ROUNDS):
        count, again = _round(pool, limit)
        placed += count
        if not again:
            break
    return placed


@transaction.atomic
def _round(pool: str, limit: int) -> tuple[int, bool]:
    """One batch: how many were placed, and whether looking again may place more."""
    heads = _decided(_heads(pool, limit, lock=True))
    reasons = {h.row.pk: h.item for h in heads if isinstance(h.item, ProductError)}
    items = [h.item for h in heads if isinstance(h.item, Item)]
    try:
        results = place_many(items)
    except ConcurrentUpdate:
        results = [Lost() for _ in items]
    except ProductError as error:
        # Somebody of this tenant was faster; the others are placed by the next round.
        short = error.facts.get("tenant")
        results = [
            Unplaced(error) if str(i.authority.tenant_id) == short else Lost() for i in items
        ]
    placed = []
    for item, result in zip(items, results, strict=True):
        if isinstance(result, Placed):
            placed.append(workflow.topic_of(item.run_id))
        elif isinstance(result, Unplaced):
            reasons[item.request_id] = result.error
    notify.publish(*placed)
    _tell([h.row for h in heads], reasons)
    return len(placed), any(isinstance(result, Lost) for result in results)


def _tell(rows: Sequence[AdmissionRequest], reasons: dict[UUID, ProductError]) -> None:
    """Write down why each still waits, where that changed."""
    changed = []
    for row in rows:
        error = reasons.get(row.pk)
        if error is None:
            continue
        code = WAITS if error.code in ("sku_unavailable", "never_fits") else error.code
        if (row.code, row.detail) != (code, error.detail):
            row.code, row.detail = code, error.detail
            changed.append(row)
    AdmissionRequest.objects.bulk_update(changed, ["code", "detail"])


def cycle_sweep() -> int:
    """Run a cycle for every pool in which somebody waits."""
    pools = (
        AdmissionRequest.objects.filter(state=RequestState.QUEUED)
        .values_list("pool", flat=True)
        .distinct()
    )
    return sum(cycle_run(pool) for pool in list(pools))
