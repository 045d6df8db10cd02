"""What goes over the wire about a host's evidence, its promotion and its errors, for operators?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import JsonObject, Output, Text, Whole
from gpuaas.api.serializers.common import Named, Reasoned
from placement.domain.health import CLASSES, CONSEQUENCES
from placement.domain.readiness import CAPABILITIES, CHECKS, HANDED_IN, STANDINGS
from placement.domain.xids import POLICIES
from placement.node_tasks import MOST_BURN_IN_S
from placement.services.burn_in import LEAST_S
from placement.services.evidence import MOST_VALID_S
from placement.states import CapabilityState


class CheckOut(Output):
    """One check of a host, or of one of its devices."""

    check = serializers.ChoiceField(choices=CHECKS)
    device = serializers.CharField(allow_blank=True, help_text="Empty: the host itself.")
    standing = serializers.ChoiceField(choices=("pass", "fail", "unknown", "expired"))
    reason = serializers.CharField(allow_blank=True)
    told_by = serializers.CharField(allow_blank=True)
    facts: Any = JsonObject()
    since = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True, help_text="null: not by time.")
    needed_for = serializers.ListField(child=serializers.ChoiceField(choices=CAPABILITIES))
    unblock = serializers.CharField(allow_blank=True)
    given_by: Any = JsonObject(allow_null=True)


class CapabilityOut(Output):
    """One shape that a host may be sold in: the decision, and where its evidence stands."""

    capability = serializers.ChoiceField(choices=CAPABILITIES)
    state = serializers.ChoiceField(
        choices=CapabilityState.values,
        help_text="suspended: promoted, but its evidence does not hold now.",
    )
    since = serializers.DateTimeField(allow_null=True)
    standing = serializers.ChoiceField(choices=STANDINGS)
    misses = serializers.ListField(child=JsonObject())
    holds_until = serializers.DateTimeField(allow_null=True)
    decision = serializers.CharField(allow_blank=True)
    decided_by: Any = JsonObject(allow_null=True)
    intended = serializers.BooleanField(help_text="Whether the host is meant for it.")


class DeviceHealthOut(Output):
    """How one GPU is judged; a GPU that is not named is healthy."""

    gpu_uuid = serializers.CharField()
    slot_index = serializers.IntegerField(allow_null=True)
    classification = serializers.ChoiceField(choices=CLASSES)
    consequences = serializers.ListField(child=serializers.ChoiceField(choices=CONSEQUENCES))
    findings = serializers.ListField(child=JsonObject())
    since = serializers.DateTimeField()
    lifted_at = serializers.DateTimeField(allow_null=True)
    lift_reason = serializers.CharField(allow_blank=True)


class EvidenceOut(Output):
    """What a host is fit for, by which evidence, and how its GPUs are judged."""

    node = Named()
    takes = serializers.ChoiceField(choices=("slices", "baremetal", "any", "none"))
    capabilities = CapabilityOut(many=True)
    evidence = CheckOut(many=True)
    devices = DeviceHealthOut(many=True)


class XidOut(Output):
    """An error number that a driver told."""

    id = serializers.UUIDField()
    xid = serializers.IntegerField()
    meaning = serializers.CharField()
    policy = serializers.ChoiceField(choices=list(POLICIES))
    follows = serializers.CharField()
    count = serializers.IntegerField()
    gpu_uuid = serializers.CharField(allow_blank=True)
    boot_id = serializers.CharField(allow_blank=True)
    allocation = serializers.UUIDField(allow_null=True)
    at = serializers.DateTimeField(help_text="The host's own time.")
    created_at = serializers.DateTimeField()


class CapabilityIn(Reasoned):
    """Promote a host for a shape, or demote it."""

    capability = serializers.ChoiceField(choices=CAPABILITIES)


class BurnInIn(Reasoned):
    """Put all GPUs of a host under load."""

    duration_s = Whole(min_value=LEAST_S, max_value=MOST_BURN_IN_S)


class EvidenceIn(Reasoned):
    """What somebody has found out about a host."""

    check = serializers.ChoiceField(choices=HANDED_IN)
    verdict = Text(max_length=8, help_text="pass or fail.")
    device = Text(max_length=120, required=False)
    valid_s = Whole(min_value=60, max_value=MOST_VALID_S, required=False)
    version = Text(max_length=40, required=False, help_text="Of a firmware, as VBIOS tells it.")


class LiftIn(Reasoned):
    """Set aside what is known against a GPU."""

    gpu_uuid = Text(max_length=120)
