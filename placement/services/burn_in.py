"""How is a host burnt in by its own agent, and what becomes of the result?

The host is taken out of placement for as long as the task is open, whoever ends the drain that
automation sets, and while the host says that its load still runs. A result in time is evidence; no
result is none. One that is stopped (placement.services.burn_in_stop) stays open until its load is
shown to be over.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Min, Q, QuerySet

from gpuaas.kernel import clock, errors, events, ids, sweeping
from gpuaas.kernel.actor import Actor, system
from placement.domain.readiness import FAIL, PASS, Item
from placement.errors import NodeStateRefused
from placement.models import Claim, Node, NodeDrain, NodeTask, Slot
from placement.node_tasks import MOST_BURN_IN_S, BurnInResult, TaskKind
from placement.services.agents import node_actor
from placement.services.capabilities import capabilities_judge, evidence_keep
from placement.services.nodes import locked, need_reason, node_drain, node_undrain, refold
from placement.states import LIVE, NodeState, SlotState, TaskState

BURN_IN: Final = system("burn-in")
LEAST_S: Final = 60
VALID_S: Final = 180 * 86_400
"""Seconds for which a result is good at most; the family's terms may ask for a newer one."""
TAKEN_WITHIN_S: Final = 900
"""A host that does not take the task within this many seconds is not burnt in by it."""
MOST_ATTEMPTS: Final = 3
BUSY_LEAST_S: Final = 5
BUSY_MOST_S: Final = 60
"""Between these many seconds, doubling, a host that is busy with an earlier load is asked again."""
OPEN: Final = (TaskState.PENDING, TaskState.LEASED)
STOPPING: Final = Q(state=TaskState.CANCELLED, ended_at__isnull=True)
_NOT_YET: Final = (NodeState.ENROLLING, NodeState.INSPECTING, NodeState.RETIRED)


def limit_s(duration_s: int) -> int:
    """Seconds after which a burn-in of this duration is killed: a tenth more, and ten minutes."""
    return duration_s + duration_s // 10 + 600


@transaction.atomic
def burn_in_order(*, node_id: UUID, duration_s: int, reason: str, actor: Actor) -> NodeTask:
    """Have the host put all its GPUs under load for so many seconds. Repeating it is one.

    Raises NodeStateRefused for a host that is not discovered, or holds live claims: drain it and
    wait until they have ended.
    """
    why = need_reason(reason)
    if not LEAST_S <= duration_s <= MOST_BURN_IN_S:
        text = f"{LEAST_S} to {MOST_BURN_IN_S} seconds"
        raise errors.InvalidRequest(
            f"duration_s: {text}.",
            errors=(errors.FieldError("/duration_s", "out_of_range", text),),
        )
    node = locked(node_id)
    if node.state in _NOT_YET:
        raise NodeStateRefused(f"{node.name} is {node.state}.", state=node.state)
    known = burn_in_open(node).first()
    if known is not None and known.state == TaskState.CANCELLED:
        raise NodeStateRefused(
            f"A burn-in of {node.name} is being stopped: wait until its load is over.",
            state=node.state,
        )
    if known is not None:
        return known
    held = Claim.objects.filter(node_num=node.num, state__in=LIVE).count()
    if held:
        raise NodeStateRefused(
            f"{node.name} holds {held} live claims: drain it, and burn it in when they have ended.",
            state=node.state,
            claims=held,
        )
    slots = Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED).order_by("index")
    gpus = [slot.gpu_uuid for slot in slots if slot.gpu_uuid]
    if not gpus:
        raise NodeStateRefused(
            f"{node.name} has no GPU whose UUID is known: discover it first.", state=node.state
        )
    limit = limit_s(duration_s)
    task = NodeTask.objects.create(
        id=ids.new_id(),
        node=node,
        kind=TaskKind.BURN_IN,
        params={"gpus": gpus, "duration_s": duration_s, "limit_s": limit},
        max_attempts=MOST_ATTEMPTS,
        deadline_at=clock.db_now() + timedelta(seconds=TAKEN_WITHIN_S + limit),
    )
    node_drain(node_id=node.pk, reason=f"burn-in: {why}"[:500], actor=BURN_IN)
    refold(locked(node.pk))
    events.record(
        kind="placement.node.burn_in",
        subject=node,
        actor=actor,
        reason=why,
        facts={"task": str(task.pk), "gpus": len(gpus), "duration_s": duration_s},
    )
    return task


