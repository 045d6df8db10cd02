"""Which shapes do several nouns share?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rest_framework import serializers

from admission.domain.outcome import OUTCOMES
from gpuaas.api.fields import Input, JsonObject, Output, Text
from placement.domain.terms import OWN


@lru_cache(maxsize=64)
def page_of(item: type[Output], name: str) -> type[serializers.Serializer[Any]]:
    """The serializer of a page of items, for the OpenAPI document."""
    return type(
        f"{name}Page",
        (Output,),
        {
            "__doc__": f"One page of {name.lower()}s.",
            "items": item(many=True),
            "next": serializers.CharField(
                allow_blank=True, help_text="The cursor of the next page; empty at the end."
            ),
        },
    )


class Listed(Output):
    """The answer of a list that is made whole: its ``items``, and how to go on."""

    next = serializers.CharField(
        allow_blank=True, help_text="The cursor of the next page; empty at the end."
    )

    def get_fields(self) -> dict[str, Any]:
        """The items first."""
        fields = super().get_fields()
        fields["next"] = fields.pop("next")
        return fields


class OwnField(serializers.ChoiceField):
    """How the tenant's own claims bind the choice of nodes."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("choices", list(OWN))
        kwargs.setdefault("required", False)
        kwargs.setdefault("default", "")
        kwargs.setdefault(
            "help_text",
            "Only on nodes where the tenant has something (with), or has nothing (apart).",
        )
        super().__init__(**kwargs)


class Reasoned(Input):
    """An operator's action, with its reason."""

    reason = Text(max_length=500, help_text="Why; kept in the audit log.")


class Reference(Output):
    """A thing by kind and id."""

    kind = serializers.CharField()
    id = serializers.CharField(allow_null=True)


class Named(Output):
    """A thing by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class ActorOut(Output):
    """Who did it."""

    kind = serializers.ChoiceField(choices=["user", "token", "node", "system"])
    id = serializers.CharField(allow_blank=True)
    name = serializers.CharField(allow_blank=True)


class StateView(Output):
    """One of the four truths: what it says, who says so, and since when that is known."""

    value = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True)
    source: Any = serializers.CharField()
    detail = serializers.CharField(allow_blank=True)
    drift = serializers.BooleanField(help_text="Whether it differs from what is desired.")


class FourStates(Output):
    """What is wanted, seen, being done, and shown: stored apart, each with its age."""

    desired = StateView()
    observed = StateView()
    executing = StateView()
    projected = StateView()


class Gate(Output):
    """One gate of a decision, in order."""

    gate = serializers.CharField()
    passed = serializers.BooleanField(allow_null=True)
    code = serializers.CharField(allow_blank=True, allow_null=True)
    detail = serializers.CharField(allow_blank=True, allow_null=True)
    facts = JsonObject(help_text="The numbers that were compared.")


class ComparedOut(Output):
    """One place that a decision looked at."""

    rank = serializers.ChoiceField(choices=["chosen", "second"])
    words = serializers.CharField()


class DecisionOut(Output):
    """Why it was admitted, waits, or was refused."""

    decision = serializers.UUIDField(allow_null=True, help_text="Null for a plan: nothing is kept.")
    request = serializers.UUIDField(allow_null=True)
    action = serializers.CharField(required=False, help_text="What was asked for.")
    verdict = serializers.ChoiceField(choices=["admit", "wait", "deny"], allow_null=True)
    outcome = serializers.ChoiceField(
        source="outcome_class",
        choices=OUTCOMES,
        required=False,
        allow_blank=True,
        help_text="Denied, waiting for authority, forbidden by place and no capacity are four.",
    )
    code = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    unblock = serializers.CharField(allow_blank=True, help_text="What would help.")
    gates = Gate(many=True)
    winner = JsonObject(allow_null=True, help_text="For operators.")
    runner_up = JsonObject(allow_null=True, help_text="For operators.")
    compared = ComparedOut(
        many=True, required=False, help_text="The place that was chosen and the second, in words."
    )
    why = serializers.CharField(allow_blank=True)
    envelope_version = serializers.IntegerField()
    policy_version = serializers.CharField(
        required=False, allow_blank=True, help_text="Digest of the rules that were active."
    )
    digest = serializers.CharField(allow_blank=True, help_text="Hash of the facts that were seen.")
    decided_at = serializers.DateTimeField(allow_null=True)


class StandingOut(Output):
    """Where an allocation stands now, and what would help."""

    id = serializers.UUIDField()
    state = serializers.CharField()
    phase = serializers.CharField()
    outcome = serializers.CharField(allow_blank=True)
    code = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    unblock = serializers.CharField(allow_blank=True)


class ExplanationOut(DecisionOut):
    """The decision behind an allocation, and where it stands."""

    allocation = StandingOut()


class TimelineEntry(Output):
    """One thing that happened to an object."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = ActorOut()
    before = JsonObject(allow_null=True)
    after = JsonObject(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    facts = JsonObject()


class Timeline(Output):
    """What happened, newest first, page by page back to the beginning."""

    items = TimelineEntry(many=True)
    next = serializers.CharField(allow_blank=True)


class EventOut(TimelineEntry):
    """One sealed event of the tenant's chain."""

    seq = serializers.IntegerField(help_text="Position in the chain; the cursor of this feed.")
    id = serializers.UUIDField()
    subject = Reference(allow_null=True)
    request_id = serializers.CharField(allow_blank=True)
    digest = serializers.CharField(help_text="The chain's hash up to here, in hexadecimal.")


class EventPage(Output):
    """Events in chain order."""

    items = EventOut(many=True)
    next = serializers.CharField(allow_blank=True)
    last_seq = serializers.IntegerField(
        help_text="Ask for events after this the next time, even when this page is empty."
    )
