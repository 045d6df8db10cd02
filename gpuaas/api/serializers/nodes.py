"""What goes over the wire about hosts, slots and their tasks, for operators?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from gpuaas.api.fields import AnyOf, Input, JsonObject, Output, Paged, Text, Whole
from gpuaas.api.serializers.common import ActorOut, FourStates, Listed, Named, Reasoned
from placement.domain.capacity import POSTURES
from placement.domain.parts import CUTS, KINDS
from placement.models.inventory import NicMode
from placement.models.node import Health, Intended
from placement.states import ClaimState, NodeState, SlotState, TaskState


class NodeName(Text):
    """A host's name: letters, digits, dots and hyphens."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(max_length=63, **kwargs)
        self.validators.append(_host_only)


def _host_only(value: str) -> None:
    kept = value.replace("-", "").replace(".", "")
    if not (kept.isascii() and kept.isalnum()) or value.strip("-.") != value:
        raise serializers.ValidationError(
            "Letters, digits, and inner dots and hyphens only.", code="bad_format"
        )


class NodeIn(Input):
    """A host that is expected to join."""

    name = NodeName()
    pool = Text(max_length=60, required=False, default="default")
    intended = serializers.ChoiceField(choices=Intended.choices, required=False, default="any")
    zone = Text(max_length=40, required=False, allow_blank=True, default="")
    block = Text(max_length=40, required=False, allow_blank=True, default="")
    rack = Text(max_length=40, required=False, allow_blank=True, default="")


class NodeQuery(Paged):
    """Filters of a list of hosts."""

    state = AnyOf(NodeState.choices)
    pool = serializers.CharField(required=False, max_length=60)


class DrainOut(Output):
    """An order to take no new work."""

    slot_index = serializers.IntegerField(allow_null=True, help_text="null means the whole node.")
    reason = serializers.CharField(allow_blank=True)
    owner = ActorOut()
    created_at = serializers.DateTimeField()


class NodeOut(Output):
    """A host."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    num = serializers.IntegerField()
    pool = serializers.CharField()
    family = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=NodeState.choices)
    posture = serializers.ChoiceField(choices=POSTURES)
    intended = serializers.ChoiceField(choices=Intended.choices)
    zone = serializers.CharField(allow_blank=True)
    block = serializers.CharField(allow_blank=True)
    rack = serializers.CharField(allow_blank=True)
    fabric = serializers.CharField(
        allow_blank=True, help_text="The NVLink domain that it shares with other hosts."
    )
    generation = serializers.IntegerField()
    slots_total = serializers.IntegerField()
    slots_free = serializers.IntegerField()
    schedulable = serializers.BooleanField()
    health = serializers.ChoiceField(choices=Health.choices)
    boot_id = serializers.CharField(allow_blank=True)
    agent_version = serializers.CharField(allow_blank=True)
    last_seen_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()
    part_kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=KINDS),
        help_text="The parts of GPUs that its agent says it can make.",
    )


class BlockOut(Output):
    """What keeps one slot, or a whole node, from being leased."""

    slot_index = serializers.IntegerField(help_text="-1 for a claim of the whole node.")
    slot = serializers.UUIDField(allow_null=True)
    code = serializers.CharField(help_text="residue_found or cleanup_blocked.")
    detail = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField()
    allocation = serializers.CharField(allow_blank=True, help_text="What left it, if known.")
    asked_by = ActorOut(allow_null=True, help_text="Who asked for an override of it.")


class NodeDetail(NodeOut):
    """A host with its four states, conditions, drains, and what blocks slots of it."""

    states = FourStates()
    conditions = serializers.ListField(child=JsonObject())
    drains = DrainOut(many=True)
    blocks = BlockOut(many=True)
    observed_at = serializers.DateTimeField(allow_null=True)
    topology_at = serializers.DateTimeField(allow_null=True)


class ClaimOut(Output):
    """What holds a slot."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=ClaimState.choices)
    holder = serializers.ChoiceField(choices=["tenant", "platform"])
    tenant = Named()
    allocation = serializers.UUIDField()


class PartOut(ClaimOut):
    """A part of a cut slot that somebody holds."""

    kind = serializers.ChoiceField(choices=KINDS)
    part = serializers.CharField(help_text="1g.10gb@6:1, or 300/1000 with 20000 MiB.")
    spans = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="From and to, in thousandths of the GPU.",
    )


