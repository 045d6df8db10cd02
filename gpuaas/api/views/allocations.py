"""How does a tenant ask for capacity, look at it, and give it back?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.domain.outcome import outcome_of
from gpuaas.api import conditional, examples, idempotent, parking
from gpuaas.api.base import ProductView, TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import cursor_at, is_id, limit_of, page, position_of
from gpuaas.api.parsing import StrictJSONParser, loads
from gpuaas.api.serializers import allocations as wire
from gpuaas.api.serializers.common import ExplanationOut, Timeline, page_of
from gpuaas.api.views.operations import (
    POLL_AFTER_S,
    answered_when_done,
    begun_form,
    location,
    operation_response,
)
from gpuaas.api.views.projects import project_named
from gpuaas.kernel import idempotency
from gpuaas.kernel.errors import NotFound, ProductError, catalogue
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.scope import platform_scope
from placement import selectors
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Node
from placement.selectors.occupants import ends_at_of
from placement.services import allocations as service

FILTERS = {"state": "state__in", "sku": "sku__name", "name": "name", "q": "name__icontains"}
JSON = StrictJSONParser.media_type


def allocations_of(view: ProductView) -> QuerySet[Allocation]:
    """The allocations that the caller may see."""
    rows = Allocation.objects.select_related("sku", "project", "tenant", "request")
    tenant_id = view.actor.tenant_id
    return rows.filter(tenant_id=tenant_id) if tenant_id else rows


def allocation_of(view: ProductView, allocation_id: UUID) -> Allocation:
    """One allocation of the caller's. Raises NotFound."""
    row = allocations_of(view).filter(pk=allocation_id).first()
    if row is None:
        raise NotFound
    return row


def allocations_shown(
    view: ProductView, rows: list[Allocation], *, states: bool = False
) -> list[dict[str, Any]]:
    """The representation of allocations; the node's name is for operators only."""
    names: dict[UUID, str] = {}
    if view.actor.operator:
        with platform_scope():
            names = dict(
                Node.objects.filter(pk__in={row.node_id for row in rows}).values_list("id", "name")
            )
    operator = view.actor.operator
    return [_shown(row, names.get(row.node_id), states, operator) for row in rows]


def _shown(row: Allocation, node_name: str | None, states: bool, operator: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": row.pk,
        "name": row.name,
        "project": {"id": row.project_id, "name": row.project.slug},
        "tenant": {"id": row.tenant_id, "name": row.tenant.slug},
        "sku": row.sku.name,
        "shape": row.shape,
        "slots": row.slots,
        "tier": row.tier,
        "image": row.image,
        "hostname": row.hostname,
        "state": row.state,
        "phase": selectors.allocation_phase(row),
        "outcome": row.outcome,
        "outcome_code": row.outcome_code,
        "outcome_detail": selectors.outcome_detail(row, operator=operator),
        "connection": _connection(row.connection),
        "node": {"id": row.node_id, "name": node_name} if node_name else None,
        "price_hour_micro": row.price_hour_micro,
        "currency": row.currency,
        "operation": row.run_id,
        "request_id": row.request_id,
        "created_at": row.created_at,
        "active_at": row.active_at,
        "released_at": row.released_at,
        "ends_at": ends_at_of(row),
        "version": row.version,
    }
    if states:
        body["states"] = selectors.allocation_states(row)
    return dict(wire.AllocationOut(body).data)


def _connection(kept: dict[str, Any] | None) -> dict[str, Any] | None:
    if not kept:
        return None
    return {name: kept[name] for name in ("host", "port", "user", "command")}


def order_of(given: dict[str, Any]) -> AllocationOrder:
    """The order behind a validated body."""
    return AllocationOrder(
        sku=given["sku"],
        slots=given["slots"],
        name=given["name"] or "",
        image=given["image"] or "",
        ssh_key_ids=tuple(dict.fromkeys(given["ssh_keys"])),
        wait=given["wait"],
        tier=given["tier"] or "",
        own=given["own"],
        max_duration_s=given["max_duration_s"],
    )


def plan_response(view: TenantView, project_id: UUID, order: AllocationOrder) -> Response:
    """What the order would do."""
    plan = service.allocation_plan(
        tenant_id=view.tenant_id, project_id=project_id, order=order, actor=view.actor
    )
    return Response(plan_shown(view, plan))


