"""How does a tenant run, change and stop a workload?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.models import AdmissionRequest, Workload
from gpuaas.api import conditional, examples
from gpuaas.api.base import TenantView
from gpuaas.api.fields import Input
from gpuaas.api.pagination import is_id, page
from gpuaas.api.serializers import allocations as lease_wire
from gpuaas.api.serializers import workloads as wire
from gpuaas.api.serializers.common import DecisionOut, page_of
from gpuaas.api.views.allocations import plan_shown
from gpuaas.api.views.projects import project_named
from gpuaas.kernel.errors import NotFound
from placement import selectors
from placement.models import Allocation
from placement.services import workload_changes as changes
from placement.services import workloads as service
from placement.services.allocations import Ticket
from placement.services.workload_changes import Change, ChangePlan, change_plan
from placement.states import AllocationState

FILTERS = {"state": "state__in", "kind": "kind__in", "name": "name", "q": "name__icontains"}


def workloads_of(view: TenantView) -> QuerySet[Workload]:
    """The workloads that the caller may see."""
    rows = Workload.objects.select_related("sku", "project", "tenant")
    return rows.filter(tenant_id=view.actor.tenant_id) if view.actor.tenant_id else rows


def workload_of(view: TenantView, workload_id: UUID) -> Workload:
    """One of them. Raises NotFound."""
    row = workloads_of(view).filter(pk=workload_id).first()
    if row is None:
        raise NotFound
    return row


def workloads_shown(rows: list[Workload]) -> list[dict[str, Any]]:
    """The representation of workloads, in three queries."""
    ids = [row.pk for row in rows]
    asked: dict[UUID | None, list[UUID]] = {}
    requests = AdmissionRequest.objects.filter(workload__in=ids).order_by("-created_at")
    for workload_id, request_id in requests.values_list("workload_id", "id"):
        asked.setdefault(workload_id, []).append(request_id)
    held: dict[UUID | None, list[UUID]] = {}
    live = Allocation.objects.filter(workload__in=ids).exclude(state=AllocationState.RELEASED)
    for workload_id, allocation_id in live.order_by("created_at").values_list("workload_id", "id"):
        held.setdefault(workload_id, []).append(allocation_id)
    return [
        {
            "id": row.pk,
            "name": row.name,
            "kind": row.kind,
            "project": {"id": row.project_id, "name": row.project.slug},
            "tenant": {"id": row.tenant_id, "name": row.tenant.slug},
            "sku": row.sku.name,
            "slots": row.slots,
            "replicas": row.replicas,
            "band": row.band,
            "batch_size": row.batch_size,
            "spec": row.spec,
            "state": row.state,
            "outcome": row.outcome,
            "reason": row.code,
            "generation": row.generation,
            "requests": asked.get(row.pk, []),
            "allocations": held.get(row.pk, []),
            "created_at": row.created_at,
            "ended_at": row.ended_at,
            "version": row.version,
        }
        for row in rows
    ]


def workload_shown(row: Workload) -> dict[str, Any]:
    """The representation of one."""
    return dict(wire.WorkloadOut(workloads_shown([row])[0]).data)


def ticket_response(view: TenantView, ticket: Ticket, workload_id: UUID) -> Response:
    """The workload after an action that was admitted, or that waits."""
    body = {
        "workload": workload_shown(workload_of(view, workload_id)),
        "request": ticket.request_id,
        "operation": ticket.run_id,
    }
    return Response(wire.WorkloadTicket(body).data, status=202)


class Workloads(TenantView):
    """The tenant's workloads."""

    @extend_schema(
        operation_id="workload_list",
        tags=["workloads"],
        parameters=[wire.WorkloadQuery],
        responses=page_of(wire.WorkloadOut, "Workload"),
    )
    def get(self, request: Request) -> Response:
        """Workloads, newest first."""
        query = wire.WorkloadQuery.read(request.query_params)
        rows = workloads_of(self)
        if project := query.get("project"):
            found = is_id(project)
            rows = rows.filter(project_id=found) if found else rows.filter(project__slug=project)
        return workloads_listed(rows, query, "workloads")


