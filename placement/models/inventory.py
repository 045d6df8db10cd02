"""What is remembered about devices, slots and images?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from placement import states
from placement.domain.parts import CUTS, KINDS, MIG, SHARE, WHOLE
from placement.fields import SpanField
from placement.models.node import Node, NodeFamily, Pool

__all__ = ["CutSlot", "GpuDevice", "Image", "NodeFamily", "Pool", "Slot"]


class Image(Base):
    """What a host starts: an operating system for a VM or a whole node."""

    tenant_grant: ClassVar[Grant] = "read"

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)
    shapes = models.JSONField(default=list)
    reference = models.CharField(max_length=200)
    username = models.CharField(max_length=32, default="ubuntu")
    retired_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class GpuDevice(Base):
    """One GPU as its node reported it. Identity is the UUID, never the index."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80)
    uuid_source = models.CharField(max_length=20, blank=True)
    index = models.PositiveSmallIntegerField()
    pci = models.CharField(max_length=20, blank=True)
    model = models.CharField(max_length=200, blank=True)
    memory_bytes = models.BigIntegerField(null=True)
    numa = models.PositiveSmallIntegerField(null=True)
    switch = models.CharField(max_length=120, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["uuid"], name="gpu_is_in_one_node")
        ]

    def __str__(self) -> str:
        return self.uuid


class NicMode(models.TextChoices):
    """What a slot has of a NIC."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    NONE = "none"
    UNKNOWN = "unknown"


class Slot(Stateful):
    """A schedulable bundle of one host: a GPU with its NIC, NVMe, NUMA node, CPUs, memory."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="slots")
    index = models.PositiveSmallIntegerField()
    state = states.SLOT.field()
    gpu_uuid = models.CharField(max_length=80)
    gpu_index = models.PositiveSmallIntegerField()
    numa = models.PositiveSmallIntegerField(null=True)
    switch = models.CharField(max_length=120, blank=True)
    nvlink_domain = models.CharField(max_length=120, blank=True)
    cpuset = models.TextField(blank=True)
    memory_bytes = models.BigIntegerField(null=True)
    nic = models.CharField(max_length=120, blank=True)
    nic_mode = models.CharField(max_length=10, choices=NicMode.choices)
    nvme = models.CharField(max_length=120, blank=True)
    nvme_mode = models.CharField(max_length=10, choices=NicMode.choices, default=NicMode.UNKNOWN)
    devices = models.JSONField(
        default=dict, help_text="What is handed over with the slot, as a node task names it."
    )
    device_uids = ArrayField(
        models.CharField(max_length=160),
        default=list,
        help_text="The identities that a claim holds alone: gpu:…, nic:…, nvme:….",
    )
    cut = models.CharField(
        max_length=5,
        choices=[(cut, cut) for cut in CUTS],
        default=WHOLE,
        db_default=WHOLE,
        help_text="As what it is sold: whole, or in parts of one kind.",
    )
    block_reason = models.CharField(max_length=200, blank=True)
    block_owner = models.JSONField(null=True)
    approved_by = models.JSONField(null=True)
    approved_at = models.DateTimeField(null=True)

    verify = states.SLOT.move("verify")
    approve = states.SLOT.move("approve")
    block = states.SLOT.move("block")
    unblock = states.SLOT.move("unblock")
    retire = states.SLOT.move("retire")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "index"], name="slot_once", condition=~Q(state="retired")
            ),
            models.UniqueConstraint(
                fields=["gpu_uuid"], name="gpu_in_one_slot", condition=~Q(state="retired")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"


class CutSlot(models.Model):
    """What is free on a slot that is sold in parts: derived from claims, found by index.

    Kept exact under the node's lock, as ``free_mask`` is for whole slots, and audited against
    the claims. ``open`` folds the node's ``schedulable``, what its agent can do, and the slot's
    own state, drain and traces, so that a look for room touches only what may be given.
    """

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    slot = models.OneToOneField(
        Slot, on_delete=models.CASCADE, primary_key=True, related_name="cut_state"
    )
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="cut_slots")
    # Rows of one node come and go together, so that a number is free again before it is taken.
    node_num = models.IntegerField()
    slot_index = models.PositiveSmallIntegerField()
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, db_index=False, related_name="+")
    family = models.ForeignKey(
        NodeFamily, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    cut = models.CharField(max_length=5, choices=[(kind, kind) for kind in KINDS])
    board = models.CharField(
        max_length=16, blank=True, help_text="The MIG geometry, by its name; empty for shares."
    )
    memory_mib = models.PositiveIntegerField(help_text="Memory of the GPU.")
    state = models.PositiveSmallIntegerField(
        default=0, help_text="Memory slices and media engines in use, a bit each."
    )
    taken = SpanField(default="{}", help_text="The spans of the node's line in use here.")
    free_milli = models.PositiveSmallIntegerField(default=1000)
    memory_used_mib = models.PositiveIntegerField(default=0)
    holder = models.UUIDField(null=True, help_text="The tenant whose shares are on it.")
    open = models.BooleanField(default=False)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["pool", "family", "board", "state", "node_num"],
                name="cut_mig_free",
                condition=Q(open=True, cut=MIG),
            ),
            models.Index(
                fields=["pool", "family", "holder", "free_milli", "node_num"],
                name="cut_share_free",
                condition=Q(open=True, cut=SHARE),
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node_num", "slot_index"], name="cut_once"),
            models.CheckConstraint(
                condition=Q(free_milli__lte=1000)
                & Q(memory_used_mib__lte=models.F("memory_mib"))
                & Q(state__lt=512),
                name="parts_fit_their_gpu",
            ),
            models.CheckConstraint(
                condition=Q(cut=MIG, holder__isnull=True) & ~Q(board="")
                | Q(cut=SHARE, board="", state=0),
                name="cut_is_of_one_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_num}/{self.slot_index} cut for {self.cut}"
