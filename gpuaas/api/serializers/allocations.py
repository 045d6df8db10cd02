"""What goes over the wire about what is asked for, held, and being done?"""

from __future__ import annotations

from rest_framework import serializers

from admission.domain.outcome import OUTCOMES
from admission.models import Action
from admission.states import RequestState
from gpuaas.api.fields import (
    AnyOf,
    Dated,
    Flag,
    Id,
    Input,
    JsonObject,
    Output,
    Paged,
    Query,
    Text,
    Whole,
)
from gpuaas.api.serializers.catalogue import Slug
from gpuaas.api.serializers.common import DecisionOut, FourStates, Named, OwnField, Reference
from placement.states import AllocationState, Outcome
from tenants.models import Shape

OPERATION_STATES = ("pending", "running", "succeeded", "failed", "cancelled")


class OrderIn(Input):
    """What is asked for."""

    sku = Slug(help_text="The product, by name.")
    slots = Whole(
        min_value=1,
        max_value=62,
        required=False,
        allow_null=True,
        default=None,
        help_text="How many slots; the SKU's smallest size unless given. Not for whole nodes.",
    )
    name = Text(max_length=120, required=False, allow_null=True, default=None)
    image = Text(max_length=60, required=False, allow_null=True, default=None)
    ssh_keys = serializers.ListField(
        child=Id(), max_length=20, required=False, default=list, help_text="Ids of SSH keys."
    )
    wait = Flag(
        required=False,
        default=False,
        help_text="Queue when nothing fits now, instead of being refused sku_unavailable.",
    )
    tier = Text(max_length=40, required=False, allow_null=True, default=None)
    own = OwnField()
    max_duration_s = Whole(
        min_value=60,
        max_value=10 * 366 * 86_400,
        required=False,
        allow_null=True,
        default=None,
        help_text="It is given back by itself so many seconds after it was placed. Without it, "
        "a lease lasts until it is released, and keeps away from nodes with maintenance ahead.",
    )


class OrderQuery(Query):
    """How a creation is answered."""

    wait = serializers.CharField(
        required=False, max_length=6, help_text="Answer when it is done, or after this: 30s."
    )
    dry_run = serializers.ChoiceField(
        choices=["server"], required=False, help_text="Decide and price, but change nothing."
    )


class WaitQuery(Query):
    """How long an answer may be waited for."""

    wait = serializers.CharField(
        required=False, max_length=6, help_text="Answer when it is done, or after this: 30s."
    )


class RenameIn(Input):
    """A new name."""

    name = Text(max_length=120)


class ReleaseIn(Input):
    """Give it back, or cancel it before it is active."""

    reason = Text(max_length=500, required=False, allow_blank=True, default="")


class ProjectAllocationQuery(Dated):
    """Filters of a list of one project's allocations."""

    state = AnyOf(AllocationState.choices)
    sku = serializers.CharField(required=False, max_length=60)
    name = serializers.CharField(required=False, max_length=120, help_text="The whole name.")
    q = serializers.CharField(required=False, max_length=120, help_text="Part of the name.")


class AllocationQuery(ProjectAllocationQuery):
    """Filters of a list of allocations."""

    project = serializers.CharField(required=False, max_length=64, help_text="Slug or id.")


class ConnectionOut(Output):
    """How to get in."""

    host = serializers.CharField()
    port = serializers.IntegerField()
    user = serializers.CharField()
    command = serializers.CharField()