class SlotOut(Output):
    """A schedulable bundle of one host."""

    id = serializers.UUIDField()
    index = serializers.IntegerField()
    state = serializers.ChoiceField(choices=SlotState.choices)
    display_state = serializers.CharField(help_text="free, in_use, draining …: as it is drawn.")
    gpu_uuid = serializers.CharField()
    gpu_index = serializers.IntegerField()
    numa = serializers.IntegerField(allow_null=True)
    switch = serializers.CharField(allow_null=True)
    nvlink_domain = serializers.CharField(allow_null=True)
    nvlink_links = serializers.DictField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Direct links to other slots of the host, by their index, as placement counts "
        "them; null where they were not read.",
    )
    cpuset = serializers.CharField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    nic = serializers.CharField(allow_null=True)
    nic_mode = serializers.ChoiceField(choices=NicMode.choices)
    nvme = serializers.CharField(allow_null=True)
    block_reason = serializers.CharField(allow_blank=True)
    claim = ClaimOut(allow_null=True)
    blocks = BlockOut(many=True)
    cut = serializers.ChoiceField(choices=CUTS)
    free_milli = serializers.IntegerField(
        allow_null=True, help_text="Of a cut slot, what is in no part; null for a whole one."
    )
    parts = PartOut(many=True, help_text="What is held of a cut slot.")


class SlotList(Listed):
    """A host's slots."""

    items = SlotOut(many=True)


class TaskOut(Output):
    """A bounded piece of work for a host."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.ChoiceField(choices=TaskState.choices)
    allocation = serializers.UUIDField(allow_null=True)
    attempt = serializers.IntegerField()
    lease_epoch = serializers.IntegerField()
    lease_until = serializers.DateTimeField(allow_null=True)
    step = serializers.CharField(allow_blank=True)
    percent = serializers.IntegerField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_detail = serializers.CharField(allow_null=True)
    due_at = serializers.DateTimeField()
    deadline_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class TopologyOut(Output):
    """What the host reported about its wiring."""

    node = Named()
    as_of = serializers.DateTimeField(allow_null=True)
    known = serializers.BooleanField()
    hostname = serializers.CharField(allow_null=True)
    source: Any = JsonObject(allow_null=True)
    numa = serializers.ListField(child=JsonObject())
    switches = serializers.ListField(child=JsonObject())
    gpus = serializers.ListField(child=JsonObject())
    nics = serializers.ListField(child=JsonObject())
    nvmes = serializers.ListField(child=JsonObject())
    nvswitches = serializers.ListField(child=JsonObject())
    nvlinks = serializers.ListField(child=JsonObject())
    findings = serializers.ListField(child=JsonObject())
    slots = serializers.ListField(child=JsonObject())
    facts = serializers.ListField(
        child=JsonObject(), help_text="What else was looked at: present, absent, or unknown why."
    )


class JoinTokenIn(Input):
    """How long the invitation is good."""

    ttl_s = Whole(min_value=60, max_value=3600, required=False, default=900)


class JoinTokenOut(Output):
    """A one-time invitation; its text is shown this once."""

    token = serializers.CharField()
    node = Named()
    expires_at = serializers.DateTimeField()


class ApproveIn(Reasoned):
    """Approve what was discovered."""

    family = Text(max_length=60, required=False, allow_null=True, default=None)


class DrainIn(Reasoned):
    """Take no new work on the node, or on one slot of it."""

    slot_index = Whole(min_value=0, max_value=61, required=False, allow_null=True, default=None)


class CutIn(Reasoned):
    """As what a slot is sold from now on."""

    slot_index = Whole(min_value=0, max_value=61)
    cut = serializers.ChoiceField(
        choices=CUTS, help_text="whole, mig (MIG instances) or share (parts without isolation)."
    )


class OverrideOut(Output):
    """A decision to reuse without proof: asked by one person, approved by another."""

    claim = serializers.UUIDField(allow_null=True, help_text="The blocked cleanup it ends.")
    residue = serializers.UUIDField(allow_null=True, help_text="The traces that it accepts.")
    slot = serializers.UUIDField(allow_null=True, help_text="null means the whole node.")
    reason = serializers.CharField()
    asked_by = ActorOut()
    approved_by = ActorOut(allow_null=True)
    approved_at = serializers.DateTimeField(allow_null=True)


class OverrideList(Output):
    """The overrides of what an allocation left blocked, or of one slot."""

    items = OverrideOut(many=True)
    approval = serializers.CharField(help_text="Whose approval counts now, in words.")
