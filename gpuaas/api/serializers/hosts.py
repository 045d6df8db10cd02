"""What goes over the wire about a host's measurements and its identity, for operators?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import Input, JsonObject, Output, Whole
from gpuaas.api.serializers.common import Named, Reasoned
from placement.domain.identity import CODES, OUTCOMES


class TelemetryQuery(Input):
    """Which metric's last hour to show beside the last window."""

    metric = serializers.RegexField(
        r"\A[a-z][a-z0-9_]*\Z", max_length=64, required=False, help_text="e.g. gpu_utilisation"
    )


class SeriesOut(Output):
    """One metric over a window; the numbers are null where no sample was valid."""

    metric = serializers.CharField()
    unit = serializers.CharField()
    valid = serializers.IntegerField()
    invalid = serializers.IntegerField()
    reason = serializers.CharField(allow_null=True, help_text="Why the last invalid one was.")
    last = serializers.IntegerField(allow_null=True)
    least = serializers.IntegerField(allow_null=True)
    most = serializers.IntegerField(allow_null=True)
    mean = serializers.IntegerField(allow_null=True, help_text="In thousandths of the unit.")
    increase = serializers.IntegerField(allow_null=True, help_text="Of a counter.")


class DeviceTelemetryOut(Output):
    """What was measured of one device; device null means the host itself."""

    device = serializers.CharField(allow_null=True)
    slot_index = serializers.IntegerField(allow_null=True)
    claimed = serializers.BooleanField()
    series = SeriesOut(many=True)


class PointOut(Output):
    """One metric of one device in one window."""

    at = serializers.DateTimeField()
    device = serializers.CharField(allow_null=True)
    unit = serializers.CharField()
    valid = serializers.IntegerField()
    invalid = serializers.IntegerField()
    reason = serializers.CharField(allow_null=True)
    last = serializers.IntegerField(allow_null=True)
    least = serializers.IntegerField(allow_null=True)
    most = serializers.IntegerField(allow_null=True)
    mean = serializers.IntegerField(allow_null=True)
    increase = serializers.IntegerField(allow_null=True)


class TelemetryOut(Output):
    """What a host measured last; stale numbers say nothing about now."""

    node = Named()
    as_of = serializers.DateTimeField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True)
    stale = serializers.BooleanField()
    measured_by = serializers.CharField(allow_null=True, help_text="host, or simulated.")
    driver = serializers.CharField(allow_null=True)
    cuda = serializers.CharField(allow_null=True)
    lost = serializers.IntegerField(help_text="Windows that the host had to drop.")
    devices = DeviceTelemetryOut(many=True)
    xids = serializers.ListField(child=JsonObject())
    processes = serializers.ListField(
        child=JsonObject(), help_text="beyond_claim: a process on a GPU that nobody holds."
    )
    processes_more = serializers.IntegerField()
    history = PointOut(many=True)


class DifferenceOut(Output):
    """One thing that a discovery saw otherwise than approved."""

    code = serializers.ChoiceField(choices=[*sorted(CODES), "difference_gone"])
    outcome = serializers.ChoiceField(
        choices=OUTCOMES, help_text="note: nothing follows. block: the slot is blocked."
    )
    slot_index = serializers.IntegerField(allow_null=True)
    gpu_uuid = serializers.CharField(allow_blank=True)
    detail = serializers.CharField()
    approved: Any = JsonObject()
    discovered: Any = JsonObject()
    since = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    to_accept = serializers.BooleanField(help_text="Somebody has to decide on its slot.")


class IdentityOut(Output):
    """Who a host is, and what is otherwise than approved."""

    node = Named()
    hostname = serializers.CharField(allow_null=True)
    boot_id = serializers.CharField(allow_null=True)
    as_of = serializers.DateTimeField(allow_null=True)
    differences = DifferenceOut(many=True)


class AcceptIn(Reasoned):
    """Accept what differs about one blocked slot."""

    slot_index = Whole(min_value=0, max_value=61)
