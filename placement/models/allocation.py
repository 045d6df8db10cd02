"""What does a tenant hold, and by which proof does a hold end?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import Q

from admission.models import AdmissionRequest, Workload
from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from placement import states
from placement.domain.parts import KINDS
from placement.domain.terms import Alone
from placement.fields import SpanField
from placement.models.inventory import Slot
from placement.models.node import Node
from placement.models.residue import SlotResidue
from tenants.models import Project, ResourceClass, Sku, Tenant

LIVE = Q(state__in=states.LIVE)


class Observed(models.TextChoices):
    """What a node says about a thing; silence is unknown."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Allocation(Stateful):
    """What a tenant has: slots of one node, or a whole node."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, related_name="allocations", db_index=False
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    request = models.ForeignKey(
        AdmissionRequest, on_delete=models.PROTECT, related_name="allocations"
    )
    workload = models.ForeignKey(
        Workload, null=True, on_delete=models.PROTECT, related_name="allocations"
    )
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT, db_index=False)
    name = models.CharField(max_length=120)
    shape = models.CharField(max_length=16)
    slots = models.PositiveSmallIntegerField(help_text="0 means the whole node.")
    tier = models.CharField(max_length=40)
    state = states.ALLOCATION.field()
    outcome = models.CharField(max_length=12, choices=states.Outcome.choices, blank=True)
    outcome_code = models.CharField(max_length=64, blank=True)
    outcome_detail = models.TextField(blank=True)
    node = models.ForeignKey(
        Node, on_delete=models.PROTECT, related_name="allocations", db_index=False
    )
    run_id = models.UUIDField(help_text="The run that is working on it, or worked last.")
    attempt = models.PositiveIntegerField(default=1)
    image = models.CharField(max_length=60)
    hostname = models.CharField(max_length=63)
    ssh_keys = models.JSONField(default=list)
    connection = models.JSONField(null=True)
    observed = models.CharField(max_length=8, choices=Observed.choices, default=Observed.UNKNOWN)
    observed_detail = models.CharField(max_length=200, blank=True)
    observed_at = models.DateTimeField(null=True)
    price_hour_micro = models.BigIntegerField()
    currency = models.CharField(max_length=3, default="USD")
    active_at = models.DateTimeField(null=True)
    release_asked_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    provision = states.ALLOCATION.move("provision")
    activate = states.ALLOCATION.move("activate")
    preempt = states.ALLOCATION.move("preempt")
    release = states.ALLOCATION.move("release")
    block = states.ALLOCATION.move("block")
    finish = states.ALLOCATION.move("finish")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-created_at"], name="allocation_tenant"),
            models.Index(fields=["node"], name="allocation_live", condition=~Q(state="released")),
            models.Index(
                fields=["node"], name="allocation_blocked", condition=Q(state="cleanup_blocked")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.state}"


class Claim(Stateful):
    """A durable hold of a slot, of a part of one, or of a node. It ends by proof, not by intent.

    ``holder`` is the tenant, or the platform once cleanup is blocked: then the tenant
    neither pays nor is charged quota, and the capacity stays blocked.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    # Tenant, node and class are the allocation's, which has the constraints; the commit function
    # writes both at once and an audit compares them. Checked again for every slot they were a
    # sixth of a batch's time, and a shared lock on the few rows that all claims have in common.
    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="claims")
    node = models.ForeignKey(
        Node,
        on_delete=models.PROTECT,
        related_name="claims",
        db_index=False,
        db_constraint=False,
    )
    node_num = models.IntegerField()
    slot = models.ForeignKey(
        Slot, null=True, on_delete=models.PROTECT, related_name="claims", db_index=False
    )
    slot_index = models.SmallIntegerField(help_text="-1 for the whole node.")
    span = SpanField()
    resource_class = models.ForeignKey(
        ResourceClass, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    amount_milli = models.BigIntegerField()
    part = models.JSONField(
        null=True,
        help_text="The part of the slot that is held: kind, and profile, start, size or "
        "milli, memory_mib; null for all of it.",
    )
    state = states.CLAIM.field()
    holder = models.CharField(
        max_length=8, default="tenant", choices=[(x, x) for x in ("tenant", "platform")]
    )
    attempt = models.PositiveIntegerField(default=1)
    boot_id = models.CharField(max_length=64, blank=True)
    alone = models.PositiveSmallIntegerField(
        default=Alone.SHARES,
        db_default=0,
        choices=[(int(x), x.name.lower()) for x in Alone],
        help_text="What was promised to be shared with no other tenant.",
    )
    ended_at = models.DateTimeField(null=True)

    activate = states.CLAIM.move("activate")
    release = states.CLAIM.move("release")
    block = states.CLAIM.move("block")
    finish = states.CLAIM.move("finish")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant", "resource_class"], name="claim_charged", condition=LIVE),
            models.Index(fields=["node_num"], name="claim_live_node", condition=LIVE),
            models.Index(fields=["node_num"], name="claim_alone", condition=LIVE & Q(alone__gt=0)),
        ]
        constraints: ClassVar = [
            ExclusionConstraint(
                name="no_double_claim",
                expressions=[("node_num", RangeOperators.EQUAL), ("span", RangeOperators.OVERLAPS)],
                condition=LIVE,
            ),
            models.CheckConstraint(
                condition=Q(part__isnull=True)
                | Q(slot_index__gte=0, slot__isnull=False, part__kind__in=KINDS),
                name="a_part_is_of_a_slot",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_num}/{self.slot_index} {self.state}"


class ClaimDevice(models.Model):
    """A physical identity held by a claim: unique among live claims, whatever the slot says."""

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    # Written with its claim by the commit function; claims are never deleted.
    claim = models.ForeignKey(
        Claim, on_delete=models.CASCADE, related_name="devices", db_constraint=False
    )
    uid = models.CharField(max_length=160, help_text="kind:identity, such as gpu:GPU-…")
    live = models.BooleanField(default=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["uid"], name="device_held_once", condition=Q(live=True))
        ]

    def __str__(self) -> str:
        return self.uid


