"""Which moves would make room for a large request, and how are they made?  Off unless allowed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from gpuaas.kernel import clock, errors, events, ids, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.models import WorkflowRun
from placement.defrag_errors import DefragOff, DefragPlanStale, NoDefragPlan
from placement.domain.defrag import Budget, MovePlan, NoMoves
from placement.domain.fit import Want
from placement.domain.spans import indices
from placement.domain.stranding import Sold
from placement.models import Defragmentation, DefragPolicy, Node, NodeFamily, Pool
from placement.services.bundle import Item
from placement.services.defrag_search import moves_searched
from placement.services.nodes import locked, need_reason, refold
from placement.services.queue import head_named
from placement.snapshots import ANYWHERE, Target
from placement.snapshots.movable import Movable, Standing
from placement.snapshots.stranding import sold_now

KIND = "placement.defragment"
MOST_MOVES, MOST_LOST_MILLI = 16, 1_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One move as people see it. ``lost_milli`` is in thousandths of a GPU-hour."""

    allocation: str
    name: str
    tenant: str
    workload: str
    source: str
    leaves: list[int]
    target: str
    takes: list[int]
    lost_milli: int

    def as_json(self) -> dict[str, Any]:
        """As it is kept with the run and goes over the wire."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Picture:
    """One host before and after: of each slot *free*, *held*, *leaving* or *arriving*."""

    host: str
    before: list[str]
    after: list[str]

    @property
    def states(self) -> tuple[list[str], list[str]]:
        """Before, then after."""
        return self.before, self.after


@dataclass(frozen=True, slots=True)
class DefragPlan:
    """What would be moved to make room for ``slots`` of a product; 0 is a whole host."""

    sku: str
    slots: int
    pool: str
    enabled: bool
    budget: Budget
    host: str
    steps: list[Step]
    pictures: list[Picture]
    digest: str
    fits_already: bool
    decided: bool
    least: int | None
    movable: int
    fewest: bool = True
    """Whether it is proven that no plan has fewer moves."""
    hosts_looked_at: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """How many allocations are not moved, by the code of why."""

    @property
    def possible(self) -> bool:
        """Whether there is a plan, be it of no moves at all."""
        return bool(self.digest)

    @property
    def lost_milli(self) -> int:
        """Lost work of all moves, in thousandths of a GPU-hour."""
        return sum(step.lost_milli for step in self.steps)

    @property
    def said(self) -> str:
        """In a sentence."""
        if self.fits_already:
            return "There is room already: nothing has to be moved."
        if self.possible:
            proven = (
                ""
                if self.fewest
                else (f" Not proven fewest: {self.hosts_looked_at} hosts were looked at, not all.")
            )
            return (
                f"{len(self.steps)} moves make room on {self.host}, at a loss of "
                f"{self.lost_milli / 1000:g} GPU-hours.{proven}"
            )
        if not self.decided:
            return "No plan was found in the time that a plan may take."
        if self.least is None:
            return "What may be moved is too little on every host."
        if self.least > self.budget.moves:
            return f"It takes {self.least} moves at least; {self.budget.moves} are allowed."
        return "No moves within the budget make the room: nothing else has a place for them."


def policy_of(pool: Pool) -> DefragPolicy:
    """The pool's policy; without a row one that allows nothing, not saved."""
    return DefragPolicy.objects.filter(pool=pool).first() or DefragPolicy(pool=pool, version=0)


@transaction.atomic
def policy_set(
    *,
    pool: str,
    enabled: bool,
    moves: int,
    lost_milli: int,
    from_hour: int,
    until_hour: int,
    reason: str,
    actor: Actor,
) -> DefragPolicy:
    """Allow or forbid moves in a pool, with the budget of one run and its hours (UTC).

    Raises NotFound for the pool, InvalidRequest naming the field.
    """
    why = need_reason(reason)
    found = Pool.objects.filter(name=pool).first()
    if found is None:
        raise errors.NotFound
    given = {"moves": moves, "lost_milli": lost_milli, "from_hour": from_hour}
    given |= {"until_hour": until_hour}
    ranges = {"moves": (1, MOST_MOVES), "lost_milli": (0, MOST_LOST_MILLI)}
    for name, value in given.items():
        low, high = ranges.get(name, (0, 23))
        if not low <= value <= high:
            raise errors.InvalidRequest.of(name, "out_of_range", f"{low} to {high}")
    row = DefragPolicy.objects.select_for_update().filter(pool=found).first()
    names = ("enabled", *given)
    before = None if row is None else {name: getattr(row, name) for name in names}
    row = row or DefragPolicy(pool=found, version=0)
    row.enabled = enabled
    for name, value in given.items():
        setattr(row, name, value)
    row.version += 1
    row.save()
    events.record(
        kind="placement.defragpolicy.set",
        subject=row,
        actor=actor,
        before=before,
        after={"pool": pool, "enabled": enabled, **given},
        reason=why,
    )
    return row


