"""What goes over the wire about differences and about what the breaker holds, for operators?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import JsonObject, Output, Paged, Whole
from gpuaas.api.serializers.common import ActorOut, Named, Reasoned
from placement.domain.drift import ACTORS, KINDS, SEVERITIES
from placement.models.drift import DriftOutcome
from placement.states import AutomaticState, DriftState

STATES = ("standing", *(str(s) for s in DriftState if s != DriftState.SEEN))


class DriftQuery(Paged):
    """Filters of the list; ``standing`` are those that count now."""

    state = serializers.ChoiceField(choices=STATES, required=False)
    kind = serializers.ChoiceField(choices=sorted(KINDS), required=False)
    actor = serializers.ChoiceField(choices=ACTORS, required=False)
    outcome = serializers.ChoiceField(choices=DriftOutcome.choices, required=False)
    node = serializers.CharField(required=False, max_length=63)
    pool = serializers.CharField(required=False, max_length=60)


class DriftOut(Output):
    """One difference between what is wanted of a host and what is seen."""

    id = serializers.UUIDField()
    node = Named()
    allocation = serializers.UUIDField(allow_null=True)
    kind = serializers.ChoiceField(choices=sorted(KINDS))
    code = serializers.CharField(help_text="The permanent reason code.")
    subject = serializers.CharField()
    slots = serializers.ListField(child=serializers.IntegerField(), help_text="-1: the whole node.")
    severity = serializers.ChoiceField(choices=SEVERITIES)
    actor = serializers.ChoiceField(choices=ACTORS, help_text="Who acts upon it.")
    state = serializers.ChoiceField(choices=DriftState.choices)
    detail = serializers.CharField()
    since = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
    seen = serializers.IntegerField()
    attempts = serializers.IntegerField()
    next_try_at = serializers.DateTimeField(allow_null=True)
    trouble = serializers.CharField(allow_blank=True)
    outcome = serializers.CharField(allow_blank=True)
    decided_by = ActorOut(allow_null=True)
    decision = serializers.CharField(allow_blank=True)
    closed_at = serializers.DateTimeField(allow_null=True)


class HeldActionOut(Output):
    """Something that automation wants to do to a node and may not yet."""

    id = serializers.UUIDField()
    pool = serializers.CharField()
    node = Named()
    action = serializers.CharField()
    about = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(help_text="The code that asks for it.")
    code = serializers.CharField(allow_blank=True, help_text="Why it waits; empty once decided.")
    state = serializers.ChoiceField(choices=AutomaticState.choices)
    facts = JsonObject()
    since = serializers.DateTimeField()
    asked = serializers.IntegerField()
    asked_at = serializers.DateTimeField()
    decided_by = ActorOut(allow_null=True)
    decision = serializers.CharField(allow_blank=True)


class BreakerIn(Reasoned):
    """A pool's limits."""

    percent = Whole(min_value=0, max_value=100)
    floor = Whole(min_value=0, max_value=1000)
    window_s = Whole(min_value=60, max_value=2_592_000)


class BreakerOut(Output):
    """A pool's limits as they are now."""

    pool = serializers.CharField()
    percent = serializers.IntegerField()
    floor = serializers.IntegerField()
    window_s = serializers.IntegerField()
    version = serializers.IntegerField()
