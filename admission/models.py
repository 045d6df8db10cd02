"""What was asked, and what was decided on which facts?"""

from __future__ import annotations

from typing import ClassVar, Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from admission import states
from gpuaas.kernel.models import Base, Stateful
from gpuaas.kernel.models.base import Grant
from tenants.models import Project, ResourceClass, Sku, SlaTier, Tenant


class Action(models.TextChoices):
    """What a tenant may ask for; each passes the same gates and leaves the same record."""

    LEASE = "allocation.create"
    JOB = "job.submit"
    SERVICE = "service.create"
    MODEL = "model.deploy"
    SCALE = "workload.scale"
    BATCH_SIZE = "workload.batch_size"
    SHARING = "gpu.sharing"
    PLACEMENT = "workload.placement"
    PRIORITY = "workload.priority"
    SIGNUP = "tenant.signup"
    DELETION = "tenant.delete"
    QUOTA_INCREASE = "quota.increase"


CHANGES: Final = (Action.SIGNUP, Action.DELETION, Action.QUOTA_INCREASE)
"""Actions on the tenant itself: they take no capacity, and belong to no project."""


class Workload(Stateful):
    """What a tenant wants to run: intent only, in no scheduler's words.

    ``spec`` is the checked specification of its kind; ``generation`` rises with each change.
    """

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="workloads")
    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    kind = models.CharField(max_length=8, choices=[(x, x) for x in ("job", "service", "model")])
    name = models.CharField(max_length=120)
    sku = models.ForeignKey(Sku, on_delete=models.PROTECT)
    slots = models.PositiveSmallIntegerField(help_text="Per replica; 0 means whole nodes.")
    replicas = models.PositiveIntegerField(default=1)
    band = models.PositiveSmallIntegerField(default=0)
    batch_size = models.PositiveIntegerField(null=True)
    spec = models.JSONField(default=dict)
    generation = models.PositiveIntegerField(default=1)
    state = states.WORKLOAD.field()
    outcome = models.CharField(max_length=12, blank=True)
    code = models.CharField(max_length=64, blank=True)
    ended_at = models.DateTimeField(null=True)

    admit = states.WORKLOAD.move("admit")
    stop = states.WORKLOAD.move("stop")
    end = states.WORKLOAD.move("end")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["tenant", "-created_at"], name="workload_tenant")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.state}"


class PolicyRule(Stateful):
    """One version of an operator's rule, in CEL: true forbids. The name spans its versions."""

    name = models.SlugField(max_length=60)
    rule_version = models.PositiveIntegerField()
    actions = ArrayField(models.CharField(max_length=40, choices=Action.choices), default=list)
    expression = models.TextField(max_length=2000)
    message = models.CharField(max_length=300)
    unblock = models.CharField(max_length=300, blank=True)
    tests = models.JSONField(default=list, help_text="[{name, facts, forbids}]")
    report = models.JSONField(null=True, help_text="The last dry-run against recorded decisions.")
    author = models.JSONField(default=dict)
    state = states.POLICY.field()

    try_out = states.POLICY.move("try_out")
    activate = states.POLICY.move("activate")
    retire = states.POLICY.move("retire")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name", "rule_version"], name="one_rule_version"),
            models.UniqueConstraint(
                fields=["name"], name="one_active_version", condition=Q(state="active")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.rule_version} {self.state}"