def in_window(policy: DefragPolicy, hour: int) -> bool:
    """Whether an hour of the day is within the policy's; equal ends are the whole day."""
    start, end = policy.from_hour, policy.until_hour
    if start == end:
        return True
    return start <= hour < end if start < end else hour >= start or hour < end


def defrag_plan(
    *,
    sku: str,
    slots: int | None = None,
    moves: int | None = None,
    lost_milli: int | None = None,
    request: UUID | None = None,
) -> DefragPlan:
    """What would be moved to make room for a size (the largest sold unless given). Writes nothing.

    For a ``request`` that waits it is room for just that: its size, its terms, where it has to run.
    The budget is the pool's, or less. Raises NotFound for the SKU or its home, InvalidRequest.
    """
    (pool_name, family_name), product = next(iter(sold_now(sku)), (("", ""), None))
    pool = Pool.objects.filter(name=pool_name).first()
    family = NodeFamily.objects.filter(name=family_name).first()
    if product is None or pool is None or family is None:
        raise errors.NotFound
    head = None if request is None else _named(request, sku, slots)
    size = _size(product, slots, family.slots) if head is None else head.want.slots
    policy = policy_of(pool)
    budget = Budget(
        min(policy.moves, moves if moves is not None else policy.moves),
        min(policy.lost_milli, lost_milli if lost_milli is not None else policy.lost_milli),
    )
    want = Want(size, product.exclusive_nic, product.terms) if head is None else head.want
    near = head.where.near if head is not None and head.where is not None else ANYWHERE
    search = moves_searched(Target(pool.pk, family.pk, family.slots, near), want, budget)
    found, known = search.found, search.known
    plan = found if isinstance(found, MovePlan) else None
    none = found if isinstance(found, NoMoves) else None
    by_key = {str(one.id): one for one in search.movable}
    return DefragPlan(
        sku=sku,
        slots=size,
        pool=pool.name,
        enabled=policy.enabled,
        budget=budget,
        host=known[plan.host].name if plan else "",
        steps=[_step(move, by_key[move.key], known) for move in plan.moves] if plan else [],
        pictures=_pictures(plan, known) if plan else [],
        digest=_digest(plan, request) if plan else "",
        fits_already=plan is not None and not plan.moves,
        decided=none is None or (none.decided and search.whole),
        least=none.least if none else None,
        movable=search.pieces,
        fewest=search.whole or (plan is not None and not plan.moves),
        hosts_looked_at=search.looked_at,
        left_out=search.left_out,
    )


def _named(request: UUID, sku: str, slots: int | None) -> Item:
    """The request that waits for room. Raises InvalidRequest, or why it may not be placed now."""
    head = head_named(request)
    if head is None or head.item is None:
        raise errors.InvalidRequest.of("request", "unknown", "no request of this id waits for room")
    if head.refused is not None:
        raise head.refused
    item = head.item
    if item.authority.sku != sku:
        raise errors.InvalidRequest.of(
            "sku", "does_not_match", f"the request is for {item.authority.sku}"
        )
    if item.want.part is not None or item.facts.replicas > 1:
        raise errors.InvalidRequest.of(
            "request", "not_allowed", "room is made for one of slots or a host"
        )
    if slots not in (None, item.want.slots):
        raise errors.InvalidRequest.of(
            "slots", "does_not_match", f"the request is for {item.want.slots}"
        )
    return item


def _size(product: Sold, slots: int | None, host: int) -> int:
    if product.whole:
        if slots not in (None, 0, host):
            raise errors.InvalidRequest.of(
                "slots", "not_allowed", "this is sold by the host: leave slots out"
            )
        return 0
    most = min(product.most, host)
    size = most if slots is None else slots
    if not product.least <= size <= most:
        raise errors.InvalidRequest.of("slots", "out_of_range", f"{product.least} to {most}")
    return size


def _step(move: Any, one: Movable, known: dict[int, Standing]) -> Step:
    return Step(
        allocation=str(one.id),
        name=one.name,
        tenant=one.tenant,
        workload=one.workload,
        source=known[move.source].name,
        leaves=indices(move.leaves),
        target=known[move.target].name,
        takes=indices(move.takes),
        lost_milli=move.lost,
    )


