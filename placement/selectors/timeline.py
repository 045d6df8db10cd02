"""What happened to an allocation, from now back to its request, part by part?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from gpuaas.kernel import errors, told
from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.scope import platform_scope
from placement.models import Allocation, CleanupProof, NodeTask

TIMELINE_PAGE = 100
HIDDEN = frozenset({"node_num", "node", "slots", "slot_index", "machine", "boots", "boot_id"})
"""Facts about the host that only operators see."""
HIDDEN_STEP = HIDDEN | {"detail"}
"""Of a missing step, besides, what the host said of it."""
Position = tuple[datetime, UUID]
"""When and which: what the next part comes after."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries, newest first; ``after`` is where the older ones begin, None at the request."""

    items: list[dict[str, Any]]
    after: Position | None


def event_facts(event: Event, *, operator: bool) -> dict[str, Any]:
    """An event's facts, for tenants without those about the host."""
    facts = told.facts_told(event.facts, event.reason, operator=operator)
    return {k: v for k, v in facts.items() if operator or k not in HIDDEN}


def event_reason(event: Event, *, operator: bool) -> str:
    """Why it happened; a code that a host made up, or its words, are not for tenants."""
    by_host = event.actor.get("kind") == "node" or event.subject_kind == "placement.nodetask"
    return told.code_told(event.reason, operator=operator or not by_host)


def event_actor(event: Event, *, operator: bool) -> dict[str, Any]:
    """Who did it; a host or a part of the platform is just the platform to a tenant."""
    if not operator and event.actor.get("kind") in ("node", "system"):
        return {"kind": event.actor.get("kind", ""), "id": "", "name": "platform"}
    return dict(event.actor)


def _entry(event: Event, operator: bool) -> dict[str, Any]:
    facts = event_facts(event, operator=operator)
    actor = event_actor(event, operator=operator)
    return {
        "id": event.pk,
        "at": event.at.isoformat(),
        "kind": event.kind,
        "actor": actor,
        "before": event.before,
        "after": event.after,
        "reason": event_reason(event, operator=operator),
        "facts": facts,
        "correlation": event.correlation,
    }


def _proof(proof: CleanupProof, operator: bool) -> dict[str, Any]:
    missing = [
        {k: v for k, v in step.items() if operator or k not in HIDDEN_STEP}
        for step in proof.missing
    ]
    return {
        "id": proof.pk,
        "at": proof.created_at.isoformat(),
        "kind": f"placement.cleanupproof.{'complete' if proof.complete else 'incomplete'}",
        "actor": {"kind": "node", "id": "", "name": "platform"},
        "before": None,
        "after": None,
        "reason": "" if proof.complete else "cleanup_blocked",
        "facts": {"attempt": proof.attempt, "missing": missing},
        "correlation": "",
    }


def _older(rows: QuerySet[Any], at: str, key: str, after: Position | None, limit: int) -> list[Any]:
    """The newest rows after a position, one more than asked for."""
    if after is not None:
        moment, last = after
        rows = rows.filter(Q(**{f"{at}__lt": moment}) | Q(**{at: moment, f"{key}__lt": last}))
    return list(rows.order_by(f"-{at}", f"-{key}")[: limit + 1])


def allocation_timeline(
    allocation_id: UUID,
    *,
    operator: bool = False,
    after: Position | None = None,
    limit: int = TIMELINE_PAGE,
) -> Timeline:
    """What happened from now back to the request, at most ``limit`` entries. Raises NotFound."""
    row = Allocation.objects.filter(pk=allocation_id).first()
    if row is None:
        raise errors.NotFound
    runs = WorkflowRun.objects.filter(subject_id=allocation_id).values_list("pk", flat=True)
    subjects = [allocation_id, row.request_id, *runs]
    with platform_scope():
        tasks = NodeTask.objects.filter(allocation_id=allocation_id).values_list("pk", flat=True)
        seen = Event.objects.filter(
            Q(tenant_id=row.tenant_id) | Q(tenant_id__isnull=True),
            subject_id__in=[*subjects, *tasks],
        )
        proofs = CleanupProof.objects.filter(claim__allocation_id=allocation_id)
        found = [
            *(
                ((e.at, e.uid), _entry(e, operator))
                for e in _older(seen, "at", "uid", after, limit)
            ),
            *(
                ((p.created_at, p.pk), _proof(p, operator))
                for p in _older(proofs, "created_at", "id", after, limit)
            ),
        ]
    found.sort(key=lambda entry: entry[0], reverse=True)
    more = len(found) > limit
    found = found[:limit]
    return Timeline([entry for _, entry in found], found[-1][0] if more else None)