class CleanupProof(Base):
    """Evidence that a claim's traces are gone, bound to claim, slot, attempt and boot."""

    claim = models.ForeignKey(Claim, on_delete=models.PROTECT, related_name="proofs")
    slot = models.ForeignKey(Slot, null=True, on_delete=models.PROTECT)
    task = models.ForeignKey("placement.NodeTask", on_delete=models.PROTECT)
    attempt = models.PositiveIntegerField()
    boot_id = models.CharField(max_length=64)
    steps = models.JSONField()
    complete = models.BooleanField()
    missing = models.JSONField(default=list)
    signature = models.CharField(max_length=88, blank=True, db_default="")
    signed_by = models.CharField(max_length=44, blank=True, db_default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["claim", "attempt"], name="one_proof_per_attempt")
        ]

    def __str__(self) -> str:
        return f"proof of {self.claim_id}: {'complete' if self.complete else 'incomplete'}"


class CleanupOverride(Base):
    """An operator's decision to reuse without proof: reasoned, by two people, marked.

    It is about a claim whose cleanup is blocked, or about traces that a host reported.
    """

    claim = models.OneToOneField(
        Claim, null=True, on_delete=models.PROTECT, related_name="override"
    )
    residue = models.OneToOneField(
        SlotResidue, null=True, on_delete=models.PROTECT, related_name="overriding"
    )
    reason = models.TextField()
    asked_by = models.JSONField()
    approved_by = models.JSONField(null=True)
    approved_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(claim__isnull=True) ^ Q(residue__isnull=True),
                name="override_is_of_one_thing",
            )
        ]

    def __str__(self) -> str:
        return f"override of {self.claim_id or self.residue_id}"
