"""What is remembered about a host?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q

from gpuaas.kernel.models import Base, Stateful
from placement import states


class NextNumber(Func):
    """The next node number; an integer keeps the claim constraint's index small."""

    template = "nextval('placement_node_num')::int"
    output_field = models.IntegerField()


class Pool(Base):
    """A set of nodes with one queue and one scheduling cycle."""

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120, blank=True)
    cycles_broken = models.BigIntegerField(
        default=0, db_default=0, help_text="How often its scheduling cycle broke."
    )
    cycle_trouble = models.CharField(max_length=80, blank=True, db_default="")
    cycle_broke_at = models.DateTimeField(null=True)
    notice_lead_s = models.PositiveIntegerField(
        default=72 * 3600,
        db_default=72 * 3600,
        help_text="Seconds before maintenance from which nothing without an end is placed.",
    )
    notice_again_s = models.PositiveIntegerField(
        default=24 * 3600,
        db_default=24 * 3600,
        help_text="Seconds before maintenance at which its tenants are told again.",
    )
    retired_at = models.DateTimeField(null=True, help_text="No host comes into it any more.")

    def __str__(self) -> str:
        return self.name


class NodeFamily(Base):
    """Hosts that are interchangeable for a SKU: same accelerator, same slot count."""

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120)
    gpu_model = models.CharField(max_length=80, blank=True)
    slots = models.PositiveSmallIntegerField()
    retired_at = models.DateTimeField(null=True, help_text="No host is approved as it any more.")

    class Meta:
        verbose_name_plural = "node families"

    def __str__(self) -> str:
        return self.name


class Intended(models.TextChoices):
    """What a host is meant for."""

    SLICES = "slices"
    BAREMETAL = "baremetal"
    ANY = "any"


class Health(models.TextChoices):
    """What the last evidence says; unknown is not absent."""

    OK = "ok"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


class Node(Stateful):
    """A host: what it is meant for, what it reported, and its free capacity.

    ``generation`` rises by one with every change of its claims. ``free_mask`` has bit k
    set when slot k is approved and unclaimed; it is written only with the claims, under
    this row's lock, and audited against them. ``schedulable`` folds state, drain, health
    and evidence into the one column that the candidate index needs.
    """

    num = models.IntegerField(
        unique=True,
        editable=False,
        db_default=NextNumber(),
        help_text="Integer key of the claim constraint.",
    )
    name = models.CharField(max_length=63, unique=True)
    # A claim moves the row in every index, so it has few; and an index on the pool alone looks
    # cheaper than node_free to a planner that thinks few nodes fit.
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes", db_index=False)
    family = models.ForeignKey(
        NodeFamily, null=True, on_delete=models.PROTECT, related_name="nodes", db_index=False
    )
    state = states.NODE.field()
    intended = models.CharField(max_length=10, choices=Intended.choices, default=Intended.ANY)
    zone = models.CharField(max_length=40, blank=True)
    block = models.CharField(max_length=40, blank=True)
    rack = models.CharField(max_length=40, blank=True)
    fabric = models.CharField(
        max_length=80,
        blank=True,
        db_default="",
        help_text="The NVLink domain that it shares with other hosts; empty when it has none.",
    )
    fabric_seen = models.CharField(
        max_length=80,
        blank=True,
        db_default="",
        help_text="Another NVLink domain that its GPUs are in now, while its claims are of before.",
    )
    driver = ArrayField(
        models.IntegerField(),
        default=list,
        db_default=[],
        help_text="Version of the GPU driver, part by part; empty is unknown.",
    )
    runtime = ArrayField(models.IntegerField(), default=list, db_default=[])
    part_kinds = ArrayField(
        models.CharField(max_length=5),
        default=list,
        db_default=[],
        help_text="The kinds of parts of a GPU that its agent says it can make.",
    )

    generation = models.BigIntegerField(default=0)
    slot_count = models.PositiveSmallIntegerField(default=0)
    free_count = models.PositiveSmallIntegerField(default=0)
    free_mask = models.BigIntegerField(default=0)
    exclusive_mask = models.BigIntegerField(default=0, help_text="Slots whose NIC is theirs alone.")
    layout = models.CharField(
        max_length=3200,
        blank=True,
        help_text="numa.switch.domain.nic.links of each slot, joined by |.",
    )
    schedulable = models.BooleanField(default=False)
    free_until = models.DateTimeField(
        null=True, help_text="When its next window of maintenance begins."
    )
    open_until = models.DateTimeField(
        null=True, help_text="Until when something without an end may be placed there."
    )
    takes = models.CharField(
        max_length=10,
        default="none",
        db_default="none",
        choices=[(word, word) for word in ("slices", "baremetal", "any", "none")],
        help_text="What may be placed: what it is meant for, narrowed to what it is promoted for.",
    )

    boot_id = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=40, blank=True)
    last_seen_at = models.DateTimeField(null=True)
    health = models.CharField(max_length=10, choices=Health.choices, default=Health.UNKNOWN)
    conditions = models.JSONField(default=list)
    observed = models.JSONField(default=dict)
    observed_at = models.DateTimeField(null=True)
    observed_seq = models.BigIntegerField(default=0)
    topology = models.JSONField(default=dict)
    topology_at = models.DateTimeField(null=True)
    projected = models.JSONField(default=dict)
    projected_at = models.DateTimeField(null=True)

    inspect = states.NODE.move("inspect")
    verify = states.NODE.move("verify")
    approve = states.NODE.move("approve")
    maintain = states.NODE.move("maintain")
    quarantine = states.NODE.move("quarantine")
    restore = states.NODE.move("restore")
    restore_verifying = states.NODE.move("restore_verifying")
    restore_inspecting = states.NODE.move("restore_inspecting")
    retire = states.NODE.move("retire")

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["pool", "family", "free_count", "num"],
                name="node_free",
                condition=Q(schedulable=True),
            ),
            models.Index(fields=["fabric"], name="node_fabric", condition=~Q(fabric="")),
            models.Index(
                fields=["fabric_seen"], name="node_fabric_seen", condition=~Q(fabric_seen="")
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(slot_count__lte=62, free_mask__gte=0), name="slots_fit_the_mask"
            )
        ]

    def __str__(self) -> str:
        return self.name


class NodeDrain(Base):
    """An order to take no new work on a node or one slot; who said so, and why."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="drains")
    slot_index = models.PositiveSmallIntegerField(null=True)
    owner = models.JSONField(default=dict)
    reason = models.TextField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "slot_index"],
                name="one_open_drain",
                condition=Q(ended_at__isnull=True),
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"drain of {self.node_id}: {self.reason}"


class JoinToken(Base):
    """A short-lived, single-use invitation for one named node; only its hash is kept."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.BinaryField(max_length=32, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_key = models.CharField(max_length=64, blank=True)
    created_by = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"join token of {self.node_id}"


class NodeCredential(Base):
    """A node's public key, until when it is good, and the last message accepted from it."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="credentials")
    public_key = models.CharField(max_length=64)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_sequence = models.BigIntegerField(default=0)
    last_seen_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"credential of {self.node_id}"