def plan_shown(view: TenantView, plan: service.Plan) -> dict[str, Any]:
    """A plan over the wire."""
    known = catalogue().get(plan.code)
    verdict = "admit" if plan.fits else "wait" if plan.would_wait else "deny"
    operator = view.actor.operator
    body = {
        "fits": plan.fits,
        "node_hint": _place(plan.choice) if operator else None,
        "price_hour_micro": plan.price_hour_micro,
        "price_month_micro": plan.price_month_micro,
        "currency": plan.currency,
        "envelope": {
            "resource_class": plan.resource_class,
            "before": plan.envelope_before_milli,
            "after": plan.envelope_after_milli,
            "limit": plan.envelope_limit_milli,
        },
        "queue_position": plan.queue_ahead + 1 if verdict != "deny" else None,
        "decision": {
            "decision": None,
            "request": None,
            "verdict": verdict,
            "outcome_class": outcome_of(verdict, plan.code),
            "code": plan.code,
            "detail": plan.detail,
            "unblock": known.unblock if known else "",
            "gates": plan.gates,
            "winner": plan.choice if operator else None,
            "runner_up": plan.runner_up if operator else None,
            "why": plan.detail,
            "envelope_version": 0,
            "digest": "",
            "decided_at": None,
        },
    }
    return dict(wire.PlanOut(body).data)


def _place(choice: dict[str, Any] | None) -> str | None:
    """The name of the host that would be chosen."""
    if choice is None:
        return None
    with platform_scope():
        row = Node.objects.filter(num=choice["node_num"]).values_list("name").first()
    return str(row[0]) if row else None


