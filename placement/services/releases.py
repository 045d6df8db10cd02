"""How do allocations begin to be given back, one or many together, and end, in one statement?"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from gpuaas.kernel import clock, errors, events, ids, prepared, told, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.hub import CHANNEL
from gpuaas.kernel.jsontext import as_json
from gpuaas.kernel.lifecycle import Lifecycle
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.models.work import RUN
from gpuaas.kernel.sweeping import raise_if_lost
from placement.states import ALLOCATION, CLAIM, LIVE, TASK, AllocationState, Outcome

log = logging.getLogger(__name__)

RELEASE_S: Final = 900
BATCH: Final = 64
"""How many are given back in one transaction where each could be by itself: so many nodes are
locked at once."""
RUN_KIND: Final = "allocation.release"
EVENTS: Final = (
    "placement.nodetask.cancel",
    "placement.allocation.release",
    "placement.claim.release",
)
MAKING: Final = (AllocationState.PLACED, AllocationState.PROVISIONING)
"""Its run is still at work to make it: a tenant that gives it back stops that."""
UIDS: Final = 3
"""Events of a release beside those of its claims after the first: its own, a task's, a claim's."""
_RELEASE: Final = (
    "SELECT i, run, begun, cancelled FROM placement_release("
    "%s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s::timestamptz)"
)


ENDS: Final = ("placement.claim.finish", "placement.allocation.finish")
_FINISH: Final = (
    "SELECT was, ended, node, tenant, project, classes, amounts FROM placement_finish("
    "%s, %s::jsonb, %s::jsonb, %s, %s, %s::uuid[], %s::jsonb, %s::timestamptz)"
)


@dataclass(frozen=True, slots=True)
class Leaving:
    """One allocation that is to be given back: by whom, why, and what is told of it."""

    allocation_id: UUID
    actor: Actor
    code: str
    detail: str
    outcome: str | None = None
    """None: what the tenant asked for, ended or cancelled by how far it was."""
    cancel: str | None = None
    """Why the run that still makes it is ended; None leaves that run alone."""
    claims: int = 1
    """How many claims it has, as far as is known: so many ids are made beforehand."""
    task_id: UUID = field(default_factory=ids.new_id)
    run_id: UUID = field(default_factory=ids.new_id)


@dataclass(frozen=True, slots=True)
class Left:
    """The run that gives an allocation back, and whether it was begun now."""

    allocation_id: UUID
    run_id: UUID
    begun: bool

    def run(self) -> WorkflowRun:
        """The run's row."""
        return WorkflowRun.objects.get(pk=self.run_id)


@dataclass(frozen=True, slots=True)
class End:
    """What came of ending an allocation: the state it was in, and what was charged for it."""

    was: str
    ended: bool
    node_id: UUID
    tenant_id: UUID
    project_id: UUID
    amounts: dict[UUID, int]
    """Milli-units by resource class, of the claims that were the tenant's."""


def _move(table: Lifecycle, edge: str) -> dict[str, Any]:
    pulled = table.edges[edge]
    return {
        "from": [str(state) for state in pulled.sources],
        "to": str(pulled.target),
        "first": str(table.initial),
    }


def moves() -> dict[str, Any]:
    """The edges that a release pulls, as the tables of lifecycles have them."""
    return {
        "allocation": _move(ALLOCATION, "release"),
        "claim": _move(CLAIM, "release"),
        "task": _move(TASK, "cancel"),
        "run": _move(RUN, "undo"),
        "making": [str(state) for state in MAKING],
        "live": LIVE,
    }


def end_moves() -> dict[str, Any]:
    """The edges that an end pulls, and whose claims are charged."""
    return {
        "allocation": _move(ALLOCATION, "finish"),
        "claim": _move(CLAIM, "finish"),
        "live": LIVE,
        "charged": "tenant",
    }


_MOVES: Final = as_json(moves())
_END_MOVES: Final = as_json(end_moves())


def _terms() -> str:
    return as_json(
        {
            "task_s": RELEASE_S,
            "run_s": int(workflow.definition_of(RUN_KIND).deadline_s),
            "handed_over": AllocationState.ACTIVE.value,
            "channel": CHANNEL,
            "topic": workflow.TOPIC,
        }
    )


