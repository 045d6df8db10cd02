"""What goes over the wire about what is sold?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import Flag, Input, Output, Short, Text, Whole
from gpuaas.api.serializers.common import Listed
from placement.services.durations import LEAST_S, MOST_S
from tenants.models import Shape
from tenants.states import SkuState


class Slug(Text):
    """A short name for addresses: lower case, digits, and inner dots and hyphens."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=60, **kwargs)
        self.validators.append(_slug_only)


def _slug_only(value: str) -> None:
    kept = value.replace("-", "").replace(".", "")
    plain = kept.isascii() and kept.isalnum() and kept.lower() == kept
    if not plain or value.strip("-.") != value:
        raise serializers.ValidationError(
            "Lower-case letters, digits, and inner dots and hyphens only.", code="bad_format"
        )


class SkuOut(Output):
    """A product."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    shape = serializers.ChoiceField(choices=Shape.choices)
    family = serializers.CharField()
    pool = serializers.CharField()
    resource_class = serializers.CharField(source="resource_class.name")
    units_milli = serializers.IntegerField(help_text="Quota for one slot, part or node.")
    slots_min = serializers.IntegerField()
    slots_max = serializers.IntegerField()
    exclusive_nic = serializers.BooleanField()
    isolation = serializers.CharField()
    part_profile = serializers.CharField(allow_blank=True, help_text="A mig SKU's profile.")
    part_milli = serializers.IntegerField(
        allow_null=True, help_text="Thousandths of a GPU, of a gpu_share SKU."
    )
    part_memory_mib = serializers.IntegerField(
        allow_null=True, help_text="MiB of its memory, of a gpu_share SKU."
    )
    state = serializers.ChoiceField(choices=SkuState.choices)
    price_hour_micro = serializers.IntegerField(help_text="For one slot, part or node.")
    currency = serializers.CharField()
    version = serializers.IntegerField()


class SkuIn(Input):
    """A draft product with its price."""

    name = Slug()
    title = Text(max_length=120)
    description = Text(max_length=2000, required=False, allow_blank=True, default="")
    shape = serializers.ChoiceField(choices=Shape.choices)
    family = Slug()
    pool = Slug(required=False, default="default")
    resource_class = Slug()
    units_milli = Whole(min_value=1, max_value=1_000_000, required=False, default=1000)
    slots_min = Whole(min_value=1, max_value=62, required=False, default=1)
    slots_max = Whole(min_value=1, max_value=62, required=False, default=1)
    exclusive_nic = Flag(required=False, default=False)
    part_profile = Text(
        max_length=24,
        required=False,
        allow_blank=True,
        default="",
        help_text="For the shape mig: a profile such as 1g.10gb.",
    )
    part_milli = Whole(
        min_value=1,
        max_value=1000,
        required=False,
        allow_null=True,
        default=None,
        help_text="For the shape gpu_share: thousandths of a GPU.",
    )
    part_memory_mib = Whole(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        allow_null=True,
        default=None,
        help_text="For the shape gpu_share: MiB of the GPU's memory.",
    )
    hour_micro = Whole(min_value=0, max_value=10**12, help_text="For one slot, part or node.")

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        """The sizes make sense together."""
        if int(str(attrs["slots_min"])) > int(str(attrs["slots_max"])):
            raise serializers.ValidationError(
                {"slots_min": serializers.ErrorDetail("Above slots_max.", "out_of_range")}
            )
        return attrs


class PriceIn(Input):
    """A price from now on."""

    hour_micro = Whole(min_value=0, max_value=10**12)


class PriceOut(Output):
    """A price in force."""

    sku = serializers.CharField()
    hour_micro = serializers.IntegerField()
    currency = serializers.CharField()
    effective_from = serializers.DateTimeField()


class OfferOut(Output):
    """A product as it can be had now."""

    sku = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    shape = serializers.ChoiceField(choices=Shape.choices)
    family = serializers.CharField()
    pool = serializers.CharField()
    resource_class = serializers.CharField()
    units_milli = serializers.IntegerField(help_text="Quota for one slot, part or node.")
    slots_min = serializers.IntegerField()
    slots_max = serializers.IntegerField()
    exclusive_nic = serializers.BooleanField()
    isolation = serializers.CharField()
    part_profile = serializers.CharField(allow_blank=True, help_text="A mig SKU's profile.")
    part_milli = serializers.IntegerField(
        allow_null=True, help_text="Thousandths of a GPU, of a gpu_share SKU."
    )
    part_memory_mib = serializers.IntegerField(
        allow_null=True, help_text="MiB of its memory, of a gpu_share SKU."
    )
    price_hour_micro = serializers.IntegerField(help_text="For one slot, part or node.")
    currency = serializers.CharField()
    available_now = serializers.IntegerField(help_text="Free slots, parts, or whole nodes.")
    available_nodes = serializers.IntegerField()
    largest_fit = serializers.IntegerField(help_text="The largest request that fits one node now.")
    reason = serializers.CharField(allow_blank=True, help_text="The code when nothing is free.")
    detail = serializers.CharField(allow_blank=True)
    closing_nodes = serializers.IntegerField(
        help_text="Nodes with room on which maintenance begins before a lease would end."
    )
    shorter_fits_s = serializers.IntegerField(
        allow_null=True, help_text="A lease of at most so many seconds may be placed there."
    )


class OfferQuery(Short):
    """For a lease that ends by itself; without it, for one that has no end."""

    max_duration_s = serializers.IntegerField(
        required=False, min_value=LEAST_S, max_value=MOST_S, help_text="How long it would last."
    )


class OfferList(Listed):
    """Every published product."""

    items = OfferOut(many=True)


class ImageOut(Output):
    """What a lease may start from."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    title = serializers.CharField()
    shapes = serializers.ListField(child=serializers.CharField())
    username = serializers.CharField(help_text="The account that the SSH keys are put into.")


class WaysOut(Output):
    """What would help, in the words of each surface."""

    api = serializers.CharField()
    cli = serializers.CharField()
    page = serializers.CharField()


class ReasonOut(Output):
    """A permanent reason code."""

    code = serializers.CharField()
    title = serializers.CharField()
    unblock = serializers.CharField(help_text="What would help, in the words of the caller.")
    ways_out = WaysOut()
    status = serializers.IntegerField()
    retryable = serializers.BooleanField()


class ReasonList(Listed):
    """The whole catalogue of codes."""

    items = ReasonOut(many=True)
