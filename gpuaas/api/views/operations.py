"""How far is what was asked for?  An operation is the durable run itself."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import parking
from gpuaas.api.base import TenantView
from gpuaas.api.fields import moment
from gpuaas.api.pagination import page
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel import told, workflow
from gpuaas.kernel.errors import NotFound, catalogue
from gpuaas.kernel.idempotency import AT
from gpuaas.kernel.models import RunState, WorkflowRun
from gpuaas.kernel.models.work import ENDED
from placement.services.bundle import run_as_begun

POLL_AFTER_S = 2
_CANCELLED_BY_THEIR_END = frozenset({"allocation.create"})
"""What releasing the allocation, or withdrawing its request, takes back. A cleanup goes on."""
_UNDERWAY = {str(RunState.COMPENSATING): "running"}


def operation_shown(run: WorkflowRun, *, operator: bool) -> dict[str, Any]:
    """The representation of a run, as OperationOut describes it; a host's own words are for
    operators only. Made without the serializer: every creation is answered with it."""
    progress = workflow.progress(run)
    error = told.error_told(run.error, operator=operator)
    steps = [told.step_told(step, operator=operator) for step in run.steps]
    step = next((one for one in steps if one["name"] == progress.step), {})
    done = run.state in ENDED
    return {
        "id": str(run.pk),
        "kind": run.kind,
        "target": {"kind": run.subject_kind, "id": str(run.subject_id)},
        "tenant": str(run.tenant_id) if run.tenant_id else None,
        "done": done,
        "state": _UNDERWAY.get(run.state, run.state),
        "progress": {
            "step": progress.step,
            "percent": progress.percent,
            "message": _message(run, progress.message, step, operator),
        },
        "steps": [_step(step) for step in steps],
        "metadata": {
            "attempt": run.attempt,
            "undoing": run.state == RunState.COMPENSATING,
            "request_id": run.correlation,
        },
        "result": run.result,
        "error": _problem(error),
        "created_at": moment(run.created_at),
        "updated_at": moment(run.updated_at),
        "ended_at": moment(run.ended_at),
        "cancellable": run.kind in _CANCELLED_BY_THEIR_END
        and not done
        and run.state != RunState.COMPENSATING,
    }


def begun_form(*, run_id: UUID, allocation_id: UUID, tenant_id: UUID, request_id: str) -> str:
    """What ``operation_response`` says of a run that has just begun to make an allocation, before
    it is written: as JSON, with ``AT`` for the time. ``request_id`` is one that needs no quoting,
    as those of the middleware. Nearly every creation is answered with it."""
    return (
        _form_of_begun()
        .replace("@run@", str(run_id))
        .replace("@allocation@", str(allocation_id))
        .replace("@tenant@", str(tenant_id))
        .replace("@request@", request_id)
    )


@cache
def _form_of_begun() -> str:
    """The same with words for what differs from one to the next."""
    epoch = datetime.fromtimestamp(0, UTC)
    shown = operation_shown(run_as_begun(created_at=epoch, updated_at=epoch), operator=False)
    shown |= {"id": "@run@", "tenant": "@tenant@", "created_at": AT, "updated_at": AT}
    shown["target"]["id"], shown["metadata"]["request_id"] = "@allocation@", "@request@"
    return JSONRenderer().render(shown).decode()


def _message(run: WorkflowRun, message: str, step: dict[str, Any], operator: bool) -> str:
    """How far it is, in words: an ended one's are its error's, and go the error's way."""
    if operator or run.state == RunState.SUCCEEDED:
        return message
    if run.state in ENDED:
        return told.detail_told(str((run.error or {}).get("code", "")), message, operator=False)
    undoing = f"undoing {step.get('name', '')}" if run.state == RunState.COMPENSATING else ""
    return step.get("detail") or undoing


def _step(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": step["name"],
        "state": step["state"],
        "attempt": step.get("attempt", 0),
        "started_at": _utc(step.get("started_at")),
        "ended_at": _utc(step.get("ended_at")),
        "detail": step.get("detail") or "",
        "error": step.get("error"),
    }


