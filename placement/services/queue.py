"""Who waits, and who goes next?  The pool's cycle over admission's queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from admission.errors import WorkloadStateRefused
from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel import clock, notify, prepared, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ConcurrentUpdate, ProductError, error_for
from gpuaas.kernel.transitions import advance
from placement.domain.order import order_of_spec
from placement.models import Pool
from placement.services import requests
from placement.services.bundle import Item
from placement.services.engine import (
    Lost,
    Placed,
    Result,
    Unplaced,
    attempted,
    place_group,
    place_many,
)
from placement.services.intents import (
    change_renewed,
    intent_dropped,
    intent_locked,
    intent_taken,
)
from placement.services.spending import spend_told
from placement.services.standing import JOINS
from placement.snapshots import Ask, Look, look_many
from placement.snapshots.waiting import FIRST, After, Waiting, heads, named

log = logging.getLogger(__name__)

BATCH = 64
ROUNDS = 4
HOLD_AFTER_S = 60
"""How long smaller ones may pass (backfill) before a node is kept free for who waits."""
PAGES = 64
"""How many pages of the queue one cycle looks at."""
CYCLE = Actor(kind="system", id="cycle", name="platform/cycle", operator=True)

_TELL: Final = """
UPDATE admission_admissionrequest r SET code = x.code, detail = x.detail
  FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS x(id, code, detail)
 WHERE r.id = x.id
RETURNING 1
"""


@dataclass(frozen=True, slots=True)
class Head:
    """A waiting request decided again: the item, and why it may not be placed, if so.

    There is no item when the order itself cannot be understood any more.
    """

    row: Waiting
    item: Item | None
    refused: ProductError | None
    waits: bool = True

    @property
    def ready(self) -> bool:
        """Whether only capacity is asked about now."""
        return self.refused is None


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did: how many it placed, whether to look again, and where it ended.

    ``keepers`` fit nowhere and have waited long: a node is kept free for the first of them.
    ``passed`` fit nowhere, and their tenant's others on the page were refused as if they had.
    """

    placed: int
    again: bool
    after: After | None
    keepers: tuple[Item, ...] = ()
    passed: frozenset[UUID] = frozenset()


SAY_AGAIN_S = 60.0
_said_at: dict[tuple[str, str], float] = {}


def _ask(row: Waiting) -> Ask:
    order = order_of_spec(
        row.spec,
        sku=row.sku,
        slots=row.slots or None,
        name=row.spec.get("name", ""),
        wait=True,
        tier=row.spec.get("tier", ""),
        max_duration_s=row.spec.get("max_duration_s"),
        band=row.spec.get("band"),
    )
    return Ask(
        row.tenant_id,
        row.project_id,
        order,
        action=row.action,
        replicas=row.replicas,
        workload_id=row.workload_id,
        subject_id=row.subject_id,
        more={"kind": row.spec.get("kind", "lease"), "moves": row.spec.get("moves", [])},
    )


def _decided(rows: Sequence[Waiting], *, locked: bool = False) -> list[Head]:
    """Authority is checked again, each request seeing what those before it take."""
    gone: set[UUID] = set()
    if locked and any(row.action in JOINS for row in rows):
        rows, gone = _changes_renewed(rows)
    asks = [_ask(row) for row in rows]
    taken: dict[tuple[UUID, UUID], int] = {}
    heads = []
    for row, ask, met in zip(rows, asks, look_many(asks), strict=True):
        head = _head(row, ask, met, taken)
        if row.id in gone:
            refused = WorkloadStateRefused("Nothing of the workload stands any more.")
            head = replace(head, refused=refused, waits=False)
        if head.item is not None and head.ready:
            key = _purse(head.item)
            taken[key] = taken.get(key, 0) + head.item.facts.amount_milli
        heads.append(head)
    return heads


def _changes_renewed(rows: Sequence[Waiting]) -> tuple[list[Waiting], set[UUID]]:
    """The same requests, moves and more replicas as their workloads are now; and the moves of which
    nothing stands."""
    out, gone = [], set()
    for row in rows:
        if row.action in JOINS:
            request = AdmissionRequest.objects.select_related("workload").get(pk=row.id)
            if not change_renewed(request):
                gone.add(row.id)
            row = row._replace(replicas=request.replicas, spec=request.spec)
        out.append(row)
    return out, gone


def _head(row: Waiting, ask: Ask, met: Look | None, taken: dict[tuple[UUID, UUID], int]) -> Head:
    who = met.authority if met is not None else None
    more = taken.get((who.tenant_id, who.class_id), 0) if who is not None else 0
    try:
        item = requests.item_of(
            ask, met, actor=CYCLE, queued=row, holds=_has_waited_long(row), ahead_milli=more
        )
    except ProductError as error:
        return Head(row, None, error)
    gate = item.verdict.refusal
    refused = requests.verdict_error(item.verdict, error_for)
    return Head(row, item, refused, waits=gate is None or gate.waits)


