"""What do operators read of hosts and holds, and which actions do they have?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from gpuaas.kernel.actor import Actor
from gpuaas.kernel.records import RecordAdmin, reasoned
from placement.models import (
    Allocation,
    Claim,
    CleanupOverride,
    CleanupProof,
    GpuDevice,
    Image,
    Node,
    NodeCredential,
    NodeDrain,
    NodeFamily,
    NodeTask,
    Pool,
    Slot,
)
from placement.services import approvals, cleanup, nodes, overrides
from placement.states import NODE, AllocationState, NodeState


def _approve(row: Node, reason: str, actor: Actor) -> object:
    return approvals.node_approve(node_id=row.pk, reason=reason, actor=actor, family=_fitting(row))


def _fitting(row: Node) -> str | None:
    """The one family with as many slots, for a node that has none yet."""
    if row.family_id is not None:
        return None
    count = row.slots.exclude(state="retired").count()
    fit = NodeFamily.objects.filter(slots=count, retired_at__isnull=True)
    names = list(fit.values_list("name", flat=True)[:2])
    return names[0] if len(names) == 1 else None


def _drain(row: Node, reason: str, actor: Actor) -> object:
    return nodes.node_drain(node_id=row.pk, reason=reason, actor=actor)


def _undrain(row: Node, reason: str, actor: Actor) -> object:
    return nodes.node_undrain(node_id=row.pk, reason=reason, actor=actor)


def _discover(row: Node, reason: str, actor: Actor) -> object:
    return nodes.node_discover(node_id=row.pk, reason=reason, actor=actor)


def _quarantine(row: Node, reason: str, actor: Actor) -> object:
    return nodes.node_quarantine(node_id=row.pk, reason=reason, actor=actor)


def _restore(row: Node, reason: str, actor: Actor) -> object:
    return nodes.node_restore(node_id=row.pk, reason=reason, actor=actor)


IN_FLEET = tuple(s for s in NodeState.values if s != NodeState.RETIRED)
JOINED = tuple(s for s in IN_FLEET if s != NodeState.ENROLLING)


@admin.register(Node)
class NodeAdmin(RecordAdmin):
    """Hosts."""

    list_display: ClassVar = [
        *("name", "state", "family", "pool", "health"),
        *("free_count", "slot_count", "schedulable", "last_seen_at"),
    ]
    list_filter: ClassVar = ["state", "health", "schedulable", "pool", "family"]
    search_fields: ClassVar = ["name", "=id"]
    list_select_related: ClassVar = ["family", "pool"]
    ordering: ClassVar = ["name"]
    actions_detail: ClassVar = [
        *("approve", "drain", "undrain", "discover", "quarantine", "restore"),
    ]

    approve = reasoned(
        "approve",
        "Approve the discovered slots",
        "Every verified slot can be leased from this moment on. A node without a family gets "
        "the one family with as many slots; where several fit, approve it in the console.",
        _approve,
        needs="nodes:write",
        states=(NodeState.VERIFYING, NodeState.READY),
    )
    drain = reasoned(
        "drain",
        "Drain",
        "Nothing new is placed on it. What is claimed stays until it is released.",
        _drain,
        needs="nodes:write",
        states=IN_FLEET,
    )
    undrain = reasoned(
        "undrain",
        "End the drain",
        "New work may be placed on it again.",
        _undrain,
        needs="nodes:write",
        states=IN_FLEET,
    )
    discover = reasoned(
        "discover",
        "Discover again",
        "The host reports its devices anew. Approved slots do not change.",
        _discover,
        needs="nodes:write",
        states=JOINED,
    )
    quarantine = reasoned(
        "quarantine",
        "Quarantine",
        "Nothing new is placed on it until somebody puts it back to work. What is claimed stays.",
        _quarantine,
        needs="nodes:write",
        states=NODE.edges["quarantine"].sources,
    )
    restore = reasoned(
        "restore",
        "Put it back to work",
        "New work may be placed on it again.",
        _restore,
        needs="nodes:write",
        states=NODE.edges["restore"].sources,
    )


def _retry(row: Allocation, reason: str, actor: Actor) -> object:
    return cleanup.cleanup_retry(allocation_id=row.pk, reason=reason, actor=actor)


def _ask(row: Allocation, reason: str, actor: Actor) -> object:
    return overrides.override_request(allocation_id=row.pk, reason=reason, actor=actor)


def _override(row: Allocation, reason: str, actor: Actor) -> object:
    return overrides.override_approve(allocation_id=row.pk, reason=reason, actor=actor)


BLOCKED = (AllocationState.CLEANUP_BLOCKED,)


@admin.register(Allocation)
class AllocationAdmin(RecordAdmin):
    """What tenants have and had."""

    list_display: ClassVar = ["name", "tenant", "sku", "slots", "state", "outcome", "node"]
    list_filter: ClassVar = ["state", "outcome", "shape"]
    search_fields: ClassVar = ["name", "=id", "tenant__slug", "node__name"]
    list_select_related: ClassVar = ["tenant", "sku", "node"]
    ordering: ClassVar = ["-created_at"]
    actions_detail: ClassVar = ["retry_cleanup", "ask_override", "approve_override"]

    retry_cleanup = reasoned(
        "retry_cleanup",
        "Try the cleanup again",
        "The host does every cleanup step anew and proves each. The capacity stays blocked until "
        "the proof is complete.",
        _retry,
        needs="cleanup:write",
        states=BLOCKED,
    )
    ask_override = reasoned(
        "ask_override",
        "Ask for an override",
        "Nothing happens until another operator approves it. Then the capacity is given to other "
        "tenants without proof.",
        _ask,
        needs="cleanup:write",
        states=BLOCKED,
    )
    approve_override = reasoned(
        "approve_override",
        "Approve the override",
        "The capacity is given to other tenants WITHOUT proof that the last tenant's traces are "
        "gone. Both names stay in the record.",
        _override,
        needs="overrides:write",
        states=BLOCKED,
    )


@admin.register(Slot)
class SlotAdmin(RecordAdmin):
    """What can be leased of hosts."""

    list_display: ClassVar = ["node", "index", "state", "gpu_uuid", "numa", "nic_mode"]
    list_filter: ClassVar = ["state", "nic_mode"]
    search_fields: ClassVar = ["gpu_uuid", "node__name"]
    list_select_related: ClassVar = ["node"]
    ordering: ClassVar = ["node", "index"]


@admin.register(Claim)
class ClaimAdmin(RecordAdmin):
    """Holds."""

    list_display: ClassVar = ["node", "slot_index", "state", "holder", "tenant", "created_at"]
    list_filter: ClassVar = ["state", "holder"]
    search_fields: ClassVar = ["=id", "node__name", "tenant__slug"]
    list_select_related: ClassVar = ["node", "tenant"]
    ordering: ClassVar = ["-created_at"]


@admin.register(NodeTask)
class NodeTaskAdmin(RecordAdmin):
    """What hosts were asked to do."""

    list_display: ClassVar = ["kind", "node", "state", "attempt", "step", "created_at"]
    list_filter: ClassVar = ["state", "kind"]
    search_fields: ClassVar = ["=id", "node__name"]
    list_select_related: ClassVar = ["node"]
    ordering: ClassVar = ["-created_at"]


@admin.register(CleanupProof)
class CleanupProofAdmin(RecordAdmin):
    """Evidence by which holds ended, or did not."""

    list_display: ClassVar = ["claim", "attempt", "complete", "created_at"]
    list_filter: ClassVar = ["complete"]
    ordering: ClassVar = ["-created_at"]


@admin.register(CleanupOverride)
class CleanupOverrideAdmin(RecordAdmin):
    """Reuse without proof: who asked, who approved, why."""

    list_display: ClassVar = ["claim", "reason", "approved_at", "created_at"]
    ordering: ClassVar = ["-created_at"]


@admin.register(NodeDrain)
class NodeDrainAdmin(RecordAdmin):
    """Orders to take no new work."""

    list_display: ClassVar = ["node", "slot_index", "reason", "created_at", "ended_at"]
    list_select_related: ClassVar = ["node"]
    ordering: ClassVar = ["-created_at"]


@admin.register(NodeCredential)
class NodeCredentialAdmin(RecordAdmin):
    """Public keys of hosts."""

    list_display: ClassVar = ["node", "expires_at", "revoked_at", "last_seen_at"]
    list_select_related: ClassVar = ["node"]
    ordering: ClassVar = ["-created_at"]


@admin.register(GpuDevice)
class GpuDeviceAdmin(RecordAdmin):
    """GPUs."""

    list_display: ClassVar = ["uuid", "node", "index", "model", "seen_at"]
    search_fields: ClassVar = ["uuid", "node__name"]
    list_select_related: ClassVar = ["node"]


@admin.register(NodeFamily)
class NodeFamilyAdmin(RecordAdmin):
    """Kinds of hosts."""

    list_display: ClassVar = ["name", "title", "gpu_model", "slots"]


@admin.register(Pool)
class PoolAdmin(RecordAdmin):
    """Sets of hosts with one queue."""

    list_display: ClassVar = ["name", "title", "cycles_broken", "cycle_trouble", "cycle_broke_at"]


@admin.register(Image)
class ImageAdmin(RecordAdmin):
    """What hosts start."""

    list_display: ClassVar = ["name", "title", "shapes", "retired_at"]
