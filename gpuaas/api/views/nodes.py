"""What do operators see of hosts, and do with them?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Input, Paged, Short
from gpuaas.api.pagination import page, part
from gpuaas.api.serializers import nodes as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.api.serializers.evidence import BurnInIn
from placement import selectors
from placement.domain.picture import WHOLE_NODE, ClaimFact, SlotFact, shown_state
from placement.models import Claim, Node, NodeDrain, NodeTask, Slot
from placement.services import agents, approvals, cuts
from placement.services import nodes as service
from placement.services.burn_in import burn_in_order
from placement.services.burn_in_stop import burn_in_stop
from placement.states import LIVE_CLAIM

TOPOLOGY_LISTS = (
    "numa",
    "switches",
    "gpus",
    "nics",
    "nvmes",
    "nvswitches",
    "nvlinks",
    "findings",
    "slots",
    "facts",
)


def nodes_shown(rows: list[Node]) -> list[dict[str, Any]]:
    """The representation of hosts."""
    postures = selectors.postures_of(row.pk for row in rows)
    return [dict(wire.NodeOut(_facts(row, postures[row.pk])).data) for row in rows]


def _facts(row: Node, posture: str) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "num": row.num,
        "pool": row.pool.name,
        "family": row.family.name if row.family else None,
        "state": row.state,
        "posture": posture,
        "intended": row.intended,
        "zone": row.zone,
        "block": row.block,
        "rack": row.rack,
        "fabric": row.fabric,
        "generation": row.generation,
        "slots_total": row.slot_count,
        "slots_free": row.free_count,
        "schedulable": row.schedulable,
        "health": row.health,
        "boot_id": row.boot_id,
        "agent_version": row.agent_version,
        "last_seen_at": row.last_seen_at,
        "created_at": row.created_at,
        "version": row.version,
        "part_kinds": row.part_kinds,
    }


def node_detailed(row: Node) -> dict[str, Any]:
    """The representation of one host with its four states and drains."""
    body = _facts(row, selectors.posture_of(row)) | {
        "states": _four(selectors.node_states(row)),
        "conditions": row.conditions,
        "drains": [
            {
                "slot_index": drain.slot_index,
                "reason": drain.reason,
                "owner": drain.owner,
                "created_at": drain.created_at,
            }
            for drain in NodeDrain.objects.filter(node=row, ended_at__isnull=True).order_by("id")
        ],
        "blocks": [b for of_slot in selectors.slot_blocks(row).values() for b in of_slot],
        "observed_at": row.observed_at,
        "topology_at": row.topology_at,
    }
    return dict(wire.NodeDetail(body).data)


def _four(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ("desired", "observed", "executing", "projected")}


class Nodes(OperatorView):
    """The fleet."""

    @extend_schema(
        operation_id="node_list",
        tags=["nodes"],
        parameters=[wire.NodeQuery],
        responses=page_of(wire.NodeOut, "Node"),
    )
    def get(self, request: Request) -> Response:
        """Hosts by name."""
        query = wire.NodeQuery.read(request.query_params)
        rows = selectors.node_list()
        if states := query.get("state"):
            rows = rows.filter(state__in=states)
        if pool := query.get("pool"):
            rows = rows.filter(pool__name=pool)
        return Response(page(rows, query=query, name="nodes", order=("name",), render=nodes_shown))

    @extend_schema(
        operation_id="node_create",
        tags=["nodes"],
        request=wire.NodeIn,
        responses={201: wire.NodeDetail},
        examples=examples.NODE,
    )
    def post(self, request: Request) -> Response:
        """Name a host that is expected to join."""
        given = wire.NodeIn.read(request.data)
        row = service.node_create(**given, actor=self.actor)
        return Response(node_detailed(selectors.node_named(str(row.pk))), status=201)


class NodeDetail(OperatorView):
    """One host."""

    @extend_schema(operation_id="node_get", tags=["nodes"], responses=wire.NodeDetail)
    def get(self, request: Request, node: str) -> Response:
        """A host by name or id, with its four states and their ages."""
        row = selectors.node_named(node)
        return self.tagged(request, node_detailed(row), version=row.version)


class NodeTopology(OperatorView):
    """A host's wiring."""

    @extend_schema(operation_id="node_topology", tags=["nodes"], responses=wire.TopologyOut)
    def get(self, request: Request, node: str) -> Response:
        """What the host reported: unknown is null, with a finding that says so."""
        row = selectors.node_named(node)
        report = row.topology
        body: dict[str, Any] = {
            "node": {"id": row.pk, "name": row.name},
            "as_of": row.topology_at,
            "known": bool(report.get("gpus")),
            "hostname": report.get("hostname"),
            "source": report.get("source"),
        }
        body |= {name: report.get(name) or [] for name in TOPOLOGY_LISTS}
        return Response(wire.TopologyOut(body).data)