class AllocationOut(Output):
    """What a tenant has: slots of one node, or a whole node."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    project = Named()
    tenant = Named()
    sku = serializers.CharField()
    shape = serializers.ChoiceField(choices=Shape.choices)
    slots = serializers.IntegerField(help_text="0 means the whole node.")
    tier = serializers.CharField()
    image = serializers.CharField()
    hostname = serializers.CharField()
    state = serializers.ChoiceField(choices=AllocationState.choices)
    phase = serializers.CharField(help_text="What is shown: computed from the four states.")
    outcome = serializers.ChoiceField(choices=Outcome.choices, allow_blank=True)
    outcome_code = serializers.CharField(allow_blank=True)
    outcome_detail = serializers.CharField(allow_blank=True)
    states = FourStates(required=False, help_text="Only in the answer for one allocation.")
    connection = ConnectionOut(allow_null=True)
    node = Named(allow_null=True, help_text="For operators; null for tenants.")
    price_hour_micro = serializers.IntegerField()
    currency = serializers.CharField()
    operation = serializers.UUIDField(help_text="The operation that worked on it last.")
    request_id = serializers.UUIDField(help_text="The admission request that it came from.")
    created_at = serializers.DateTimeField()
    active_at = serializers.DateTimeField(allow_null=True)
    released_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(
        allow_null=True, help_text="When it is given back by itself; null where nobody said."
    )
    version = serializers.IntegerField()


class EnvelopeImpact(Output):
    """What the request would do to the envelope, in thousandths of the class."""

    resource_class = serializers.CharField()
    before = serializers.IntegerField()
    after = serializers.IntegerField()
    limit = serializers.IntegerField()


class PlanOut(Output):
    """What a request would decide and cost; nothing has changed."""

    fits = serializers.BooleanField()
    node_hint = serializers.CharField(allow_null=True, help_text="For operators.")
    price_hour_micro = serializers.IntegerField()
    price_month_micro = serializers.IntegerField(help_text="730 hours.")
    currency = serializers.CharField()
    envelope = EnvelopeImpact()
    queue_position = serializers.IntegerField(
        allow_null=True, help_text="Its place in the queue, were it queued now; null: refused."
    )
    decision = DecisionOut()


class RequestQuery(Dated):
    """Filters of a list of admission requests."""

    state = AnyOf(RequestState.choices)
    action = serializers.ChoiceField(choices=Action.choices, required=False)
    outcome = serializers.ChoiceField(
        choices=OUTCOMES,
        required=False,
        help_text="How it stands: denied is not the same as no capacity.",
    )
    workload = serializers.UUIDField(required=False)
    project = serializers.CharField(required=False, max_length=64, help_text="Slug or id.")


class AdmissionRequestOut(Output):
    """One thing a tenant asked for, and where it stands."""

    id = serializers.UUIDField()
    name = serializers.CharField(allow_blank=True)
    action = serializers.CharField()
    project = Named(allow_null=True, help_text="Null where the whole tenant is concerned.")
    tenant = Named(allow_null=True, help_text="Null for a sign-up that was refused.")
    sku = serializers.CharField(allow_null=True)
    resource_class = serializers.CharField(allow_null=True)
    tier = serializers.CharField(allow_blank=True)
    slots = serializers.IntegerField(help_text="0 means the whole node.")
    amount_milli = serializers.IntegerField()
    wait = serializers.BooleanField()
    subject = serializers.UUIDField(
        allow_null=True, help_text="What it is about, if not new: a workload, a tenant, a wish."
    )
    workload = serializers.UUIDField(allow_null=True)
    state = serializers.ChoiceField(choices=RequestState.choices)
    outcome = serializers.ChoiceField(
        choices=OUTCOMES,
        allow_blank=True,
        help_text="Which of five ends; empty when it was withdrawn or expired.",
    )
    reason = serializers.CharField(allow_blank=True, help_text="Why it waits or was refused.")
    detail = serializers.CharField(allow_blank=True)
    allocation = serializers.UUIDField(allow_null=True)
    operation = serializers.UUIDField(allow_null=True)
    created_at = serializers.DateTimeField()
    queued_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class StepOut(Output):
    """One named step of an operation."""

    name = serializers.CharField()
    state = serializers.CharField()
    attempt = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    detail = serializers.CharField(allow_blank=True)
    error = JsonObject(allow_null=True)


class ProgressOut(Output):
    """How far it is."""

    step = serializers.CharField(allow_blank=True)
    percent = serializers.IntegerField(min_value=0, max_value=100)
    message = serializers.CharField(allow_blank=True)


class OperationMetadata(Output):
    """About the run itself."""

    attempt = serializers.IntegerField()
    undoing = serializers.BooleanField()
    request_id = serializers.CharField(allow_blank=True)


class OperationOut(Output):
    """Work that goes on after the answer: this is the durable run itself."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    target = Reference()
    tenant = serializers.UUIDField(allow_null=True)
    done = serializers.BooleanField()
    state = serializers.ChoiceField(choices=OPERATION_STATES)
    progress = ProgressOut()
    steps = StepOut(many=True)
    metadata = OperationMetadata()
    result = JsonObject(allow_null=True)
    error = JsonObject(allow_null=True, help_text="A problem, when it failed.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    cancellable = serializers.BooleanField(
        help_text="Whether it is taken back by releasing its target, or withdrawing the request."
    )


class OperationQuery(Dated):
    """Filters of a list of operations."""

    state = AnyOf(OPERATION_STATES)
    target = Id(required=False, help_text="The id of what it works on.")


class Position(Query):
    """Where to go on in the feed."""

    after = serializers.IntegerField(
        required=False, min_value=0, max_value=2**63 - 1, help_text="Events after this seq."
    )


class EventQuery(Paged, Position):
    """The same, page by page."""