def _pictures(plan: MovePlan, known: dict[int, Standing]) -> list[Picture]:
    """The hosts that a plan touches, the one with the room first."""
    nums = dict.fromkeys([plan.host])
    for move in plan.moves:
        nums |= dict.fromkeys([move.source, move.target])
    return [_picture(known[num], plan) for num in nums]


def _digest(plan: MovePlan, request: UUID | None) -> str:
    """Of the moves, and of whom they are for: a confirmation is for both."""
    if request is None:
        return plan.digest
    return hashlib.sha256(f"{plan.digest} {request}".encode()).hexdigest()


def _picture(host: Standing, plan: MovePlan) -> Picture:
    place = host.place
    leaving = arriving = 0
    for move in plan.moves:
        leaving |= move.leaves if move.source == place.num else 0
        arriving |= move.takes if move.target == place.num else 0
    before, after = [], []
    for k in range(place.slot_count):
        free, goes, comes = (mask >> k & 1 for mask in (place.free_mask, leaving, arriving))
        before.append("leaving" if goes else "free" if free else "held")
        stays = not goes and not free
        after.append("arriving" if comes else "held" if stays else "free")
    return Picture(host.name, before, after)


def defrag_run(
    *,
    sku: str,
    seen: str,
    reason: str,
    actor: Actor,
    slots: int | None = None,
    moves: int | None = None,
    lost_milli: int | None = None,
    request: UUID | None = None,
) -> WorkflowRun:
    """Begin the moves of the plan that was looked at (``seen`` is its digest).

    From now until it ends the host takes nothing new, so that nobody else gets the room. When it
    opens, the ``request`` that it was made for is placed before all others. Raises DefragOff,
    NoDefragPlan, DefragPlanStale, OperationInProgress.
    """
    why = need_reason(reason)
    plan = defrag_plan(sku=sku, slots=slots, moves=moves, lost_milli=lost_milli, request=request)
    pool = Pool.objects.get(name=plan.pool)
    refuse_unless_on(pool)
    if not plan.possible or plan.fits_already:
        raise NoDefragPlan(plan.said, least=plan.least, moves_allowed=plan.budget.moves)
    if plan.digest != seen:
        raise DefragPlanStale(f"The plan now: {plan.said}", seen=seen, digest=plan.digest)
    run_id = ids.new_id()
    try:
        with transaction.atomic():
            host = Node.objects.get(name=plan.host)
            row = Defragmentation.objects.create(
                pool=pool,
                host=host,
                sku=sku,
                slots=plan.slots,
                moves=[_planned(step) for step in plan.steps],
                digest=plan.digest,
                for_request=request,
                reason=why,
                actor=actor.as_json(),
                run_id=run_id,
            )
            refold(locked(host.pk))
            events.record(
                kind="placement.defragmentation.begin",
                subject=row,
                actor=actor,
                reason=why,
                facts={
                    "host": plan.host,
                    "sku": sku,
                    "slots": plan.slots,
                    "moves": len(plan.steps),
                    "request": str(request) if request else None,
                },
            )
            return workflow.start(
                KIND,
                subject_kind="placement.defragmentation",
                subject_id=row.pk,
                tenant_id=None,
                input={"defragmentation": str(row.pk)},
                actor=actor,
                run_id=run_id,
            )
    except IntegrityError as raced:
        if not is_taken(raced):
            raise
        running = Defragmentation.objects.filter(pool=pool, ended_at__isnull=True).first()
        raise errors.OperationInProgress(
            "Another defragmentation of the pool has not ended.",
            operation=str(running.run_id) if running else "",
        ) from raced


def _planned(step: Step) -> dict[str, Any]:
    """A move as the run keeps it: its request is written here when it begins."""
    return {**step.as_json(), "request": None, "state": "planned"}


def refuse_unless_on(pool: Pool) -> None:
    """Raises DefragOff unless the pool's policy allows moves at this hour."""
    policy = policy_of(pool)
    if not policy.enabled:
        raise DefragOff(f"Moves in {pool.name} are not allowed.", pool=pool.name)
    hour = clock.db_now().hour
    if not in_window(policy, hour):
        raise DefragOff(
            f"Moves in {pool.name} are allowed from {policy.from_hour} to {policy.until_hour} "
            f"o'clock UTC; it is {hour}.",
            pool=pool.name,
            from_hour=policy.from_hour,
            until_hour=policy.until_hour,
        )
