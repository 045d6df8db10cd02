"""What goes over the wire about where things are placed, and what idle capacity cannot be used?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Output, Query
from placement.domain.stranding import CAUSES


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


class FragmentationList(Output):
    """Every published product, by name."""

    items = FragmentationOut(many=True)


class FragmentationQuery(Query):
    """Of one product, or of all."""

    sku = serializers.CharField(required=False, max_length=60)
