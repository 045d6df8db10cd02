"""What goes over the wire about workloads?"""

from __future__ import annotations

import json
from typing import Any

from rest_framework import serializers

from admission.domain.sharing import MODES
from admission.states import WorkloadState
from gpuaas.api.fields import AnyOf, Dated, Flag, Id, Input, JsonObject, Output, Text, Whole
from gpuaas.api.serializers.allocations import PlanOut
from gpuaas.api.serializers.common import Named, OwnField
from placement.domain.sets import LEVELS
from placement.services.workload_changes import MOST_BAND, MOST_BATCH, MOST_REPLICAS
from placement.services.workloads import KINDS

MOST_SPEC_BYTES = 16_384


def _names() -> serializers.ListField:
    return serializers.ListField(
        child=Text(max_length=120), max_length=64, required=False, default=list
    )


class Spec(JsonObject):
    """An object of bounded size: it is kept with the workload and with every decision on it."""

    default_error_messages = {  # noqa: RUF012 - DRF's own form
        "wrong_type": "Expected an object.",
        "too_large": "At most {most} bytes of JSON.",
    }

    def to_internal_value(self, data: Any) -> Any:
        """Refuses lists and scalars, and what is too large."""
        value = super().to_internal_value(data)
        if not isinstance(value, dict):
            self.fail("wrong_type")
        if len(json.dumps(value)) > MOST_SPEC_BYTES:
            self.fail("too_large", most=MOST_SPEC_BYTES)
        return value


class ProjectWorkloadQuery(Dated):
    """Filters of the list of one project's workloads."""

    state = AnyOf(WorkloadState.choices)
    kind = AnyOf(list(KINDS))
    name = serializers.CharField(required=False, max_length=120, help_text="The whole name.")
    q = serializers.CharField(required=False, max_length=120, help_text="Part of the name.")


class WorkloadQuery(ProjectWorkloadQuery):
    """Filters of the list."""

    project = serializers.CharField(required=False, max_length=64)


class WorkloadIn(Input):
    """What a tenant wants to run: replicas of one SKU and size, all of them or none."""

    kind = serializers.ChoiceField(choices=list(KINDS))
    name = Text(max_length=120)
    sku = Text(max_length=60)
    slots = Whole(min_value=1, max_value=4096, required=False, allow_null=True, default=None)
    replicas = Whole(min_value=1, max_value=MOST_REPLICAS, required=False, default=1)
    image = Text(max_length=120, required=False, allow_blank=True, default="")
    ssh_keys = serializers.ListField(child=Id(), max_length=32, required=False, default=list)
    wait = Flag(required=False, default=False)
    zones = _names()
    datasets = _names()
    storage = _names()
    together = serializers.ChoiceField(
        choices=["", *LEVELS],
        required=False,
        default="",
        help_text="The part of the fleet that all replicas must be within, or none is placed.",
    )
    close = serializers.ChoiceField(
        choices=["", *LEVELS],
        required=False,
        default="",
        help_text="The part that they should be within, if that is possible.",
    )
    apart: Any = Flag(required=False, default=False, help_text="No two on one node.")
    own = OwnField()
    movable: Any = Flag(
        required=False,
        default=False,
        help_text="Whether the platform may move its replicas to make room: the new one runs "
        "before the old one is released. Of a job, spec.checkpoint_s says how much work is kept.",
    )
    band = Whole(min_value=0, max_value=MOST_BAND, required=False, allow_null=True, default=None)
    batch_size = Whole(
        min_value=1, max_value=MOST_BATCH, required=False, allow_null=True, default=None
    )
    spec = Spec(required=False, default=dict, help_text="Of a model: its figures under 'model'.")


class ScaleIn(Input):
    """How many replicas shall run."""

    replicas = Whole(min_value=1, max_value=MOST_REPLICAS)
    partial: Any = Flag(
        required=False, default=False, help_text="Take as many as there is room for."
    )
    wait = Flag(required=False, default=False)


class BatchSizeIn(Input):
    """How much a model takes at once."""

    batch_size = Whole(min_value=1, max_value=MOST_BATCH)


class SharingIn(Input):
    """How its GPUs may be shared."""

    mode = serializers.ChoiceField(choices=list(MODES))


class PlacementIn(Input):
    """Where it shall run."""

    zones = _names()
    datasets = _names()
    wait = Flag(default=False, help_text="Wait until there is room; it holds nothing meanwhile.")


class PriorityIn(Input):
    """How urgent it is; 0 goes first."""

    band = Whole(min_value=0, max_value=MOST_BAND)


class Released(Output):
    """An allocation that a change would release."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class ChangePlanOut(PlanOut):
    """What a change of a workload would decide, take, release and cost; nothing has changed."""

    before = JsonObject(help_text="What is wanted now, of what the change is about.")
    after = JsonObject(help_text="What would be wanted.")
    takes = serializers.IntegerField(help_text="Allocations placed anew.")
    releases = Released(many=True)
    released_after = serializers.BooleanField(
        help_text="Whether they are released only once the new ones run."
    )
    waiting = serializers.IntegerField(
        help_text="Requests that wait for the workload and are replaced, or ordered anew."
    )
    workload_hour_before_micro = serializers.IntegerField(
        help_text="Price of an hour of all that stands of the workload."
    )
    workload_hour_after_micro = serializers.IntegerField()


class WorkloadOut(Output):
    """A workload."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=list(KINDS))
    project = Named()
    tenant = Named()
    sku = serializers.CharField()
    slots = serializers.IntegerField()
    replicas = serializers.IntegerField()
    band = serializers.IntegerField()
    batch_size = serializers.IntegerField(allow_null=True)
    spec = JsonObject()
    state = serializers.ChoiceField(choices=WorkloadState.choices)
    outcome = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    generation = serializers.IntegerField()
    requests = serializers.ListField(
        child=serializers.UUIDField(), help_text="Its admission requests, newest first."
    )
    allocations = serializers.ListField(
        child=serializers.UUIDField(), help_text="Its allocations that are not released."
    )
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class WorkloadTicket(Output):
    """The workload, with the request and the operation that this action made."""

    workload = WorkloadOut()
    request = serializers.UUIDField()
    operation = serializers.UUIDField(allow_null=True)