def workloads_listed(rows: QuerySet[Workload], query: dict[str, Any], name: str) -> Response:
    """A page of workloads."""
    for word, field in FILTERS.items():
        if query.get(word):
            rows = rows.filter(**{field: query[word]})
    return Response(
        page(
            rows,
            query=query,
            name=name,
            render=lambda found: wire.WorkloadOut(workloads_shown(found), many=True).data,
        )
    )


def order_of(given: dict[str, Any]) -> service.WorkloadOrder:
    """The order that the services understand."""
    keys = tuple(dict.fromkeys(given.pop("ssh_keys")))
    given |= {name: tuple(given[name]) for name in ("zones", "datasets", "storage")}
    return service.WorkloadOrder(ssh_key_ids=keys, **given)


class ProjectWorkloads(TenantView):
    """A project's workloads, and the way to a new one."""

    key_required = True

    @extend_schema(
        operation_id="project_workload_list",
        tags=["workloads"],
        parameters=[wire.ProjectWorkloadQuery],
        responses=page_of(wire.WorkloadOut, "Workload"),
    )
    def get(self, request: Request, project: str) -> Response:
        """The project's workloads, newest first."""
        query = wire.ProjectWorkloadQuery.read(request.query_params)
        row = project_named(self, project)
        rows = workloads_of(self).filter(project=row)
        return workloads_listed(rows, query, f"workloads of {row.pk}")

    @extend_schema(
        operation_id="workload_create",
        tags=["workloads"],
        request=wire.WorkloadIn,
        responses={202: wire.WorkloadTicket},
        examples=examples.WORKLOADS,
    )
    def post(self, request: Request, project: str) -> Response:
        """Submit a job, create a service or deploy a model: all of its replicas, or none."""
        ticket = service.workload_create(
            tenant_id=self.tenant_id,
            project_id=project_named(self, project).pk,
            order=order_of(wire.WorkloadIn.read(request.data)),
            actor=self.actor,
        )
        if ticket.workload_id is None:
            raise NotFound
        return ticket_response(self, ticket, ticket.workload_id)


class WorkloadPlan(TenantView):
    """What a workload would do."""

    remembers = False

    @extend_schema(
        operation_id="workload_plan",
        tags=["workloads"],
        request=wire.WorkloadIn,
        responses=lease_wire.PlanOut,
        examples=examples.WORKLOADS,
    )
    def post(self, request: Request, project: str) -> Response:
        """Decide, look for room for every replica, and price them all, changing nothing."""
        plan = service.workload_plan(
            tenant_id=self.tenant_id,
            project_id=project_named(self, project).pk,
            order=order_of(wire.WorkloadIn.read(request.data)),
            actor=self.actor,
        )
        return Response(plan_shown(self, plan))


class WorkloadDetail(TenantView):
    """One workload."""

    @extend_schema(operation_id="workload_get", tags=["workloads"], responses=wire.WorkloadOut)
    def get(self, request: Request, workload_id: UUID) -> Response:
        """A workload with its requests and what it holds."""
        row = workload_of(self, workload_id)
        return self.tagged(request, workload_shown(row), version=row.version)


class WorkloadExplain(TenantView):
    """Why it is where it is."""

    @extend_schema(operation_id="workload_explain", tags=["workloads"], responses=DecisionOut)
    def get(self, request: Request, workload_id: UUID) -> Response:
        """The decision on its last request: gates in order, and what would help."""
        row = workload_of(self, workload_id)
        last = AdmissionRequest.objects.filter(workload=row).order_by("-created_at").first()
        if last is None:
            raise NotFound
        found = selectors.request_explain(last.pk, operator=self.actor.operator)
        return Response(DecisionOut(found).data)


class WorkloadStop(TenantView):
    """The end of a workload."""

    heeds_version = True

    @extend_schema(
        operation_id="workload_stop",
        tags=["workloads"],
        request=lease_wire.ReleaseIn,
        responses={202: wire.WorkloadOut},
    )
    def post(self, request: Request, workload_id: UUID) -> Response:
        """Withdraw what waits for it and release what it holds. Repeating it is one."""
        given = lease_wire.ReleaseIn.read(request.data)
        row = workload_of(self, workload_id)
        service.workload_stop(
            workload_id=row.pk,
            actor=self.actor,
            version=conditional.heed_version(request, row.version),
            **given,
        )
        return Response(workload_shown(workload_of(self, workload_id)), status=202)


