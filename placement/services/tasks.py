"""How does a host get work, keep its lease, and hand in the result?"""

from __future__ import annotations

import random
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from gpuaas.kernel import clock, errors, events, sweeping, workflow
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.transitions import advance
from placement.domain.readiness import PASS
from placement.domain.versions import PROFILES_SINCE, profile_unknown
from placement.errors import CredentialInvalid, LeaseLost, PartUnsupported, WireRefused
from placement.models import (
    Allocation,
    Node,
    NodeTask,
    TaskObservation,
)
from placement.node_tasks import (
    AGENT_VERSION,
    REQUIRED_CLEANUP_STEPS,
    BurnInResult,
    CompleteRequest,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    LeaseAnswer,
    LeaseRequest,
    TaskKind,
    TopologyReport,
    WireError,
    parse_result,
    sealed,
)
from placement.services.agents import node_actor
from placement.services.asking import Asked
from placement.services.burn_in import burn_in_failed, burn_in_over, burn_in_taken, burn_in_waits
from placement.services.burn_in_stop import burn_in_ends, burn_in_rebooted, burn_in_unwanted
from placement.services.nodes import locked, refold
from placement.services.proofs import proofs_keep
from placement.services.slots import links_take, slots_take
from placement.states import AllocationState, NodeState, TaskState

LEASE_S = 60
POLL_LEAST_MS, POLL_MOST_MS = 1000, 15_000
POLL_MS_A_NODE = 15
NODE_COUNT_TTL_S = 30.0
RETRY_S = 5
PLATFORM = system("node-tasks")


def _new_boot(node: Node, boot_id: str, actor: Actor) -> Node:
    """A restart voids every lease of the boot before; what was in flight is asked again."""
    events.record(
        kind="placement.node.boot",
        subject=node,
        actor=actor,
        before={"boot_id": node.boot_id},
        after={"boot_id": boot_id},
    )
    node.boot_id, node.observed_seq = boot_id, 0
    node.save(update_fields=["boot_id", "observed_seq"])
    for task in NodeTask.objects.filter(node=node, state=TaskState.LEASED):
        _lose(task, "the host restarted")
    burn_in_rebooted(node)
    return node


def _lose(task: NodeTask, why: str) -> None:
    """Take a lease back: another attempt, or the end when there were enough."""
    if task.attempt >= task.max_attempts:
        _give_up(task, f"{task.attempt} leases were lost; the last because {why}")
        return
    advance(
        task,
        "lose",
        actor=PLATFORM,
        reason=why,
        changes={"lease_until": None, "step": "", "percent": None},
    )


def _give_up(task: NodeTask, detail: str) -> None:
    advance(
        task,
        "fail",
        actor=PLATFORM,
        reason="task_overdue",
        changes={
            "error": {"code": "task_overdue", "detail": detail},
            "ended_at": clock.db_now(),
            "lease_until": None,
        },
    )
    if task.run_id is not None:
        workflow.signal(task.run_id)
    if task.kind == TaskKind.BURN_IN:
        burn_in_over(task.node_id)


def _due(node: Node, limit: int) -> list[NodeTask]:
    now = clock.db_now()
    return list(
        NodeTask.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .filter(node=node, state=TaskState.PENDING, due_at__lte=now)
        .order_by("due_at", "id")[:limit]
    )


def _profiles(task: NodeTask) -> list[str]:
    """The MIG profiles that a task names."""
    slots = task.params.get("slots") or ()
    return [part["profile"] for slot in slots if (part := slot.get("part")) and part.get("profile")]


def _not_sent(task: NodeTask, profile: str, version: str) -> None:
    """End a task that the host's agent could not read, by name."""
    needed = ".".join(map(str, PROFILES_SINCE))
    detail = (
        f"the host's agent is {version[:64]}, and knows the profile {profile} from {needed} on: "
        "upgrade it; what waits for its cleanup is then tried again"
    )
    advance(
        task,
        "fail",
        actor=PLATFORM,
        reason=PartUnsupported.code,
        changes={
            "error": {"code": PartUnsupported.code, "detail": detail},
            "ended_at": clock.db_now(),
        },
    )
    if task.run_id is not None:
        workflow.signal(task.run_id)