def burn_in_open(node: Node) -> QuerySet[NodeTask]:
    """The burn-in that may have the host under load: asked for, or stopped and not yet over."""
    rows = NodeTask.objects.filter(Q(state__in=OPEN) | STOPPING, node=node)
    return rows.filter(kind=TaskKind.BURN_IN)


def burn_in_taken(task: NodeTask, result: BurnInResult) -> None:
    """Keep what a burn-in has found, as evidence about its host, and judge the host anew."""
    bad = [gpu for gpu in result.gpus if not gpu.ok]
    told = "; ".join(f"{gpu.uuid}: {gpu.detail or 'did not stand it'}" for gpu in bad)
    words = told or result.detail or f"{len(result.gpus)} GPUs stood {result.ran_s} seconds"
    facts = {
        "task": str(task.pk),
        "method": result.method,
        "ran_s": result.ran_s,
        "gpus": {gpu.uuid: gpu.ok for gpu in result.gpus},
    }
    _keep(task, str(result.verdict), words, facts)


def burn_in_failed(task: NodeTask, code: str, detail: str) -> None:
    """What follows when a burn-in ended without a result: only one that hung says anything."""
    if code == "burn_in_overdue":
        _keep(task, FAIL, detail, {"task": str(task.pk), "code": code})


def burn_in_waits(task: NodeTask, code: str, now: datetime) -> int | None:
    """Seconds until a burn-in whose host is still busy with another load is asked for again.

    It uses up no attempt and ends with the task's deadline; None where it does not wait. Each
    answer so far has taken an epoch and given its attempt back: that is how they are counted.
    """
    if task.kind != TaskKind.BURN_IN or code != "hook_busy":
        return None
    waits: int = min(BUSY_MOST_S, BUSY_LEAST_S << min(task.lease_epoch - task.attempt, 8))
    open_still = task.deadline_at is not None and now + timedelta(seconds=waits) < task.deadline_at
    return waits if open_still else None


def _keep(task: NodeTask, verdict: str, reason: str, facts: dict[str, object]) -> None:
    node, now = locked(task.node_id), clock.db_now()
    ends = now + timedelta(seconds=VALID_S) if verdict == PASS else None
    item = Item("burn_in", verdict, now, source="hook", reason=reason, expires_at=ends, facts=facts)
    evidence_keep(node, [item], actor=node_actor(node))
    capabilities_judge(node)
    refold(node)


@transaction.atomic
def burn_in_over(node_id: UUID) -> bool:
    """Lift the drain of a host that no burn-in is open for any more; whether there was one.

    Where somebody else has taken the drain over, or ended it, the open task alone has kept the
    host closed: it is folded anew all the same. The node is locked before it is asked whether a
    task is open, since another may be ordered meanwhile.
    """
    node = locked(node_id)
    if burn_in_open(node).exists():
        return False
    ours = NodeDrain.objects.filter(
        node=node, slot_index=None, ended_at__isnull=True, owner=BURN_IN.as_json()
    )
    if not ours.exists():
        refold(node)
        return False
    node_undrain(node_id=node_id, reason="the burn-in is over", actor=BURN_IN)
    return True


def burn_in_sweep() -> int:
    """Lift what burn-ins have left drained, however they ended. Returns how many hosts."""
    return sweeping.each("placement.burn_ins", _drained_hosts, burn_in_over)


def _drained_hosts(resting: Collection[UUID]) -> list[UUID]:
    drains = NodeDrain.objects.filter(ended_at__isnull=True, owner=BURN_IN.as_json())
    still = NodeTask.objects.filter(Q(state__in=OPEN) | STOPPING, kind=TaskKind.BURN_IN)
    drains = drains.exclude(node_id__in=still.values("node_id")).exclude(node_id__in=resting)
    found = drains.values("node_id").annotate(since=Min("created_at")).order_by("since", "node_id")
    return [row["node_id"] for row in found[:200]]