class NodeTasks(OperatorView):
    """A host's work."""

    @extend_schema(
        operation_id="node_task_list",
        tags=["nodes"],
        parameters=[Paged],
        responses=page_of(wire.TaskOut, "Task"),
    )
    def get(self, request: Request, node: str) -> Response:
        """What the host was asked to do, newest first."""
        query = Paged.read(request.query_params)
        row = selectors.node_named(node)
        return Response(
            page(
                NodeTask.objects.filter(node=row),
                query=query,
                name=f"tasks of {row.pk}",
                render=lambda found: [_task_shown(task) for task in found],
            )
        )


_TASK_FIELDS = (
    "id",
    "kind",
    "state",
    "attempt",
    "lease_epoch",
    "lease_until",
    "step",
    "percent",
    "due_at",
    "deadline_at",
    "created_at",
    "ended_at",
)


def _task_shown(task: NodeTask) -> dict[str, Any]:
    error = task.error or {}
    body: dict[str, Any] = {name: getattr(task, name) for name in _TASK_FIELDS}
    body["allocation"] = task.allocation_id
    body["error_code"] = error.get("code")
    body["error_detail"] = error.get("detail")
    return dict(wire.TaskOut(body).data)


class NodeSlots(OperatorView):
    """A host's slots."""

    @extend_schema(
        operation_id="node_slot_list", tags=["nodes"], parameters=[Short], responses=wire.SlotList
    )
    def get(self, request: Request, node: str) -> Response:
        """Slots with what holds them."""
        query = Short.read(request.query_params)
        row = selectors.node_named(node)
        return Response(part(slots_shown(row), query=query, name=f"slots {row.pk}"))


def slots_shown(node: Node) -> list[dict[str, Any]]:
    """The representation of a host's slots."""
    blocks = selectors.slot_blocks(node)
    traces = selectors.residue_of([node.pk]).get(node.pk, {})
    claims = {
        claim.slot_index: claim
        for claim in Claim.objects.filter(
            node_num=node.num, state__in=LIVE_CLAIM, part__isnull=True
        ).select_related("tenant")
    }
    parts, free = selectors.held_parts(node), selectors.free_milli(node)
    links = {
        one.index: {str(other): count for other, count in enumerate(one.counts) if count}
        for one in selectors.links_of(node)
    }
    drains = set(
        NodeDrain.objects.filter(node=node, ended_at__isnull=True).values_list(
            "slot_index", flat=True
        )
    )
    shown = []
    for slot in selectors.slot_list(node):
        claim = claims.get(slot.index) or claims.get(WHOLE_NODE)
        draining = None in drains or slot.index in drains
        fact = SlotFact(
            slot.index,
            slot.state,
            slot.gpu_uuid,
            slot.gpu_index,
            draining=draining,
            residue=slot.index in traces,
        )
        held = parts.get(slot.index, [])
        body = _slot_shown(slot, claim, fact, held, selectors.blocks_on(blocks, slot.index))
        body["free_milli"] = free.get(slot.index)
        body["nvlink_links"] = links.get(slot.index)
        shown.append(dict(wire.SlotOut(body).data))
    return shown


def _display_state(fact: SlotFact, claim: Claim | None, *, parted: bool) -> str:
    if claim is None:
        return shown_state(fact, None, parted=parted)
    held = ClaimFact(claim.slot_index, claim.state, claim.holder, "", "")
    return shown_state(fact, held)


def _slot_shown(
    slot: Slot,
    claim: Claim | None,
    fact: SlotFact,
    parts: list[selectors.HeldPart],
    blocks: list[selectors.Block],
) -> dict[str, Any]:
    return {
        "id": slot.pk,
        "index": slot.index,
        "state": slot.state,
        "display_state": _display_state(fact, claim, parted=bool(parts)),
        "gpu_uuid": slot.gpu_uuid,
        "gpu_index": slot.gpu_index,
        "numa": slot.numa,
        "switch": slot.switch or None,
        "nvlink_domain": slot.nvlink_domain or None,
        "cpuset": slot.cpuset or None,
        "memory_bytes": slot.memory_bytes,
        "nic": slot.nic or None,
        "nic_mode": slot.nic_mode,
        "nvme": slot.nvme or None,
        "block_reason": slot.block_reason,
        "claim": None if claim is None else _claim_shown(claim),
        "blocks": blocks,
        "cut": slot.cut,
        "parts": [
            {
                **_claim_shown(part.claim),
                "kind": part.kind,
                "part": part.label,
                "spans": part.spans,
            }
            for part in parts
        ],
    }


