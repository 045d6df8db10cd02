"""What goes over the wire about where things are placed, and what idle capacity cannot be used?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import Id, Input, JsonObject, Output, Short, Text, Whole
from gpuaas.api.serializers.common import ActorOut, Listed, OwnField, Reasoned
from placement.domain.part_stranding import PART_CAUSES
from placement.domain.stranding import CAUSES
from placement.domain.terms import Alone


class FitOut(Output):
    """How many requests of a size fit."""

    size = serializers.IntegerField(help_text="Slots of one request.")
    now = serializers.IntegerField()
    ideal = serializers.IntegerField(help_text="If what is open were gathered.")


class StrandedOut(Output):
    """Idle slots that the product cannot use, by one cause."""

    cause = serializers.ChoiceField(choices=list(CAUSES))
    slots = serializers.IntegerField()
    help = serializers.CharField(help_text="What would help.")


class FreeByHost(Output):
    """How many hosts have so many open slots."""

    free = serializers.IntegerField()
    hosts = serializers.IntegerField()


class FragmentationOut(Output):
    """One product: what is idle, what of it is open, what fits, and why the rest is stranded."""

    sku = serializers.CharField()
    pool = serializers.CharField()
    family = serializers.CharField()
    hosts = serializers.IntegerField()
    slots = serializers.IntegerField(help_text="Approved slots of these hosts.")
    idle = serializers.IntegerField(help_text="Slots that nobody holds.")
    open = serializers.IntegerField(help_text="Idle slots that the product may use.")
    largest_fit = serializers.IntegerField(help_text="The largest request that fits now.")
    scattered_permille = serializers.IntegerField(
        help_text="Of the largest requests that could fit, how many do not because slots are apart."
    )
    fits = FitOut(many=True)
    stranded = StrandedOut(many=True)
    free_by_host = FreeByHost(many=True)


class PartFitOut(Output):
    """How many parts of a size fit now, and at most if what is open stood together."""

    part = serializers.CharField()
    now = serializers.IntegerField()
    ideal = serializers.IntegerField()


class PartStrandedOut(Output):
    """Idle capacity of no use to a part, by cause."""

    cause = serializers.ChoiceField(choices=list(PART_CAUSES))
    milli = serializers.IntegerField(help_text="Thousandths of a GPU.")
    help = serializers.CharField(help_text="What would help.")


class PartFragmentationOut(Output):
    """One product that is a part of a GPU: thousandths of the GPUs that are cut."""

    sku = serializers.CharField()
    pool = serializers.CharField()
    family = serializers.CharField()
    part = serializers.CharField(help_text="The profile, or the share with its memory.")
    cut_slots = serializers.IntegerField(help_text="Slots of its home that are cut, in any way.")
    idle_milli = serializers.IntegerField(help_text="What of them nobody holds.")
    open_milli = serializers.IntegerField(help_text="What of it the product may use.")
    parts_now = serializers.IntegerField(help_text="How many of it fit now.")
    largest_fit = serializers.CharField(
        allow_blank=True, help_text="The largest part of its kind that fits now."
    )
    fits = PartFitOut(many=True, help_text="Of a MIG product every profile of the boards.")
    stranded = PartStrandedOut(many=True)


class FragmentationList(Listed):
    """Every published product, by name: of slots and hosts, and of parts of GPUs."""

    items = FragmentationOut(many=True)
    parts = PartFragmentationOut(many=True)


class FragmentationQuery(Short):
    """Of one product, or of all."""

    sku = serializers.CharField(required=False, max_length=60)


class TermsIn(Input):
    """All terms of one noun; what is left out binds nothing."""

    alone = serializers.ChoiceField(
        choices=[level.name.lower() for level in Alone],
        required=False,
        default="shares",
        help_text="What is shared with no other tenant.",
    )
    own = OwnField(help_text="Only with, or only apart from, what the tenant holds already.")
    driver_min = Text(max_length=40, required=False, allow_blank=True, default="")
    driver_below = Text(max_length=40, required=False, allow_blank=True, default="")
    runtime_min = Text(max_length=40, required=False, allow_blank=True, default="")
    tenants = serializers.ListField(
        child=Id(),
        max_length=200,
        required=False,
        default=list,
        help_text="Ids of the tenants that a pool is for; empty: everybody.",
    )


class TermsSetIn(TermsIn):
    """The same, naming the preview that was looked at."""

    seen = Text(max_length=64, help_text="The digest of the preview.")
    reason = Text(max_length=500, help_text="Why; kept in the audit log.")


class TermsOut(Output):
    """What is promised or demanded of every placement of one SKU, tier or pool."""

    about = serializers.CharField(help_text="sku:NAME, tier:NAME or pool:NAME.")
    version = serializers.IntegerField()
    alone = serializers.CharField()
    own = serializers.CharField(allow_blank=True)
    driver_min = serializers.CharField(allow_blank=True)
    driver_below = serializers.CharField(allow_blank=True)
    runtime_min = serializers.CharField(allow_blank=True)
    tenants = serializers.ListField(child=serializers.CharField())
    set_by = ActorOut(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    set_at = serializers.DateTimeField(allow_null=True)


class TermsVersion(Output):
    """What the terms became, by whom and why."""

    at = serializers.DateTimeField()
    actor = ActorOut()
    reason = serializers.CharField(allow_blank=True)
    after = JsonObject(allow_null=True)


class TermsDetail(TermsOut):
    """The terms in force, with what they were before: the latest first."""

    versions = TermsVersion(many=True)


class TermsList(Listed):
    """All terms that were ever set, by what they are about."""

    items = TermsOut(many=True)


class TermsChange(Output):
    """One term now and then."""

    term = serializers.CharField()
    before: Any = serializers.JSONField(allow_null=True)
    after: Any = serializers.JSONField(allow_null=True)


class TermsPreviewOut(Output):
    """What other terms would touch; nothing has changed."""

    about = serializers.CharField()
    changes = TermsChange(many=True)
    unrealisable = serializers.ListField(
        child=serializers.CharField(), help_text="SKUs that no host could realise any more."
    )
    nodes_ruled_out = serializers.IntegerField(source="ruled_out")
    running = serializers.IntegerField(
        help_text="Live allocations: they keep what they were promised."
    )
    running_names = serializers.ListField(child=serializers.CharField())
    shut_out = serializers.ListField(
        child=serializers.CharField(), help_text="Tenants that may place nothing more there."
    )
    digest = serializers.CharField(help_text="What the change must name as seen.")


class ScoringIn(Reasoned):
    """Weights in thousandths."""

    gap = Whole(min_value=0, max_value=1_000_000)
    fragment = Whole(min_value=0, max_value=1_000_000)
    stranded = Whole(min_value=0, max_value=1_000_000)
    broken = Whole(min_value=0, max_value=1_000_000)


class ScoringOut(Output):
    """One version of the weights; number 0 are those of the product, never set."""

    number = serializers.IntegerField()
    gap = serializers.IntegerField()
    fragment = serializers.IntegerField()
    stranded = serializers.IntegerField()
    broken = serializers.IntegerField()
    reason = serializers.CharField(allow_blank=True)
    set_by = ActorOut(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)


class ScoringList(Listed):
    """Every version, that in force first."""

    items = ScoringOut(many=True)
