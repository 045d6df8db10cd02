"""What happened?  The append-only audit log, its seals, and its deliveries."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Cast, Now

from gpuaas.kernel.models.base import Base, Grant


class CurrentTransaction(Func):
    """The id of the writing transaction, by which the sealer orders events."""

    function = "pg_current_xact_id"
    output_field = models.TextField()


class Event(models.Model):
    """One thing that happened: who, what, before, after, why. Never changed."""

    tenant_grant: ClassVar[Grant] = "append"
    tenant_column: ClassVar[str] = "tenant_id"

    id = models.BigAutoField(primary_key=True)
    uid = models.UUIDField(unique=True)
    xid = models.BigIntegerField(
        db_default=Cast(Cast(CurrentTransaction(), models.TextField()), models.BigIntegerField())
    )
    at = models.DateTimeField(db_default=Now())
    tenant_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=80)
    subject_kind = models.CharField(max_length=40, blank=True)
    subject_id = models.UUIDField(null=True)
    actor = models.JSONField(default=dict)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(blank=True)
    facts = models.JSONField(default=dict)
    correlation = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["xid", "id"], name="event_seal_order"),
            models.Index(fields=["tenant_id", "id"], name="event_tenant"),
            models.Index(fields=["subject_id", "id"], name="event_subject"),
            BrinIndex(fields=["at"], name="event_at"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id or ''}"


class EventSeal(models.Model):
    """One link of a tenant's hash chain: seq counts from 1 without gaps."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "chain"

    id = models.BigAutoField(primary_key=True)
    chain = models.UUIDField(help_text="The tenant, or the nil UUID for the platform's chain.")
    seq = models.BigIntegerField()
    event = models.OneToOneField(
        Event, on_delete=models.DO_NOTHING, related_name="seal", db_constraint=False
    )
    digest = models.BinaryField(max_length=32)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["chain", "seq"], name="seal_once_per_position")
        ]

    def __str__(self) -> str:
        return f"{self.chain}#{self.seq}"


class Delivery(models.Model):
    """One event for one subscriber: the outbox."""

    tenant_grant: ClassVar[Grant] = "append"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    event = models.ForeignKey(
        Event, on_delete=models.DO_NOTHING, related_name="deliveries", db_index=False
    )
    subscriber = models.CharField(max_length=40)
    subject_id = models.UUIDField(
        null=True, help_text="Deliveries of one subject come in order; without one, in any."
    )
    state = models.CharField(
        max_length=10,
        default="pending",
        choices=[("pending", "pending"), ("done", "done"), ("failed", "failed")],
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now())
    done_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["event", "subscriber"], name="delivery_once")
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["due_at", "id"], name="delivery_due", condition=Q(state="pending")
            ),
            models.Index(
                fields=["subject_id", "subscriber", "event"],
                name="delivery_order",
                condition=Q(state="pending"),
            ),
            models.Index(fields=["done_at"], name="delivery_done", condition=Q(state="done")),
        ]

    def __str__(self) -> str:
        return f"{self.subscriber} ← {self.event_id}: {self.state}"


class Lease(Base):
    """Who may do a thing that only one may do at a time (a beat tick, a pool's cycle)."""

    name = models.CharField(max_length=80, unique=True)
    holder = models.CharField(max_length=80, blank=True)
    until = models.DateTimeField(null=True)
    epoch = models.BigIntegerField(default=0)
    note = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.name}: {self.holder or 'free'}"