def _has_waited_long(row: Waiting) -> bool:
    return (clock.now() - row.queued_at).total_seconds() >= HOLD_AFTER_S


def waiting(pool: str) -> list[Item]:
    """Those at the head of a pool's queue who may be placed, in order; nothing is locked."""
    decided = _decided(heads(pool, BATCH, lock=False))
    ready = [head.item for head in decided if head.item is not None and head.ready]
    return [item for lead in ready for item in requests.group_of(lead)]


def head_named(request_id: UUID) -> Head | None:
    """One request that waits for room, decided again; None of another. Nothing is locked."""
    rows = named(request_id)
    return _decided(rows)[0] if rows else None


@transaction.atomic
def place_first(request_id: UUID | None, *, after: Callable[[], None]) -> bool:
    """Do something that makes room, and place one waiting request before anybody sees the room.

    The request is locked first, then whatever ``after`` locks. Whether it was placed: not where
    it does not wait any more, a cycle has it in hand, or it does not fit after all.
    """
    rows = named(request_id, lock=True) if request_id is not None else []
    after()
    return bool(rows) and _tried(rows, (), several=_is_group(rows[0])).placed > 0


def cycle_run(pool: str, *, limit: int = BATCH) -> int:
    """Cycles of one pool through its queue, a page a round: how many requests were admitted.

    Each round is a transaction of its own: heads in authority order, decide, place, commit.
    What does not fit keeps its place with its reason, and those behind it have their turn: but
    for who has waited HOLD_AFTER_S, a node is kept free from them (``engine._plan``). A
    request for several allocations has a round of its own. Lock order: queue rows with their
    runs, nodes, counters. Inside a caller's transaction there is one round, since locks would
    pile up in another order.
    """
    placed, after, lost = 0, FIRST, 0
    keepers: tuple[Item, ...] = ()
    passed: frozenset[UUID] = frozenset()
    for _ in range(1 if connection.in_atomic_block else PAGES):
        done = _guarded(pool, limit, after, keepers, passed)
        placed += done.placed
        if done.again and lost < ROUNDS:
            lost += 1
            continue
        keepers = keepers or done.keepers
        if done.passed and not passed:
            # What these would have held is nobody's: their tenant's others have their turn.
            passed = done.passed
        elif done.after is None:
            break
        else:
            after, lost, passed = done.after, 0, frozenset()
    return placed


def _guarded(
    pool: str,
    limit: int,
    after: After,
    keepers: tuple[Item, ...],
    passed: frozenset[UUID] = frozenset(),
) -> Round:
    """A round; when it breaks, the same page one request at a time, passing over what breaks it.

    The database's own passing troubles (a deadlock, a lost connection) are raised.
    """
    try:
        return _round(pool, limit, after, keepers, passed)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if connection.in_atomic_block:
            raise
        log.exception("a round of pool %s broke: its requests are taken one by one", pool)
    placed, last = 0, after
    page = heads(pool, limit, lock=False, after=after)
    for row in page:
        try:
            placed += _round(pool, 1, last, keepers).placed
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("request %s breaks the cycle of pool %s: passed over", row.id, pool)
        last = row.place
    return Round(placed, False, last if len(page) == limit else None)


@transaction.atomic
def _round(
    pool: str,
    limit: int,
    after: After,
    keepers: tuple[Item, ...],
    passed: frozenset[UUID] = frozenset(),
) -> Round:
    """One page without those ``passed``: single allocations together, or one request for several
    alone."""
    rows = heads(pool, limit, lock=True, after=after)
    more = len(rows) == limit
    several = next((k for k, row in enumerate(rows) if _is_group(row)), None)
    if several is not None:
        kept = max(several, 1)
        more = more or len(rows) > kept
        rows = rows[:kept]
    if not rows:
        return Round(0, False, None)
    left = [row for row in rows if row.id not in passed]
    done = _tried(left, keepers, several=several == 0) if left else Round(0, False, None)
    return replace(done, after=rows[-1].place if more else None)


def _tried(rows: list[Waiting], keepers: tuple[Item, ...], *, several: bool) -> Round:
    """Decide on locked requests, place them, and write down why the others still wait."""
    decided = _decided(rows, locked=True)
    ready = [head.item for head in decided if head.item is not None and head.ready]
    place = _placed_group if several else _placed_singles
    results = place(ready, keepers)
    refused = {head.row.id: head.refused for head in decided if head.refused is not None}
    placed = []
    for item, result in zip(ready, results, strict=True):
        attempted(item, result)
        if isinstance(result, Placed):
            placed.append(item)
        elif isinstance(result, Unplaced):
            refused[item.request_id] = result.error
    # It locks the tenant's caps: in one order, since another pool's cycle may tell the same ones.
    for item in sorted(placed, key=lambda item: item.authority.tenant_id):
        spend_told(item, CYCLE)
    topics = [workflow.topic_of(item.run_id) for item in placed]
    notify.publish(*topics)
    _tell(decided, refused)
    again = any(isinstance(result, Lost) for result in results)
    both = zip(ready, results, strict=True)
    nowhere = [item for item, result in both if isinstance(result, Unplaced)]
    waits = tuple(item for item in nowhere if item.holds)
    return Round(len(topics), again, None, waits, _passed(decided, nowhere))


