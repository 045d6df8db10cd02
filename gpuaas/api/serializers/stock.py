"""What goes over the wire about pools, kinds of hosts and images?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Input, Output, Text, Whole
from gpuaas.api.serializers.catalogue import Slug
from placement.services.stock import MACHINES, MOST_SLOTS


def _optional(most: int, help_text: str = "") -> Text:
    return Text(
        max_length=most, required=False, allow_blank=True, default="", help_text=help_text or None
    )


class PoolIn(Input):
    """A set of hosts with one queue."""

    name = Slug()
    title = _optional(120)
    reason = _optional(500)


class PoolOut(Output):
    """A set of hosts with one queue."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    title = serializers.CharField()
    nodes = serializers.IntegerField(
        source="node_total", help_text="Hosts in it that are not retired."
    )
    retired_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when no host comes into it."
    )


class PoolTitleIn(Input):
    """Another title; the name is for good."""

    title = Text(max_length=120, allow_blank=True, help_text="For people; empty: the name.")
    reason = _optional(500)


class FamilyIn(Input):
    """A kind of hosts, as which they are approved and of which SKUs are sold."""

    name = Slug()
    title = _optional(120)
    slots = Whole(min_value=1, max_value=MOST_SLOTS, help_text="Of each of its hosts.")
    gpu_model = _optional(80, "For people; hosts tell their own.")
    reason = _optional(500)


class FamilyOut(Output):
    """A kind of hosts."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    title = serializers.CharField()
    slots = serializers.IntegerField()
    gpu_model = serializers.CharField(allow_blank=True)
    nodes = serializers.IntegerField(
        source="node_total", help_text="Hosts of it that are not retired."
    )
    retired_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when no host is approved as it."
    )


class FamilyTitleIn(PoolTitleIn):
    """Another title, and what its GPU is for people; the name is for good."""

    gpu_model = Text(max_length=80, required=False, allow_blank=True)


class SkuTitleIn(PoolTitleIn):
    """Another title and description; the name is for good."""

    description = Text(max_length=2000, required=False, allow_blank=True)


class UseOut(Output):
    """How many of a kind use it."""

    what = serializers.CharField(help_text="hosts, skus, requests, leases, workloads, …")
    now = serializers.IntegerField(help_text="That keep it from being retired; not of a SKU.")
    ever = serializers.IntegerField(help_text="That keep it from being removed.")


class UsesOut(Output):
    """What uses a pool, a family or a SKU, and what of its end that leaves."""

    name = serializers.CharField()
    uses = UseOut(many=True)
    may_retire = serializers.BooleanField()
    may_remove = serializers.BooleanField()


class ImageIn(Input):
    """What a lease may start from; hosts know it by its name."""

    name = Slug()
    title = _optional(120)
    shapes = serializers.ListField(
        child=serializers.ChoiceField(choices=list(MACHINES)), min_length=1, max_length=2
    )
    reference = _optional(200, "Where hosts have it from, for people.")
    username = Text(
        max_length=32,
        required=False,
        default="ubuntu",
        help_text="The account that the SSH keys are put into.",
    )
    reason = _optional(500)
