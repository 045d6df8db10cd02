"""What does a tenant have and wait for, and why is it so?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from admission.domain.outcome import outcome_of
from admission.models import AdmissionRequest, Decision
from gpuaas.kernel import clock, errors, told
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.scope import platform_scope
from placement.domain.compared import FIRST_CHOICE, choice_in, compared
from placement.domain.truth import FourStates, Truth, expected_presence, phase
from placement.errors import NODE_SILENT
from placement.models import Allocation, Node, NodeTask
from placement.selectors.drift import drift_codes
from placement.states import AllocationState, TaskState

LATE_S = 60


def allocation_list(
    tenant_id: UUID | None = None, *, state: str = "", project_id: UUID | None = None
) -> QuerySet[Allocation]:
    """Allocations, newest first; without a tenant for operators."""
    rows = Allocation.objects.select_related("sku", "project", "tenant", "request").order_by(
        "-created_at", "-id"
    )
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    if state == "live":
        rows = rows.exclude(state=AllocationState.RELEASED)
    elif state:
        rows = rows.filter(state=state)
    return rows.filter(project_id=project_id) if project_id else rows


def request_list(tenant_id: UUID | None = None, *, state: str = "") -> QuerySet[AdmissionRequest]:
    """Admission requests, newest first."""
    rows = AdmissionRequest.objects.select_related("sku", "project", "tier").order_by(
        "-created_at", "-id"
    )
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    return rows.filter(state=state) if state else rows


def _observed_late(row: Allocation) -> bool:
    since = row.observed_at or row.active_at
    if row.observed_detail == NODE_SILENT.code:
        return True
    return since is None or clock.now() - since > timedelta(seconds=LATE_S)


def allocation_phase(row: Allocation) -> str:
    """The phase shown to people, computed from intent and observation."""
    return phase(row.state, observed=row.observed, observed_late=_observed_late(row))


def outcome_detail(row: Allocation, *, operator: bool = False) -> str:
    """Why it ended, or why its cleanup is blocked, in the words for this reader."""
    blocked = row.state == AllocationState.CLEANUP_BLOCKED
    return told.outcome_told(
        row.outcome_code, row.outcome_detail, blocked=blocked, operator=operator
    )


def _executing(row: Allocation) -> Truth:
    run = WorkflowRun.objects.filter(pk=row.run_id).first()
    with platform_scope():
        task = (
            NodeTask.objects.filter(
                allocation_id=row.pk, state__in=[TaskState.PENDING, TaskState.LEASED]
            )
            .order_by("-created_at")
            .first()
        )
    if task is not None:
        step = task.step.replace("_", " ") or "waiting for the host"
        return Truth(
            value=f"{task.kind} {task.state}",
            as_of=task.state_since,
            source="node task",
            detail=f"attempt {task.attempt}, {step}",
        )
    if run is not None and run.ended_at is None:
        return Truth(f"{run.kind}: {run.step}", run.updated_at, "workflow run", run.state)
    return Truth("idle", run.ended_at if run else None, "workflow run")


def allocation_states(row: Allocation) -> dict[str, Any]:
    """The four states side by side, each with its age."""
    now = clock.db_now()
    shown = allocation_phase(row)
    want = {"active": "active", "placed": "active", "provisioning": "active"}.get(
        row.state, "released"
    )
    as_of = max(t for t in (row.state_since, row.observed_at) if t is not None)
    expected, differs = expected_presence(row.state), drift_codes(allocation_id=row.pk)
    states = FourStates(
        desired=Truth(want, row.release_asked_at or row.created_at, "the tenant's request"),
        observed=Truth(
            row.observed,
            row.observed_at,
            "the host's report",
            row.observed_detail or ", ".join(differs),
        ),
        executing=_executing(row),
        projected=Truth(shown, as_of, "computed from the parts"),
    )
    drift = {
        "observed": bool(differs) or (bool(expected) and row.observed not in (expected, "unknown")),
        "projected": shown != row.state,
    }
    return states.as_json(now, drift=drift)


def _compared(decision: Decision, operator: bool) -> list[dict[str, str]]:
    """The places that a decision chose between, in words; only operators are told of hosts."""
    runner_up = decision.runner_up or {}
    seen = (choice_in(decision.why), runner_up)
    nums = [int(one["node_num"]) for one in seen if "node_num" in one]
    named = dict(Node.objects.filter(num__in=nums).values_list("num", "name")) if operator else {}
    last = decision.gates[-1] if decision.gates else {}
    found = compared(decision.why, runner_up, facts=last.get("facts") or {}, names=named)
    return [{"rank": one.rank, "words": one.words} for one in found]


def _explained(request: AdmissionRequest, operator: bool) -> dict[str, Any]:
    decision = Decision.objects.filter(request=request).order_by("-created_at").first()
    entry = errors.catalogue().get(request.code or (decision.code if decision else ""))
    out: dict[str, Any] = {
        "request": str(request.pk),
        "action": request.action,
        "state": request.state,
        "outcome_class": outcome_of(decision.verdict, decision.code) if decision else "",
        "verdict": decision.verdict if decision else None,
        "code": request.code or (decision.code if decision else ""),
        "detail": request.detail,
        "unblock": entry.unblock if entry else "",
        "decision": str(decision.pk) if decision else None,
        "decided_at": decision.created_at.isoformat() if decision else None,
        "gates": decision.gates if decision else [],
        "why": decision.why if decision else "",
        "envelope_version": decision.envelope_version if decision else 0,
        "policy_version": decision.policy_version if decision else "",
        "facts": decision.facts if decision else {},
        "digest": decision.digest if decision else "",
        "winner": None,
        "runner_up": None,
        "compared": _compared(decision, operator) if decision else [],
    }
    if decision is not None and operator:
        out |= {"winner": decision.winner, "runner_up": decision.runner_up}
    elif decision is not None:
        out["why"] = out["why"].split(FIRST_CHOICE)[0]
    return out


def request_explain(request_id: UUID, *, operator: bool = False) -> dict[str, Any]:
    """The decision on a request: gates in order, numbers, what would unblock it."""
    request = AdmissionRequest.objects.filter(pk=request_id).first()
    if request is None:
        raise errors.NotFound
    return _explained(request, operator)


def allocation_explain(allocation_id: UUID, *, operator: bool = False) -> dict[str, Any]:
    """Why an allocation is where it is: its decision, and what its run says now."""
    row = Allocation.objects.select_related("request").filter(pk=allocation_id).first()
    if row is None:
        raise errors.NotFound
    out = _explained(row.request, operator)
    run = WorkflowRun.objects.filter(pk=row.run_id).first()
    error = (run.error if run else None) or {}
    code = row.outcome_code or error.get("code", "")
    if row.state == AllocationState.CLEANUP_BLOCKED:
        code = "cleanup_blocked"
    entry = errors.catalogue().get(code)
    out["allocation"] = {
        "id": str(row.pk),
        "state": row.state,
        "phase": allocation_phase(row),
        "outcome": row.outcome,
        "code": code,
        "detail": outcome_detail(row, operator=operator)
        or told.detail_told(code, error.get("detail", ""), operator=operator),
        "unblock": entry.unblock if entry else "",
    }
    return out
