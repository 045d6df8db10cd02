"""What is being done?  Durable workflow runs and remembered request outcomes."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from gpuaas.kernel.lifecycle import Edge, Lifecycle
from gpuaas.kernel.models.base import Base, Grant


class RunState(models.TextChoices):
    """How far a run is."""

    PENDING = "pending"
    RUNNING = "running"
    COMPENSATING = "compensating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = (RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED)

# The engine moves runs by itself; the database's trigger holds it to this table.
RUN = Lifecycle(
    "kernel.workflowrun",
    RunState,
    initial=RunState.PENDING,
    edges=(
        Edge("begin", (RunState.PENDING,), RunState.RUNNING, "platform"),
        Edge("succeed", (RunState.PENDING, RunState.RUNNING), RunState.SUCCEEDED, "platform"),
        Edge("undo", (RunState.PENDING, RunState.RUNNING), RunState.COMPENSATING, "platform"),
        Edge("fail", (RunState.COMPENSATING,), RunState.FAILED, "platform"),
        Edge("cancel", (RunState.COMPENSATING,), RunState.CANCELLED, "platform"),
    ),
    final=ENDED,
)


class WorkflowRun(Base):
    """One run of a named workflow; what the API calls an operation is this row.

    ``steps`` is the ordered list of {name, state, attempt, started_at, ended_at, detail,
    error}; ``due_at`` is when it is looked at next; ``deadline_at`` when it is overdue.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    kind = models.CharField(max_length=60)
    tenant_id = models.UUIDField(null=True)
    subject_kind = models.CharField(max_length=40)
    subject_id = models.UUIDField()
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.PENDING)
    step = models.CharField(max_length=40, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    steps = models.JSONField(default=list)
    input = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    actor = models.JSONField(default=dict)
    correlation = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(null=True, db_default=Now())
    deadline_at = models.DateTimeField(null=True)
    lease_epoch = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["due_at"], name="run_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["tenant_id", "-created_at"], name="run_tenant"),
            models.Index(fields=["subject_id"], name="run_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"


class IdempotencyKey(models.Model):
    """A client's key, the request it stood for, and the answer it got."""

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    principal = models.CharField(max_length=80)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["principal", "key"], name="one_use_of_a_key")
        ]
        indexes: ClassVar = [models.Index(fields=["expires_at"], name="key_expiry")]

    def __str__(self) -> str:
        return f"{self.principal}/{self.key}"


class SweepFault(models.Model):
    """An object that a sweep could not do: how often, and when it is tried again."""

    tenant_grant: ClassVar[Grant] = "none"
    tenant_column: ClassVar[str] = ""

    id = models.BigAutoField(primary_key=True)
    sweep = models.CharField(max_length=60)
    subject_id = models.UUIDField()
    attempts = models.PositiveIntegerField(default=1, db_default=1)
    error = models.CharField(max_length=80, help_text="The kind of error; what it said is logged.")
    first_at = models.DateTimeField(db_default=Now())
    tried_at = models.DateTimeField()
    next_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sweep", "subject_id"], name="one_fault_of_a_sweep")
        ]

    def __str__(self) -> str:
        return f"{self.sweep} of {self.subject_id}: {self.attempts} tries"


class RetentionRule(Base):
    """For how many days rows of a kind are kept after they are over; without a row the default."""

    name = models.CharField(max_length=60, unique=True)
    days = models.PositiveIntegerField()
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.name}: {self.days} days"