class ProjectAllocations(TenantView):
    """A project's allocations, and the way to a new one."""

    run_row: WorkflowRun | None = None

    key_required = True

    def needs_key(self, request: Request) -> bool:
        """A creation must be safe to repeat; a dry run is, by itself."""
        return "dry_run" not in request.query_params

    def run(
        self, handler: Callable[..., HttpResponseBase], request: Request, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """An order that nothing stands against is one statement; all else goes the long way."""
        meta = request._request.META
        if request.method == "POST" and not (meta.get("QUERY_STRING") or "HTTP_IF_MATCH" in meta):
            at_once = self._at_once(request, kwargs["project"])
            if at_once is not None:
                return at_once
        return super().run(handler, request, *args, **kwargs)

    def _at_once(self, request: Request, project: str) -> HttpResponse | None:
        """The answer to an order that was placed with its key, or None: nothing is written then,
        and whatever is to be said against it, the long way says."""
        actor, project_id = self.actor, is_id(project)
        if actor.tenant_id is None or project_id is None or request.content_type != JSON:
            return None
        if actor.operator:
            # Operators are told more of an operation than its tenant.
            return None
        tenant_id = actor.tenant_id
        try:
            given = wire.OrderIn.read(loads(request._request.body))
        except ProductError:
            return None

        def carried(run_id: UUID, allocation_id: UUID) -> idempotency.Carried:
            form = begun_form(
                run_id=run_id,
                allocation_id=allocation_id,
                tenant_id=tenant_id,
                request_id=actor.request_id,
            )
            headers = {"Location": location(run_id), "Retry-After": str(POLL_AFTER_S)}
            return idempotent.carried(request, actor, status=202, form=form, headers=headers)

        done = service.allocation_at_once(
            tenant_id=tenant_id,
            project_id=project_id,
            order=order_of(given),
            actor=actor,
            carried=carried,
        )
        return idempotent.carried_answer(*done) if done is not None else None

    @extend_schema(
        operation_id="project_allocation_list",
        tags=["allocations"],
        parameters=[wire.ProjectAllocationQuery],
        responses=page_of(wire.AllocationOut, "Allocation"),
    )
    def get(self, request: Request, project: str) -> Response:
        """The project's allocations, newest first."""
        query = wire.ProjectAllocationQuery.read(request.query_params)
        row = project_named(self, project)
        rows = allocations_of(self).filter(project=row)
        return listed(self, rows, query, f"allocations of {row.pk}")

    @extend_schema(
        operation_id="allocation_create",
        tags=["allocations"],
        parameters=[wire.OrderQuery],
        request=wire.OrderIn,
        responses={202: wire.OperationOut, 200: wire.PlanOut},
        examples=examples.ORDERS,
    )
    def post(self, request: Request, project: str) -> Response:
        """Ask for capacity. The answer is the operation that makes it, or why not.

        ``?dry_run=server`` answers with the plan instead and changes nothing.
        """
        query = wire.OrderQuery.read(request.query_params)
        parking.seconds_of(query.get("wait", ""))
        given = wire.OrderIn.read(request.data)
        if "dry_run" in query:
            return plan_response(self, project_named(self, project).pk, order_of(given))
        # Whether the tenant has a project of this id is read with all else that is decided on.
        project_id = is_id(project) or project_named(self, project).pk
        try:
            ticket = service.allocation_request(
                tenant_id=self.tenant_id,
                project_id=project_id,
                order=order_of(given),
                actor=self.actor,
            )
        except ProductError as refusal:
            if not refusal.keep:
                # An order that cannot be understood tells nothing about a project of others.
                project_named(self, project)
            raise
        self.run_row = ticket.run
        return operation_response(ticket.run, operator=self.actor.operator, status=202)

    def afterwards(self, response: HttpResponseBase) -> HttpResponseBase:
        """Wait for the end, when asked to."""
        if self.run_row is None:
            return response
        wait_s = parking.seconds_of(self.request.query_params.get("wait", ""))
        return answered_when_done(self, self.run_row, wait_s, response)


def listed(
    view: TenantView, rows: QuerySet[Allocation], query: dict[str, Any], name: str
) -> Response:
    """A page of allocations."""
    for word, field in FILTERS.items():
        if query.get(word):
            rows = rows.filter(**{field: query[word]})
    return Response(
        page(rows, query=query, name=name, render=lambda found: allocations_shown(view, found))
    )


class AllocationPlan(TenantView):
    """What an order would do."""

    remembers = False

    @extend_schema(
        operation_id="allocation_plan",
        tags=["allocations"],
        request=wire.OrderIn,
        responses=wire.PlanOut,
        examples=examples.ORDERS,
    )
    def post(self, request: Request, project: str) -> Response:
        """Decide, search and price an order, changing nothing."""
        given = wire.OrderIn.read(request.data)
        return plan_response(self, project_named(self, project).pk, order_of(given))


class Allocations(TenantView):
    """All of the tenant's allocations."""

    @extend_schema(
        operation_id="allocation_list",
        tags=["allocations"],
        parameters=[wire.AllocationQuery],
        responses=page_of(wire.AllocationOut, "Allocation"),
    )
    def get(self, request: Request) -> Response:
        """Allocations, newest first. Operators without a tenant see everybody's."""
        query = wire.AllocationQuery.read(request.query_params)
        rows = allocations_of(self)
        if project := query.get("project"):
            found = is_id(project)
            rows = rows.filter(project_id=found) if found else rows.filter(project__slug=project)
        return listed(self, rows, query, "allocations")


class AllocationDetail(TenantView):
    """One allocation."""

    @extend_schema(
        operation_id="allocation_get", tags=["allocations"], responses=wire.AllocationOut
    )
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """An allocation with its four states and their ages."""
        row = allocation_of(self, allocation_id)
        (body,) = allocations_shown(self, [row], states=True)
        return self.tagged(request, body, version=row.version)

    @extend_schema(
        operation_id="allocation_rename",
        tags=["allocations"],
        request=wire.RenameIn,
        responses=wire.AllocationOut,
    )
    def patch(self, request: Request, allocation_id: UUID) -> Response:
        """Rename it. If-Match must name the version that was read."""
        row = allocation_of(self, allocation_id)
        conditional.require_version(request, row.version)
        given = wire.RenameIn.read(request.data)
        service.allocation_rename(
            allocation_id=row.pk, name=given["name"], version=row.version, actor=self.actor
        )
        fresh = allocation_of(self, allocation_id)
        (body,) = allocations_shown(self, [fresh], states=True)
        return self.tagged(request, body, version=fresh.version)


class AllocationRelease(TenantView):
    """The end of an allocation."""

    heeds_version = True
    run_row: WorkflowRun | None = None

    @extend_schema(
        operation_id="allocation_release",
        tags=["allocations"],
        parameters=[wire.WaitQuery],
        request=wire.ReleaseIn,
        responses={202: wire.OperationOut},
        examples=examples.RELEASE,
    )
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Give it back, or cancel it before it is active. Repeating it has the effect of one."""
        query = wire.WaitQuery.read(request.query_params)
        parking.seconds_of(query.get("wait", ""))
        given = wire.ReleaseIn.read(request.data)
        row = allocation_of(self, allocation_id)
        run = service.allocation_release(
            allocation_id=row.pk,
            reason=given["reason"],
            actor=self.actor,
            version=conditional.heed_version(request, row.version),
        )
        self.run_row = run
        return operation_response(run, operator=self.actor.operator, status=202)

    def afterwards(self, response: HttpResponseBase) -> HttpResponseBase:
        """Wait for the end, when asked to."""
        if self.run_row is None:
            return response
        wait_s = parking.seconds_of(self.request.query_params.get("wait", ""))
        return answered_when_done(self, self.run_row, wait_s, response)


class AllocationTimeline(TenantView):
    """What happened to it."""

    @extend_schema(
        operation_id="allocation_timeline",
        tags=["allocations"],
        parameters=[Paged],
        responses=Timeline,
    )
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """What happened to an allocation, newest first, back to its request."""
        query = Paged.read(request.query_params)
        row = allocation_of(self, allocation_id)
        name = f"timeline of {row.pk}"
        part = selectors.allocation_timeline(
            row.pk,
            operator=self.actor.operator,
            after=position_of(query, name=name),
            limit=limit_of(query),
        )
        return Response(
            Timeline({"items": part.items, "next": cursor_at(part.after, name=name)}).data
        )


class AllocationExplain(TenantView):
    """Why it is where it is."""

    @extend_schema(
        operation_id="allocation_explain", tags=["allocations"], responses=ExplanationOut
    )
    def get(self, request: Request, allocation_id: UUID) -> Response:
        """The decision: gates in order, the numbers compared, the place chosen."""
        row = allocation_of(self, allocation_id)
        found = selectors.allocation_explain(row.pk, operator=self.actor.operator)
        return Response(ExplanationOut(found).data)
