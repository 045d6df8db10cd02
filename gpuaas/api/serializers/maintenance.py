"""What goes over the wire about windows of maintenance, drains planned ahead, and notices?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Flag, Input, JsonObject, Output, Paged, Text, Whole
from gpuaas.api.serializers.common import ActorOut, Named, Reasoned
from gpuaas.api.serializers.nodes import NodeName
from placement.domain.maintenance import Fate
from placement.models.maintenance import NoticeKind
from placement.states import ReplacementState, WindowState


class MaintenanceWindowIn(Input):
    """Which nodes, from when to when: names, or all in a pool, zone and rack."""

    nodes = serializers.ListField(
        child=NodeName(), max_length=1000, required=False, default=list, help_text="By name."
    )
    pool = Text(max_length=60, required=False, default="")
    zone = Text(max_length=40, required=False, default="")
    rack = Text(max_length=40, required=False, default="")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class MaintenanceWindowPlanIn(MaintenanceWindowIn, Reasoned):
    """A plan for each of these nodes."""

    announce = Flag(
        required=False, default=False, help_text="Tell their tenants now, not only when due."
    )


class MaintenanceWindowQuery(Paged):
    """Filters of a list of windows."""

    state = serializers.ChoiceField(choices=WindowState.choices, required=False)
    node = serializers.CharField(required=False, max_length=64, help_text="By name.")


class MaintenanceWindowOut(Output):
    """A stretch of time in which one node takes no work."""

    id = serializers.UUIDField()
    plan = serializers.UUIDField(help_text="The same for all that were planned in one act.")
    node = Named()
    state = serializers.ChoiceField(choices=WindowState.choices)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    owner = ActorOut()
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class MaintenanceWindowList(Output):
    """The windows that were planned."""

    items = MaintenanceWindowOut(many=True)


class LeavingOut(Output):
    """What becomes of one allocation, and where it would go as of now."""

    allocation = serializers.UUIDField(source="allocation_id")
    name = serializers.CharField()
    tenant = serializers.CharField()
    sku = serializers.CharField()
    slots = serializers.IntegerField(help_text="0 means the whole node.")
    fate = serializers.ChoiceField(
        choices=[str(fate) for fate in Fate],
        help_text="ends: by itself before then; moves: its tenant allows it; stays: until it is "
        "released.",
    )
    ends_at = serializers.DateTimeField(allow_null=True)
    to = serializers.CharField(allow_blank=True, help_text="The node; empty where there is none.")
    code = serializers.CharField(allow_blank=True, help_text="Why there is none.")
    detail = serializers.CharField(allow_blank=True)
    facts = JsonObject()


class DrainPlanOut(Output):
    """What a drain of a node touches; nothing has changed."""

    node = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True, help_text="By when it has to be empty.")
    words = serializers.CharField()
    counts = JsonObject()
    allocations = LeavingOut(many=True, source="leaving")


class DrainPlanQuery(Input):
    """By when the node has to be empty."""

    at = serializers.DateTimeField(required=False)


class MaintenanceWindowPreviewOut(Output):
    """What windows of these nodes would touch."""

    nodes = DrainPlanOut(many=True)
    tenants = serializers.ListField(child=serializers.CharField())


class MovedOut(Output):
    """One workload that was asked to move."""

    workload = serializers.CharField()
    request = serializers.UUIDField(source="request_id", allow_null=True)
    code = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)


class MovedList(Output):
    """Every workload that was asked to move off a node."""

    items = MovedOut(many=True)


class PoolNoticeIn(Reasoned):
    """How long before maintenance what happens, in a pool."""

    lead_s = Whole(min_value=0, max_value=90 * 86_400, help_text="Nothing without an end is new.")
    again_s = Whole(min_value=0, max_value=90 * 86_400, help_text="Tenants are told again.")


class PoolNoticeOut(Output):
    """How long before maintenance what happens, in a pool."""

    pool = serializers.CharField()
    lead_s = serializers.IntegerField()
    again_s = serializers.IntegerField()


class CardIn(Reasoned):
    """Which slot's card, and why."""

    slot_index = Whole(min_value=0, max_value=61)


class ReplacementOut(Output):
    """One card that was replaced by another."""

    id = serializers.UUIDField()
    node = Named()
    slot_index = serializers.IntegerField()
    state = serializers.ChoiceField(choices=ReplacementState.choices)
    old_uuid = serializers.CharField()
    old_device = JsonObject()
    seen_uuid = serializers.CharField(
        allow_blank=True, help_text="The card that a discovery found in its place."
    )
    new_uuid = serializers.CharField(allow_blank=True)
    reason = serializers.CharField()
    declared_by = ActorOut()
    created_at = serializers.DateTimeField()


class NoticeQuery(Paged):
    """Filters of a list of notices."""

    unread = serializers.BooleanField(required=False)


class NoticeOut(Output):
    """What a tenant was told about one of its allocations."""

    id = serializers.UUIDField()
    allocation = Named()
    kind = serializers.ChoiceField(choices=NoticeKind.choices)
    text = serializers.CharField()
    starts_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
