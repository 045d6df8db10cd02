"""What goes over the wire about terms of fitness, for operators?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import Flag, Input, Output, Text, Whole
from gpuaas.api.serializers.common import ActorOut, Listed
from gpuaas.api.serializers.placement import TermsChange, TermsVersion
from placement.domain.readiness import CAPABILITIES, CHECKS
from placement.services.evidence import MOST_VALID_S


class NeedIn(Input):
    """One check that a shape needs."""

    capability = serializers.ChoiceField(choices=CAPABILITIES)
    check = Text(max_length=16, help_text=f"One of {', '.join(CHECKS)}.")
    valid_s = Whole(
        min_value=60,
        max_value=MOST_VALID_S,
        required=False,
        allow_null=True,
        default=None,
        help_text="Seconds for which a passed check is good; null: until it is contradicted.",
    )


class ReadinessTermsIn(Input):
    """All terms of one family; a check that is left out is not needed."""

    required: Any = serializers.ListField(child=NeedIn(), max_length=64)
    driver_min = Text(max_length=40, required=False, allow_blank=True, default="")
    firmware_min = Text(max_length=40, required=False, allow_blank=True, default="")
    auto_promote = Flag(
        required=False,
        default=False,
        help_text="Promote a host that is meant for a shape, and fit for it, without being asked.",
    )


class ReadinessTermsSetIn(ReadinessTermsIn):
    """The same, naming the preview that was looked at."""

    seen = Text(max_length=64, help_text="The digest of the preview.")
    reason = Text(max_length=500, help_text="Why; kept in the audit log.")


class ReadinessRemovalIn(Input):
    """Look at what the removal of a family's own terms would do: nothing more is to be said."""


class ReadinessRemoveIn(Input):
    """Remove a family's own terms, naming the preview of it that was looked at."""

    seen = Text(max_length=64, help_text="The digest of the preview of the removal.")
    reason = Text(max_length=500, help_text="Why; kept in the audit log.")


class NeedOut(Output):
    """One check that a shape needs."""

    capability = serializers.CharField()
    check = serializers.CharField()
    valid_s = serializers.IntegerField(allow_null=True)


class ReadinessTermsOut(Output):
    """What the hosts of a family need; ``any`` is for every family without its own."""

    family = serializers.CharField()
    version = serializers.IntegerField(help_text="0: not set; what holds is the others'.")
    required: Any = NeedOut(many=True)
    driver_min = serializers.CharField(allow_blank=True)
    firmware_min = serializers.CharField(allow_blank=True)
    auto_promote = serializers.BooleanField()
    set_by = ActorOut(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    set_at = serializers.DateTimeField(allow_null=True)


class ReadinessTermsDetail(ReadinessTermsOut):
    """The same, with what they were before: the latest first."""

    versions = TermsVersion(many=True)


class ReadinessTermsList(Listed):
    """The terms of every family."""

    items = ReadinessTermsOut(many=True)


class HostMovedOut(Output):
    """One host that these terms would move."""

    node = serializers.CharField()
    capability = serializers.CharField()
    move = serializers.ChoiceField(choices=("suspend", "resume", "promote"))
    because = serializers.CharField(allow_blank=True)


class ReadinessPreviewOut(Output):
    """What other terms would do; nothing has changed."""

    family = serializers.CharField()
    changes = TermsChange(many=True)
    hosts = serializers.IntegerField(help_text="Hosts in service that these terms are for.")
    demoted = serializers.IntegerField(help_text="Shapes that hosts would lose.")
    promoted = serializers.IntegerField(help_text="Shapes that hosts would gain.")
    moved = HostMovedOut(many=True, help_text="The first 50, losses first.")
    digest = serializers.CharField(help_text="What the change must name as seen.")