def _passed(decided: Sequence[Head], nowhere: Sequence[Item]) -> frozenset[UUID]:
    """Those that fit nowhere and by whose amounts others of the page may have been refused."""
    crowded = {_purse(head.item) for head in decided if head.item and head.refused is not None}
    return frozenset(item.request_id for item in nowhere if _purse(item) in crowded)


def _purse(item: Item) -> tuple[UUID, UUID]:
    """Whose quota it takes of, of which class."""
    return item.authority.tenant_id, item.authority.class_id


def _is_group(row: Waiting) -> bool:
    return row.replicas > 1 or row.workload_id is not None


def _placed_group(ready: Sequence[Item], keepers: Sequence[Item]) -> list[Result | Lost]:
    out: list[Result | Lost] = []
    for item in ready:
        try:
            with transaction.atomic():
                if item.workload_id is not None:
                    intent_locked(item.workload_id)  # before the nodes, as whoever changes it does
                result = place_group(requests.group_of(item), ahead=keepers)
                if isinstance(result, Placed) and item.workload_id is not None:
                    intent_taken(
                        item.workload_id,
                        item.action,
                        item.facts.replicas,
                        item.actor,
                        spec=item.spec,
                    )
        except ProductError as error:
            result = Unplaced(error)
        out.append(result)
    return out


def _placed_singles(items: Sequence[Item], keepers: Sequence[Item]) -> list[Result | Lost]:
    try:
        return place_many(items, ahead=keepers)
    except ConcurrentUpdate:
        return [Lost() for _ in items]
    except ProductError as error:
        # Somebody of this tenant was faster; the others are placed by the next round.
        short = error.facts.get("tenant")
        return [Unplaced(error) if str(i.authority.tenant_id) == short else Lost() for i in items]


def _tell(decided: Sequence[Head], refused: dict[UUID, ProductError]) -> None:
    """Write down why each still waits, where that changed; what can never be is refused."""
    changed: list[tuple[UUID, str, str]] = []
    for head in decided:
        row, error = head.row, refused.get(head.row.id)
        if error is None:
            continue
        if head.item is not None and not head.waits:
            _refuse(row, head.item, error)
            continue
        code = requests.waiting_code(error)
        if (row.code, row.detail) != (code, error.detail):
            changed.append((row.id, code, error.detail))
    if changed:
        prepared.rows(_TELL, [list(column) for column in zip(*changed, strict=True)])


def _refuse(row: Waiting, item: Item, error: ProductError) -> None:
    """A waiting request that no waiting can help: told at once; its run ends with it."""
    decision = requests.keep_decision(item, "deny", error.code, error, at_capacity=False)
    fresh = AdmissionRequest.objects.get(pk=row.id)
    advance(
        fresh,
        "deny",
        actor=CYCLE,
        reason=error.code,
        changes={"code": error.code, "detail": error.detail},
        facts={"decision": str(decision.pk), **error.facts},
    )
    intent_dropped(row.workload_id, "denied", error.code, CYCLE)
    notify.publish(workflow.topic_of(item.run_id))


def cycle_sweep() -> int:
    """Run a cycle for every pool in which somebody waits.

    A pool whose cycle breaks does not stop the others. A lost connection is raised, once: no
    other pool could be served over it either.
    """
    pools = (
        AdmissionRequest.objects.filter(state=RequestState.QUEUED)
        .exclude(pool="")  # an approval waits for a person
        .values_list("pool", flat=True)
        .distinct()
    )
    placed = 0
    for pool in list(pools):
        try:
            placed += cycle_run(pool)
        except Exception as trouble:
            if connection.in_atomic_block or not connection.is_usable():
                raise
            _broken(pool, trouble)
    return placed


def _broken(pool: str, trouble: Exception) -> None:
    """Keep that a pool's cycle broke, where the metrics find it, and say so now and then."""
    name = type(trouble).__name__
    Pool.objects.filter(name=pool).update(
        cycles_broken=F("cycles_broken") + 1, cycle_trouble=name, cycle_broke_at=Now()
    )
    now = clock.monotonic()
    if now - _said_at.get((pool, name), -SAY_AGAIN_S) >= SAY_AGAIN_S:
        _said_at[pool, name] = now
        log.error("the cycle of pool %s broke; the others go on", pool, exc_info=trouble)
