"""What goes over the wire about moves that make room?"""

from __future__ import annotations

from rest_framework import serializers

from gpuaas.api.fields import Flag, Id, Input, Output, Text, Whole
from gpuaas.api.serializers.catalogue import Slug
from gpuaas.api.serializers.common import Listed, Reasoned
from placement.services.defrag import MOST_LOST_MILLI, MOST_MOVES


class DefragPolicyIn(Reasoned):
    """Whether and how far a pool's movable work may be moved."""

    enabled = Flag()
    moves = Whole(min_value=1, max_value=MOST_MOVES, required=False, default=4)
    lost_milli = Whole(min_value=0, max_value=MOST_LOST_MILLI, required=False, default=8000)
    from_hour = Whole(min_value=0, max_value=23, required=False, default=0)
    until_hour = Whole(min_value=0, max_value=23, required=False, default=0)


class DefragPolicyOut(Output):
    """A pool's policy; version 0 was never set, and allows nothing."""

    pool = serializers.CharField(source="pool.name")
    enabled = serializers.BooleanField()
    moves = serializers.IntegerField(help_text="At most so many in one run.")
    lost_milli = serializers.IntegerField(help_text="Thousandths of a GPU-hour of lost work.")
    from_hour = serializers.IntegerField(help_text="UTC; equal to until_hour: the whole day.")
    until_hour = serializers.IntegerField()
    version = serializers.IntegerField()


class DefragPolicyList(Listed):
    """Of every pool."""

    items = DefragPolicyOut(many=True)


class DefragIn(Input):
    """The room that is wanted, and a smaller budget than the pool's."""

    sku = Slug()
    slots = Whole(min_value=0, max_value=62, required=False, allow_null=True, default=None)
    request = Id(
        required=False,
        allow_null=True,
        default=None,
        help_text="A request that waits: room for just that, and it gets it.",
    )
    moves = Whole(min_value=0, max_value=MOST_MOVES, required=False, allow_null=True, default=None)
    lost_milli = Whole(
        min_value=0, max_value=MOST_LOST_MILLI, required=False, allow_null=True, default=None
    )


class DefragRunIn(DefragIn):
    """The same, naming the plan that was looked at."""

    seen = Text(max_length=64, help_text="The digest of the plan.")
    reason = Text(max_length=500, help_text="Why; kept in the audit log.")


class MoveOut(Output):
    """One allocation that would be moved."""

    allocation = serializers.UUIDField()
    name = serializers.CharField()
    tenant = serializers.CharField()
    workload = serializers.CharField()
    source_node = serializers.CharField(help_text="Where it is.")
    leaves = serializers.ListField(child=serializers.IntegerField(), help_text="Its slots there.")
    target = serializers.CharField(help_text="Where it goes.")
    takes = serializers.ListField(child=serializers.IntegerField())
    lost_milli = serializers.IntegerField()


class PictureOut(Output):
    """One host's slots before and after: free, held, leaving, arriving."""

    host = serializers.CharField()
    before = serializers.ListField(child=serializers.CharField())
    after = serializers.ListField(child=serializers.CharField())


class LeftOutOut(Output):
    """Allocations on these hosts that are not moved, and why."""

    code = serializers.CharField()
    allocations = serializers.IntegerField()


class DefragPlanOut(Output):
    """What would be moved; nothing has changed."""

    sku = serializers.CharField()
    slots = serializers.IntegerField(help_text="The size that room is made for; 0: a whole host.")
    pool = serializers.CharField()
    possible = serializers.BooleanField()
    enabled = serializers.BooleanField(help_text="Whether the pool allows moves.")
    fits_already = serializers.BooleanField()
    decided = serializers.BooleanField(help_text="False: none was found in the time for it.")
    detail = serializers.CharField(source="said")
    host = serializers.CharField(allow_blank=True, help_text="Where the room would be.")
    moves = MoveOut(many=True)
    lost_milli = serializers.IntegerField()
    moves_allowed = serializers.IntegerField(source="budget.moves")
    lost_allowed_milli = serializers.IntegerField(source="budget.lost")
    movable = serializers.IntegerField(help_text="How many allocations may be moved at all.")
    fewest = serializers.BooleanField(
        help_text="Whether it is proven that no plan has fewer moves: all hosts were looked at."
    )
    hosts_looked_at = serializers.IntegerField()
    left_out = LeftOutOut(many=True)
    pictures = PictureOut(many=True)
    digest = serializers.CharField(allow_blank=True, help_text="What a run must name as seen.")
