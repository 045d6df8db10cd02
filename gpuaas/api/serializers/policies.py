"""What goes over the wire about operators' rules?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from admission.models import Action
from admission.states import PolicyState
from gpuaas.api.fields import Flag, Input, JsonObject, Output, Paged, Text, Whole
from gpuaas.api.serializers.common import ActorOut


class PolicyQuery(Paged):
    """Filters of the list of rules."""

    state = serializers.ChoiceField(choices=PolicyState.choices, required=False)
    name = serializers.CharField(required=False, max_length=60)


class PolicyTestIn(Input):
    """A rule's own test: facts over the sample, and whether the rule forbids them."""

    name = Text(max_length=120)
    facts = JsonObject(required=False, default=dict)
    forbids = Flag()


class PolicyIn(Input):
    """A new version of a rule."""

    name = Text(max_length=60)
    actions = serializers.ListField(
        child=serializers.ChoiceField(choices=Action.choices),
        max_length=20,
        required=False,
        default=list,
        help_text="Empty: every action.",
    )
    expression = Text(max_length=2000, help_text="CEL; true forbids.")
    message = Text(max_length=300, help_text="What the tenant is told.")
    unblock = Text(max_length=300, required=False, allow_blank=True, default="")
    tests = PolicyTestIn(many=True)


class DryRunIn(Input):
    """How far to look back."""

    last = Whole(min_value=1, max_value=5000, required=False, default=500)


class PolicyTestOut(Output):
    """A rule's own test and how it goes now."""

    name = serializers.CharField()
    passed = serializers.BooleanField()
    detail = serializers.CharField(allow_blank=True)


class PolicyOut(Output):
    """One version of a rule."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    rule_version = serializers.IntegerField()
    state = serializers.ChoiceField(choices=PolicyState.choices)
    actions = serializers.ListField(child=serializers.CharField())
    expression = serializers.CharField()
    message = serializers.CharField()
    unblock = serializers.CharField(allow_blank=True)
    tests = serializers.ListField(child=JsonObject())
    report: Any = JsonObject(allow_null=True, help_text="The last dry-run.")
    author = ActorOut()
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class PolicyDetailOut(PolicyOut):
    """One version of a rule, with how its own tests go now."""

    results = PolicyTestOut(many=True)