def _claim_shown(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.pk,
        "state": claim.state,
        "holder": claim.holder,
        "tenant": {"id": claim.tenant_id, "name": claim.tenant.slug},
        "allocation": claim.allocation_id,
    }


class NodeJoinToken(OperatorView):
    """An invitation for a host."""

    remembers = False

    @extend_schema(
        operation_id="node_join_token_create",
        tags=["nodes"],
        request=wire.JoinTokenIn,
        responses={201: wire.JoinTokenOut},
    )
    def post(self, request: Request, node: str) -> Response:
        """Make a one-time join token for this host. Its text is in this answer only."""
        given = wire.JoinTokenIn.read(request.data)
        row = selectors.node_named(node)
        token, text = agents.join_token_create(
            node_id=row.pk, ttl_s=given["ttl_s"], actor=self.actor
        )
        body = {
            "token": text,
            "node": {"id": row.pk, "name": row.name},
            "expires_at": token.expires_at,
        }
        return Response(wire.JoinTokenOut(body).data, status=201)


class NodeDiscover(OperatorView):
    """A look at the host."""

    @extend_schema(
        operation_id="node_discover",
        tags=["nodes"],
        request=None,
        responses={202: wire.TaskOut},
    )
    def post(self, request: Request, node: str) -> Response:
        """Ask the host for its wiring. The answer is the task."""
        task = service.node_discover(node_id=selectors.node_named(node).pk, actor=self.actor)
        task.refresh_from_db()
        return Response(_task_shown(task), status=202)


class NodeBurnIn(OperatorView):
    """A host under load."""

    @extend_schema(
        operation_id="node_burn_in",
        tags=["nodes"],
        request=BurnInIn,
        responses={202: wire.TaskOut},
    )
    def post(self, request: Request, node: str) -> Response:
        """Have a free host put its GPUs under load; the result is evidence. The answer is the task.

        Nothing is placed there meanwhile. Repeating it while one is open answers with that one.
        """
        given = BurnInIn.read(request.data)
        row = selectors.node_named(node)
        task = burn_in_order(node_id=row.pk, **given, actor=self.actor)
        task.refresh_from_db()
        return Response(_task_shown(task), status=202)


class NodeBurnInStop(OperatorView):
    """The end of a burn-in before its time."""

    @extend_schema(
        operation_id="node_burn_in_stop",
        tags=["nodes"],
        request=Reasoned,
        responses={202: wire.TaskOut},
    )
    def post(self, request: Request, node: str) -> Response:
        """Stop a burn-in that is open or runs. The answer is its task, cancelled.

        The task's `ended_at` is null until the host has shown that its load is over; the host takes
        no work until then. What the burn-in has found is no evidence. Repeating it is one.
        """
        given = Reasoned.read(request.data)
        row = selectors.node_named(node)
        task = burn_in_stop(node_id=row.pk, reason=given["reason"], actor=self.actor)
        task.refresh_from_db()
        return Response(_task_shown(task), status=202)


class NodeAction(OperatorView):
    """One of the moves that an operator makes with a host."""


def _action(
    verb: str, service: Callable[..., Any], summary: str, reads: type[Input] = Reasoned
) -> type[NodeAction]:
    @extend_schema(
        operation_id=f"node_{verb}",
        tags=["nodes"],
        summary=summary,
        request=reads,
        responses=wire.NodeDetail,
    )
    def post(self: NodeAction, request: Request, node: str) -> Response:
        """Make the move, with its reason."""
        given = reads.read(request.data)
        row = selectors.node_named(node)
        service(node_id=row.pk, **given, actor=self.actor)
        return Response(node_detailed(selectors.node_named(str(row.pk))))

    return type(f"Node{verb.title()}", (NodeAction,), {"post": post, "__doc__": f"{summary}."})


NodeApprove = _action(
    "approve", approvals.node_approve, "Approve what was discovered", wire.ApproveIn
)
NodeDrainOrder = _action("drain", service.node_drain, "Take no new work there", wire.DrainIn)
NodeUndrain = _action("undrain", service.node_undrain, "End a drain", wire.DrainIn)
NodeCut = _action("cut", cuts.slot_cut, "Sell a slot whole or in parts", wire.CutIn)
NodeMaintain = _action("maintain", service.node_maintain, "Take a host out for maintenance")
NodeQuarantine = _action("quarantine", service.node_quarantine, "Set a host apart")
NodeRestore = _action("restore", service.node_restore, "Bring a host back")
NodeRetire = _action("retire", service.node_retire, "Take a host out for good")
NodeRevoke = _action("revoke", agents.credential_revoke, "End every credential of the host at once")
