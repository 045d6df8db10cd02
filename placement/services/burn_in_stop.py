"""How is a burn-in stopped that is open or runs, and when is its host free again?

The task ends at once, with its epoch: what comes of it is kept beside it and is no evidence. Its
load may go on meanwhile, with or without the agent that began it. So the host stays closed, and is
told with every poll what is not wanted any more, until it has shown that the load is over: by its
word that it ended it, by a result, or by a reboot. A host that never says so is closed until the
load must have reached its own limit, and then as long as it reports one.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, IntegerField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from gpuaas.kernel import clock, events, sweeping
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.transitions import advance
from placement.errors import NodeStateRefused
from placement.models import Node, NodeTask
from placement.node_tasks import FailureCode, TaskKind, Unwanted
from placement.services.burn_in import STOPPING, burn_in_open, burn_in_over
from placement.services.nodes import locked, need_reason, refold
from placement.states import TaskState

WATCH: Final = system("burn-in")
BY_HOST, BY_BOOT, BY_LIMIT = "the host", "a new boot", "its own limit"
_ENDED: Final = (FailureCode.CANCELLED, FailureCode.BURN_IN_OVERDUE)
"""Failures with which a host says that the load has ended; after any other it may go on."""


@transaction.atomic
def burn_in_stop(*, node_id: UUID, reason: str, actor: Actor) -> NodeTask:
    """Stop the host's burn-in. Repeating it is one; the task's end tells when the load is over.

    Raises NodeStateRefused where none is open.
    """
    why = need_reason(reason)
    node = locked(node_id)
    task = burn_in_open(node).select_for_update(no_key=True).first()
    if task is None:
        raise NodeStateRefused(
            f"{node.name} has no burn-in that is open or runs.", state=node.state
        )
    if task.state == TaskState.CANCELLED:
        return task
    begun = task.lease_epoch > 0
    task = advance(
        task,
        "cancel",
        actor=actor,
        reason=why,
        changes={
            "lease_epoch": task.lease_epoch + 1,
            "lease_until": None,
            "error": {"code": "burn_in_stopped", "detail": why},
            "ended_at": None if begun else clock.db_now(),
        },
    )
    events.record(
        kind="placement.node.burn_in_stop",
        subject=node,
        actor=actor,
        reason=why,
        facts={"task": str(task.pk), "begun": begun},
    )
    if not begun:
        burn_in_over(node.pk)
    refold(locked(node.pk))
    return task


def burn_in_unwanted(node: Node) -> tuple[Unwanted, ...]:
    """The burn-ins of a host that were stopped, and whose load is not known to be over."""
    rows = NodeTask.objects.filter(STOPPING, node=node, kind=TaskKind.BURN_IN).order_by("pk")
    return tuple(Unwanted(str(task.pk), task.lease_epoch) for task in rows[:16])


def burn_in_ends(task: NodeTask, epoch: int, failure: str | None) -> None:
    """Take a late word about a stopped burn-in; the node's row is locked.

    failure None: a result, which a hook gives at its end. Only the last lease's word counts, or
    the answer to what is not wanted.
    """
    stopping = task.kind == TaskKind.BURN_IN and task.state == TaskState.CANCELLED
    if not stopping or task.ended_at is not None or epoch < task.lease_epoch - 1:
        return
    if failure is None or failure in _ENDED:
        _load_over(task, BY_HOST)


def burn_in_rebooted(node: Node) -> None:
    """No load outlives its boot; the node's row is locked."""
    for task in NodeTask.objects.filter(STOPPING, node=node, kind=TaskKind.BURN_IN):
        _load_over(task, BY_BOOT)


def _load_over(task: NodeTask, shown_by: str) -> None:
    task.ended_at = clock.db_now()
    task.save(update_fields=["ended_at"])
    events.record(
        kind="placement.node.burn_in_stopped",
        subject=task.node,
        actor=WATCH,
        facts={"task": str(task.pk), "shown_by": shown_by},
    )
    burn_in_over(task.node_id)


def burn_in_stop_sweep() -> int:
    """Give up waiting for hosts whose load must have reached its own limit. Returns how many."""
    return sweeping.each("placement.burn_in_stops", _past_their_limit, _limit_reached)


def _past_their_limit(resting: Collection[UUID]) -> list[UUID]:
    """Those whose load, begun at the last possible moment, has reached its limit."""
    seconds = Cast(KeyTextTransform("limit_s", "params"), IntegerField())
    limit = ExpressionWrapper(seconds * Value(timedelta(seconds=1)), output_field=DurationField())
    over = ExpressionWrapper(F("deadline_at") + limit, output_field=DateTimeField())
    rows = NodeTask.objects.filter(STOPPING, kind=TaskKind.BURN_IN).exclude(pk__in=resting)
    found = rows.alias(over=over).filter(over__lt=clock.db_now()).order_by("over", "pk")
    return list(found.values_list("pk", flat=True)[:200])


def _limit_reached(task_id: UUID) -> bool:
    node_id = NodeTask.objects.values_list("node_id", flat=True).get(pk=task_id)
    locked(node_id)
    task = NodeTask.objects.select_for_update(no_key=True).filter(STOPPING, pk=task_id).first()
    if task is None:
        return False
    _load_over(task, BY_LIMIT)
    return True