def _utc(at: str | None) -> str | None:
    """A kept time as all times are written: in UTC, ending in Z."""
    return moment(datetime.fromisoformat(at)) if at else None


def _problem(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a run's stored error looks like as a problem."""
    if not error:
        return None
    code = str(error.get("code", ""))
    known = catalogue().get(code)
    return {
        "type": f"/problems/{code.replace('_', '-')}",
        "code": code,
        "title": known.title if known else code,
        "status": known.status if known else 500,
        "detail": error.get("detail") or (known.title if known else ""),
        "retryable": known.retryable if known else False,
        "unblock": known.unblock if known else "",
        "docs": f"/docs/reasons/{code}",
        "facts": error.get("facts") or {},
    }


def runs_of(view: TenantView) -> QuerySet[WorkflowRun]:
    """The runs that the caller may see."""
    rows = WorkflowRun.objects.all()
    return rows.filter(tenant_id=view.actor.tenant_id) if view.actor.tenant_id else rows


class Operations(TenantView):
    """What is and was being done."""

    @extend_schema(
        operation_id="operation_list",
        tags=["operations"],
        parameters=[wire.OperationQuery],
        responses=page_of(wire.OperationOut, "Operation"),
    )
    def get(self, request: Request) -> Response:
        """Operations, newest first."""
        query = wire.OperationQuery.read(request.query_params)
        rows = runs_of(self)
        if states := query.get("state"):
            # What is being taken back runs as well.
            also = ["compensating"] if "running" in states else []
            rows = rows.filter(state__in=[*states, *also])
        if target := query.get("target"):
            rows = rows.filter(subject_id=target)
        return Response(
            page(
                rows,
                query=query,
                name="operations",
                render=lambda found: [
                    operation_shown(run, operator=self.actor.operator) for run in found
                ],
            )
        )


class OperationDetail(TenantView):
    """One operation."""

    @extend_schema(
        operation_id="operation_get",
        tags=["operations"],
        parameters=[wire.WaitQuery],
        responses=wire.OperationOut,
    )
    def get(self, request: Request, operation_id: UUID) -> Response:
        """An operation; with ``?wait=30s`` the answer comes when it is done, or then."""
        query = wire.WaitQuery.read(request.query_params)
        parking.seconds_of(query.get("wait", ""))
        run = runs_of(self).filter(pk=operation_id).first()
        if run is None:
            raise NotFound
        self.run_row = run
        return operation_response(run, operator=self.actor.operator)

    def afterwards(self, response: HttpResponseBase) -> HttpResponseBase:
        """Wait for the end, when asked to."""
        wait_s = parking.seconds_of(self.request.query_params.get("wait", ""))
        return answered_when_done(self, self.run_row, wait_s, response)


def operation_response(run: WorkflowRun, *, operator: bool, status: int = 200) -> Response:
    """The answer that shows an operation, with where it is and when to look again."""
    headers = {"Location": location(run.pk)} if status == 202 else {}
    if run.state not in ENDED:
        headers["Retry-After"] = str(POLL_AFTER_S)
    return Response(operation_shown(run, operator=operator), status=status, headers=headers)


def location(run_id: UUID) -> str:
    """Where an operation is told."""
    return f"/api/v1/operations/{run_id}"


def answered_when_done(
    view: TenantView, run: WorkflowRun, wait_s: float, response: HttpResponseBase
) -> HttpResponseBase:
    """The response, replaced by a later one when the run ends within ``wait_s``."""
    if wait_s <= 0 or run.state in ENDED:
        return response

    def ended() -> WorkflowRun | None:
        return WorkflowRun.objects.filter(pk=run.pk, state__in=ENDED).first()

    topics = [workflow.topic_of(run.pk)]
    later = parking.until(topics, wait_s, view.actor.tenant_id, ended)
    if later is None:
        later = parking.until(topics, 0, view.actor.tenant_id, lambda: _fresh(run.pk))
    if later is None:
        return response
    return operation_response(later, operator=view.actor.operator, status=response.status_code)


def _fresh(run_id: UUID) -> WorkflowRun | None:
    return WorkflowRun.objects.filter(pk=run_id).first()