class AdmissionRequest(Stateful):
    """One tenant action that is admitted, queued or refused, with reasons."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    tenant = models.ForeignKey(
        Tenant,
        null=True,
        on_delete=models.PROTECT,
        related_name="requests",
        db_index=False,
        help_text="Empty while a signup has not made one: then only the platform sees it.",
    )
    project = models.ForeignKey(Project, null=True, on_delete=models.PROTECT)
    action = models.CharField(max_length=40, choices=Action.choices, default=Action.LEASE)
    sku = models.ForeignKey(Sku, null=True, on_delete=models.PROTECT, db_index=False)
    resource_class = models.ForeignKey(
        ResourceClass, null=True, on_delete=models.PROTECT, db_index=False
    )
    tier = models.ForeignKey(SlaTier, null=True, on_delete=models.PROTECT, db_index=False)
    pool = models.CharField(max_length=60, blank=True)
    workload = models.ForeignKey(
        Workload, null=True, on_delete=models.PROTECT, related_name="requests"
    )
    subject_id = models.UUIDField(null=True, help_text="What the action is about, if not new.")
    slots = models.PositiveSmallIntegerField(help_text="0 means the whole node.")
    replicas = models.PositiveIntegerField(default=1, db_default=1)
    amount_milli = models.BigIntegerField(help_text="Quota it takes when placed.")
    wait = models.BooleanField(default=False)
    band = models.PositiveSmallIntegerField(default=0)
    spec = models.JSONField(default=dict, help_text="Name, image, keys: what is not a rule.")
    state = states.REQUEST.field()
    code = models.CharField(max_length=64, blank=True, help_text="Why it waits or was refused.")
    detail = models.TextField(blank=True)
    allocation_id = models.UUIDField(null=True, help_text="What it became, once placed.")
    run_id = models.UUIDField(null=True)
    actor = models.JSONField(default=dict)
    queued_at = models.DateTimeField(null=True)

    queue = states.REQUEST.move("queue")
    admit = states.REQUEST.move("admit")
    deny = states.REQUEST.move("deny")
    withdraw = states.REQUEST.move("withdraw")
    expire = states.REQUEST.move("expire")

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["pool", "band", "queued_at", "id"],
                name="request_queue",
                condition=Q(state="queued"),
            ),
            models.Index(fields=["tenant", "-created_at"], name="request_tenant"),
            models.Index(
                fields=["subject_id"], name="change_subject", condition=Q(action__in=CHANGES)
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(amount_milli__gte=0), name="request_takes_quota"),
            models.CheckConstraint(
                condition=Q(action=Action.SIGNUP)
                | Q(tenant__isnull=False, action__in=CHANGES)
                | Q(tenant__isnull=False, project__isnull=False, tier__isnull=False),
                name="request_has_an_owner",
            ),
            models.UniqueConstraint(
                fields=["subject_id", "action"],
                name="one_open_change_of_a_kind",
                condition=Q(action__in=CHANGES, state__in=("received", "queued")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.state}"


class Decision(Base):
    """One verdict: the gates in order, the numbers compared, the digest of the facts seen."""

    tenant_grant: ClassVar[Grant] = "read"
    tenant_column: ClassVar[str] = "tenant_id"

    # The request has the same tenant, by a constraint.
    tenant = models.ForeignKey(
        Tenant, null=True, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    request = models.ForeignKey(
        AdmissionRequest, on_delete=models.PROTECT, related_name="decisions", db_index=False
    )
    verdict = models.CharField(max_length=8, choices=[(x, x) for x in ("admit", "wait", "deny")])
    code = models.CharField(max_length=64, blank=True)
    gates = models.JSONField(help_text="[{gate, passed, code, detail, facts}] in order.")
    winner = models.JSONField(null=True)
    runner_up = models.JSONField(null=True)
    why = models.TextField(blank=True)
    facts = models.JSONField(
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        help_text="What the gates looked at.",
    )
    envelope_version = models.PositiveIntegerField(default=0)
    policy_version = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Digest of the active rules' names and versions.",
    )
    digest = models.CharField(max_length=64)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["request", "-created_at"], name="decision_of"),
            # Brin: rows come in the order of time, and each claim writes one.
            BrinIndex(fields=["created_at"], name="decision_when", pages_per_range=32),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} {self.code}"


class DecisionTotal(Base):
    """How many decisions of one kind there were, up to the moment of ``DecisionsCounted``."""

    action = models.CharField(max_length=32)
    verdict = models.CharField(max_length=8)
    code = models.CharField(max_length=64, blank=True)
    count = models.PositiveBigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["action", "verdict", "code"], name="one_total_of_each"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.verdict} {self.code}: {self.count}"


class DecisionsCounted(Base):
    """Up to when decisions are in the totals: one row, locked by whoever counts."""

    one = models.BooleanField(default=True, unique=True)
    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "decisions counted"

    def __str__(self) -> str:
        return f"until {self.until:%Y-%m-%d %H:%M:%S}"