_fleet: tuple[float, int] = (float("-inf"), 0)


def _fleet_size() -> int:
    """How many hosts poll, counted at most twice a minute in a process."""
    global _fleet
    now = clock.monotonic()
    if now - _fleet[0] > NODE_COUNT_TTL_S:
        _fleet = (now, Node.objects.exclude(state=NodeState.RETIRED).count())
    return _fleet[1]


def poll_ms() -> int:
    """When a host asks again: later in a large fleet, spread so that hosts do not ask together."""
    base = min(POLL_MOST_MS, max(POLL_LEAST_MS, POLL_MS_A_NODE * _fleet_size()))
    return base + random.randrange(base * 2 // 5)


def tasks_lease(
    *, node: Node, message: LeaseRequest, asked: Asked, agent: str = AGENT_VERSION
) -> LeaseAnswer:
    """Give the host what is due for it, each task with a new epoch.

    ``agent``: its version. What it could not read is not sent, and ends as if it had refused it.

    Most of the time nothing is: that was found out when it ``asked``, and nothing is locked. The
    same for a burn-in that was stopped, of which the host is told until its load is over.
    """
    if message.boot_id == node.boot_id and not asked.due:
        return LeaseAnswer((), next_poll_ms=poll_ms(), server_time=int(asked.at.timestamp()))
    return _lease(node, message, asked.at, agent)


@transaction.atomic
def _lease(node: Node, message: LeaseRequest, now: datetime, version: str) -> LeaseAnswer:
    actor = node_actor(node)
    if message.boot_id != node.boot_id:
        # Another poll of this boot may have come first: what it was given is not lost by it.
        node = locked(node.pk)
        if message.boot_id != node.boot_id:
            node = _new_boot(node, message.boot_id, actor)
    lost = list(NodeTask.objects.filter(node=node, state=TaskState.LEASED, lease_until__lt=now))
    if any(task.kind == TaskKind.BURN_IN for task in lost):
        locked(node.pk)  # before its tasks: the end of a burn-in opens it
    for task in lost:
        _lose(task, "no heartbeat came in time")
    until = now + timedelta(seconds=LEASE_S)
    given = []
    for task in _due(node, message.max):
        profile = profile_unknown(version, _profiles(task))
        if profile is not None:
            _not_sent(task, profile, version)
            continue
        leased = advance(
            task,
            "lease",
            actor=actor,
            changes={
                "attempt": task.attempt + 1,
                "lease_epoch": task.lease_epoch + 1,
                "lease_until": until,
                "boot_id": message.boot_id,
            },
        )
        if leased.kind.endswith("provision") and leased.allocation_id is not None:
            allocation = Allocation.objects.get(pk=leased.allocation_id)
            if allocation.state == AllocationState.PLACED:
                advance(allocation, "provision", actor=actor)
        if leased.run_id is not None:
            workflow.signal(leased.run_id)
        given.append(sealed(leased, node, now=now, until=until))
    return LeaseAnswer(
        tasks=tuple(given),
        next_poll_ms=poll_ms(),
        server_time=int(now.timestamp()),
        unwanted=burn_in_unwanted(node),
    )


def _speaking(node: Node) -> None:
    """Lock the node before its task, as whoever stops or releases does. Raises CredentialInvalid
    where it was retired since it was heard."""
    if locked(node.pk).state == NodeState.RETIRED:
        raise CredentialInvalid


def _own(node: Node, task_id: UUID) -> NodeTask:
    """The node's task, locked; another node's is as good as missing."""
    task = (
        NodeTask.objects.select_for_update(no_key=True, of=("self",))
        .filter(pk=task_id, node=node)
        .first()
    )
    if task is None:
        raise errors.NotFound
    return task


@transaction.atomic
def task_heartbeat(*, node: Node, task_id: UUID, message: HeartbeatRequest) -> HeartbeatAnswer:
    """Extend the lease; a cancelled task is asked to stop."""
    now = clock.db_now()
    # The node before its task, as a release locks them.
    Node.objects.filter(pk=node.pk).update(last_seen_at=now)
    task = _own(node, task_id)
    if task.state == TaskState.CANCELLED:
        return HeartbeatAnswer(lease_expires_at=int(now.timestamp()), cancel=True)
    if task.state != TaskState.LEASED or task.lease_epoch != message.lease_epoch:
        raise LeaseLost(lease_epoch=task.lease_epoch)
    moved = task.step != message.step
    task.lease_until = now + timedelta(seconds=LEASE_S)
    task.step, task.percent = message.step, message.percent
    task.save(update_fields=["lease_until", "step", "percent"])
    if moved and task.run_id is not None:
        workflow.signal(task.run_id)
    return HeartbeatAnswer(lease_expires_at=int(task.lease_until.timestamp()), cancel=False)


def _late(
    task: NodeTask, epoch: int, boot_id: str, outcome: str, payload: dict[str, Any]
) -> LeaseLost:
    """Keep a result that counts no more, as an observation; it changes nothing."""
    TaskObservation.objects.create(
        task=task, lease_epoch=epoch, boot_id=boot_id, outcome=outcome, payload=payload
    )
    return LeaseLost(
        f"The task is {task.state} at epoch {task.lease_epoch}.", lease_epoch=task.lease_epoch
    )


def _current(task: NodeTask, epoch: int, boot_id: str) -> bool:
    return task.state == TaskState.LEASED and task.lease_epoch == epoch and task.boot_id == boot_id


def _repeated(task: NodeTask, epoch: int, boot_id: str, state: str) -> bool:
    """Whether this very result was accepted before: its reply may have been lost."""
    return task.state == state and task.lease_epoch == epoch and task.boot_id == boot_id


def _keep(refused: LeaseLost | None) -> None:
    if refused is not None:
        raise refused


def task_complete(*, node: Node, task_id: UUID, message: CompleteRequest) -> None:
    """Take a result in. Repeating the same one is one; a late one is only observed."""
    _keep(_complete(node, task_id, message))


@transaction.atomic
def _complete(node: Node, task_id: UUID, message: CompleteRequest) -> LeaseLost | None:
    _speaking(node)
    task = _own(node, task_id)
    if _repeated(task, message.lease_epoch, message.boot_id, TaskState.SUCCEEDED):
        return None
    if not _current(task, message.lease_epoch, message.boot_id):
        burn_in_ends(task, message.lease_epoch, None)
        return _late(task, message.lease_epoch, message.boot_id, "complete", message.to_json())
    kind = TaskKind(task.kind)
    try:
        result = parse_result(kind, message.result)
    except WireError as wrong:
        raise WireRefused(
            wrong.detail, errors=(errors.FieldError(wrong.pointer, wrong.code, wrong.detail),)
        ) from wrong
    actor = node_actor(node)
    if isinstance(result, TopologyReport):
        _discovered(node, result, actor)
    elif isinstance(result, BurnInResult):
        _burned_what_was_asked(task, result)
        burn_in_taken(task, result)
    elif kind in REQUIRED_CLEANUP_STEPS:
        proofs_keep(task, message)
    evidence = [entry.to_json() for entry in message.evidence]
    task = advance(
        task,
        "succeed",
        actor=actor,
        changes={
            "result": {} if isinstance(result, TopologyReport) else message.result,
            "evidence": evidence or None,
            "ended_at": clock.db_now(),
            "lease_until": None,
            "percent": 100,
        },
    )
    if task.run_id is not None:
        workflow.signal(task.run_id)
    if kind is TaskKind.BURN_IN:
        burn_in_over(task.node_id)
    return None


def _burned_what_was_asked(task: NodeTask, result: BurnInResult) -> None:
    if {gpu.uuid for gpu in result.gpus} != set(task.params["gpus"]):
        text = "it must speak of every GPU that was asked for, and of no other"
        raise WireRefused(text, errors=(errors.FieldError("/result/gpus", "not_allowed", text),))
    if result.verdict == PASS and result.ran_s < task.params["duration_s"]:
        text = f"a pass takes the {task.params['duration_s']} seconds that were asked for"
        raise WireRefused(text, errors=(errors.FieldError("/result/ran_s", "too_short", text),))


def task_fail(*, node: Node, task_id: UUID, message: FailRequest) -> None:
    """Take a failure in: tried again while attempts are left and the host says it may be."""
    _keep(_fail(node, task_id, message))


@transaction.atomic
def _fail(node: Node, task_id: UUID, message: FailRequest) -> LeaseLost | None:
    _speaking(node)
    task = _own(node, task_id)
    if _repeated(task, message.lease_epoch, message.boot_id, TaskState.FAILED):
        return None
    if not _current(task, message.lease_epoch, message.boot_id):
        burn_in_ends(task, message.lease_epoch, message.code)
        return _late(task, message.lease_epoch, message.boot_id, "fail", message.to_json())
    actor = node_actor(node)
    error = {"code": message.code, "detail": message.detail}
    now = clock.db_now()
    waits = burn_in_waits(task, message.code, now)
    if waits is not None or (message.retryable and task.attempt < task.max_attempts):
        again_s = RETRY_S * (task.attempt - 1) if waits is None else waits
        advance(
            task,
            "lose",
            actor=actor,
            reason=message.code,
            changes={
                "error": error,
                "lease_until": None,
                "attempt": task.attempt if waits is None else task.attempt - 1,
                "due_at": now + timedelta(seconds=again_s),
                "step": "",
                "percent": None,
            },
            facts=error,
        )
    else:
        if TaskKind(task.kind) in REQUIRED_CLEANUP_STEPS:
            proofs_keep(task, message)
        advance(
            task,
            "fail",
            actor=actor,
            reason=message.code,
            changes={
                "error": error,
                "evidence": [entry.to_json() for entry in message.evidence] or None,
                "ended_at": clock.db_now(),
                "lease_until": None,
            },
            facts=error,
        )
        if task.kind == TaskKind.BURN_IN:
            burn_in_failed(task, message.code, message.detail)
            burn_in_over(task.node_id)
    if task.run_id is not None:
        workflow.signal(task.run_id)
    return None


def _discovered(node: Node, report: TopologyReport, actor: Actor) -> None:
    """Keep the topology and its candidate slots; approved slots do not change by it.

    Where it differs from the inventory, the node's page says so among its findings.
    """
    row = locked(node.pk)
    differences = slots_take(row, report, actor=actor)
    row.topology, row.topology_at = report.to_json(), clock.db_now()
    row.topology["findings"] += [
        {"code": "differs_from_inventory", "detail": text, "device": None} for text in differences
    ]
    links_take(row)
    row.save(update_fields=["topology", "topology_at", "layout", "generation"])
    events.record(
        kind="placement.node.discovered",
        subject=row,
        actor=actor,
        facts={
            "gpus": len(report.gpus),
            "slots": len(report.slots),
            "findings": [f.code for f in report.findings][:50],
            "differences": differences[:50],
        },
    )
    if row.state == NodeState.INSPECTING:
        row = advance(row, "verify", actor=actor, reason="discovered")
    refold(row)


def leases_sweep() -> int:
    """Take back leases that no heartbeat kept, and give up what is past its deadline.

    A task of a run is given up by the run, whose steps have time limits of their own; a burn-in
    also while its host goes on with it.
    """
    return sweeping.each("placement.leases", _overdue_tasks, _take_back)


def _overdue() -> Q:
    now = clock.db_now()
    late = Q(run_id__isnull=True, deadline_at__lt=now)
    late &= Q(state=TaskState.PENDING) | Q(state=TaskState.LEASED, kind=TaskKind.BURN_IN)
    return Q(state=TaskState.LEASED, lease_until__lt=now) | late


def _overdue_tasks(resting: Collection[UUID]) -> list[UUID]:
    rows = NodeTask.objects.filter(_overdue()).exclude(pk__in=resting)
    return list(rows.values_list("pk", flat=True)[:200])


def _take_back(task_id: UUID) -> bool:
    burnt = NodeTask.objects.filter(pk=task_id, kind=TaskKind.BURN_IN).first()
    if burnt is not None:
        locked(burnt.node_id)  # before its task: the end of a burn-in opens it
    task = (
        NodeTask.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        .filter(_overdue(), pk=task_id)
        .first()
    )
    if task is None:
        return False
    if task.state == TaskState.PENDING:
        _give_up(task, "the host did not take it before its deadline")
    elif task.lease_until is not None and task.lease_until < clock.db_now():
        _lose(task, "no heartbeat came in time")
    else:
        _give_up(task, "it was not done by its deadline")
    return True