def _row(i: int, one: Leaving) -> dict[str, Any]:
    actor = one.actor.as_json()
    return {
        "i": i,
        "allocation": str(one.allocation_id),
        "outcome_active": one.outcome or Outcome.ENDED.value,
        "outcome_else": one.outcome or Outcome.CANCELLED.value,
        "code": one.code,
        "detail": one.detail,
        "reason": one.code if told.host_speaks(one.code) else one.detail,
        "actor": actor,
        "correlation": one.actor.request_id,
        "task": str(one.task_id),
        "run": str(one.run_id),
        "uids": [str(ids.new_id()) for _ in range(UIDS - 1 + max(one.claims, 1))],
        "cancel": None if one.cancel is None else workflow.cancellation(one.actor, one.cancel),
    }


def releases_begin(leaving: Sequence[Leaving]) -> list[Left]:
    """Start giving back each, from any state before it; from later states show the run there is.

    All of them or none, in one statement in the caller's transaction (or in one of its own).
    Once in a transaction, before other locks of nodes: a second batch would lock its runs after
    the nodes of the first. In the order of the asked; what does not exist is left out, and
    nothing is to be named twice. Waits for whoever drives a run that is to be cancelled.
    """
    if not leaving:
        return []
    heard = {kind: events.subscribers_of(kind) for kind in EVENTS}
    with transaction.atomic(savepoint=False):
        answer = prepared.rows(
            _RELEASE,
            (
                as_json([_row(i, one) for i, one in enumerate(leaving)]),
                _MOVES,
                as_json(workflow.initial_steps(RUN_KIND)),
                as_json(heard),
                _terms(),
                clock.stand_in(),
            ),
        )
        due = [run for _, run, begun, _ in answer if begun]
        due += [cancelled for *_, cancelled in answer if cancelled is not None]
        if due:
            transaction.on_commit(partial(workflow.nudge, *due))
            if any(heard.values()):
                transaction.on_commit(events.wake_outbox)
    return [Left(leaving[i].allocation_id, run, begun) for i, run, begun, _ in sorted(answer)]


def allocation_end(allocation_id: UUID, actor: Actor, reason: str) -> End:
    """End an allocation's claims and itself, and count its node anew, in the caller's transaction.

    Nothing is written where it is in no state to end from. What was charged is not given back
    here. Raises NotFound.
    """
    heard = {kind: events.subscribers_of(kind) for kind in ENDS}
    answer = prepared.rows(
        _FINISH,
        (
            allocation_id,
            _END_MOVES,
            as_json(actor.as_json()),
            reason,
            actor.request_id,
            [ids.new_id() for _ in range(UIDS)],
            as_json(heard),
            clock.stand_in(),
        ),
    )
    for was, ended, node, tenant, project, classes, amounts in answer:
        if ended and any(heard.values()):
            transaction.on_commit(events.wake_outbox)
        charged = dict(zip(classes or (), amounts or (), strict=True))
        return End(was, ended, node, tenant, project, charged)
    raise errors.NotFound


def releases_each(leaving: Iterable[Leaving]) -> int:
    """Begin many, so many in a transaction of their own; how many began.

    Where a batch breaks, each of it is tried by itself, so that one that cannot be given back
    keeps no other. The first error is raised when all were tried; a lost connection at once.
    In a transaction of the caller's they are one batch, since its locks are kept to the end.
    """
    wanted = list(leaving)
    size = max(1, len(wanted)) if connection.in_atomic_block else BATCH
    begun, broke = 0, None
    for start in range(0, len(wanted), size):
        batch = wanted[start : start + size]
        try:
            begun += _begun(batch)
        except Exception as error:
            raise_if_lost(error)
            log.warning("a batch of %d releases broke: %s", len(batch), type(error).__name__)
            for one in batch:
                try:
                    begun += _begun([one])
                except Exception as cause:
                    raise_if_lost(cause)
                    log.exception("allocation %s could not be released", one.allocation_id)
                    broke = broke or cause
    if broke is not None:
        raise broke
    return begun


def _begun(batch: Sequence[Leaving]) -> int:
    with transaction.atomic():
        return sum(left.begun for left in releases_begin(batch))