def plan_of_change(view: TenantView, found: ChangePlan) -> dict[str, Any]:
    """A change's plan over the wire."""
    shown = plan_shown(view, found.plan) | {
        "before": dict(found.before),
        "after": dict(found.after),
        "takes": found.takes,
        "releases": [{"id": pk, "name": name} for pk, name in found.releases],
        "released_after": found.released_after,
        "waiting": found.waiting,
        "workload_hour_before_micro": found.hour_before_micro,
        "workload_hour_after_micro": found.hour_after_micro,
    }
    return dict(wire.ChangePlanOut(shown).data)


class WorkloadAction(TenantView):
    """One change of a workload, decided by the same gates as its creation."""

    key_required = True


class WorkloadActionPlan(TenantView):
    """What one change of a workload would do."""

    remembers = False


def _given(body: type[Input], request: Request) -> dict[str, Any]:
    given = body.read(request.data)
    return given | {n: tuple(given[n]) for n in ("zones", "datasets") if n in given}


def _action(
    verb: str,
    change: Callable[..., Ticket],
    body: type[Input],
    summary: str,
    shown: list[OpenApiExample],
) -> type[WorkloadAction]:
    @extend_schema(
        operation_id=f"workload_{verb}",
        tags=["workloads"],
        summary=summary,
        request=body,
        responses={202: wire.WorkloadTicket},
        examples=shown,
    )
    def post(self: WorkloadAction, request: Request, workload_id: UUID) -> Response:
        """Decide, and make the change."""
        given = _given(body, request)
        row = workload_of(self, workload_id)
        ticket = change(workload_id=row.pk, actor=self.actor, **given)
        return ticket_response(self, ticket, row.pk)

    name = f"Workload{verb.title().replace('_', '')}"
    return type(name, (WorkloadAction,), {"post": post, "__doc__": f"{summary}."})


def _action_plan(
    verb: str,
    asked: Callable[..., Change],
    body: type[Input],
    summary: str,
    shown: list[OpenApiExample],
) -> type[WorkloadActionPlan]:
    summary = f"What would be decided: {summary[0].lower()}{summary[1:]}"

    @extend_schema(
        operation_id=f"workload_{verb}_plan",
        tags=["workloads"],
        summary=summary,
        request=body,
        responses=wire.ChangePlanOut,
        examples=shown,
    )
    def post(self: WorkloadActionPlan, request: Request, workload_id: UUID) -> Response:
        """Decide, look for room, and say what is taken, released and paid, changing nothing."""
        given = _given(body, request)
        row = workload_of(self, workload_id)
        plan = change_plan(asked(workload_id=row.pk, actor=self.actor, **given), actor=self.actor)
        return Response(plan_of_change(self, plan))

    name = f"Workload{verb.title().replace('_', '')}Plan"
    return type(name, (WorkloadActionPlan,), {"post": post, "__doc__": f"{summary}."})


_SCALE = (wire.ScaleIn, "Run more or fewer replicas", examples.SCALE)
_BATCH_SIZE = (wire.BatchSizeIn, "Change the batch size", examples.BATCH_SIZE)
_SHARING = (wire.SharingIn, "Say how its GPUs may be shared", examples.SHARING)
_PLACEMENT = (wire.PlacementIn, "Move it: new places first", examples.PLACEMENT)
_PRIORITY = (wire.PriorityIn, "Change its priority", examples.PRIORITY)

WorkloadScale = _action("scale", service.workload_scale, *_SCALE)
WorkloadBatchSize = _action("batch_size", service.workload_batch_size, *_BATCH_SIZE)
WorkloadSharing = _action("sharing", service.gpu_sharing, *_SHARING)
WorkloadPlacement = _action("placement", service.workload_placement, *_PLACEMENT)
WorkloadPriority = _action("priority", service.workload_priority, *_PRIORITY)
WorkloadScalePlan = _action_plan("scale", changes.scale_change, *_SCALE)
WorkloadBatchSizePlan = _action_plan("batch_size", changes.batch_size_change, *_BATCH_SIZE)
WorkloadSharingPlan = _action_plan("sharing", changes.sharing_change, *_SHARING)
WorkloadPlacementPlan = _action_plan("placement", changes.placement_change, *_PLACEMENT)
WorkloadPriorityPlan = _action_plan("priority", changes.priority_change, *_PRIORITY)
