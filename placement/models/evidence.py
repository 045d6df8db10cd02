"""What is known of a host's fitness, what is required of it, and what it is promoted for?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from gpuaas.kernel.models import Base, Stateful
from placement import states
from placement.domain.readiness import CAPABILITIES, CHECKS, MISSING, SOURCES, STANDINGS, VERDICTS
from placement.models.node import Node, NodeFamily


def _one_of(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(word, word) for word in words]


class ReadinessEvidence(Base):
    """The last word about one check of a host, or of one of its devices.

    ``device`` is empty for the host. Without ``expires_at`` it is good until it is contradicted,
    or for as long as the family's terms say.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="evidence", db_index=False
    )
    check_name = models.CharField(max_length=16, choices=_one_of(CHECKS))
    device = models.CharField(max_length=120, blank=True)
    verdict = models.CharField(max_length=8, choices=_one_of(VERDICTS))
    source = models.CharField(max_length=16, choices=_one_of(SOURCES))
    reason = models.CharField(max_length=400, blank=True)
    facts = models.JSONField(default=dict)
    version = ArrayField(models.IntegerField(), default=list, db_default=[])
    observed_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    boot_id = models.CharField(max_length=64, blank=True)
    given_by = models.JSONField(null=True)

    class Meta:
        verbose_name_plural = "readiness evidence"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "check_name", "device"], name="one_word_about_a_check"
            )
        ]

    def __str__(self) -> str:
        return f"{self.check_name} of {self.node_id}: {self.verdict}"


class ReadinessTerms(Base):
    """What the hosts of a family need before they may be sold, or all that have no own terms.

    ``required`` maps a capability to its checks, each with seconds for which it is good (null:
    until contradicted). What it said before is in its events.
    """

    family = models.OneToOneField(
        NodeFamily, null=True, on_delete=models.CASCADE, related_name="readiness"
    )
    required = models.JSONField(default=dict)
    driver_min = ArrayField(models.IntegerField(), default=list, blank=True)
    firmware_min = models.CharField(max_length=40, blank=True, help_text="The least VBIOS.")
    auto_promote = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    removed = models.BooleanField(
        default=False,
        db_default=False,
        help_text="They hold no more; the row keeps the versions together.",
    )

    class Meta:
        verbose_name_plural = "readiness terms"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["family"], name="one_set_of_terms_a_family", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"readiness terms {self.version} of {self.family_id or 'every family'}"


class NodeCapability(Stateful):
    """Whether one host may be sold in one shape: the decision, and where its evidence stands.

    ``holds_until``: when time alone ends the evidence; ``renew_at``: when to look at it anew.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="capabilities", db_index=False
    )
    capability = models.CharField(max_length=12, choices=_one_of(CAPABILITIES))
    state = states.CAPABILITY.field()
    standing = models.CharField(max_length=8, choices=_one_of(STANDINGS), default=MISSING)
    misses = models.JSONField(default=list)
    holds_until = models.DateTimeField(null=True)
    renew_at = models.DateTimeField(null=True)
    rejudge = models.BooleanField(
        default=False, db_default=False, help_text="New terms: it has to be judged anew."
    )
    decided_by = models.JSONField(null=True)
    decided_at = models.DateTimeField(null=True)
    decision = models.CharField(max_length=500, blank=True)

    promote = states.CAPABILITY.move("promote")
    suspend = states.CAPABILITY.move("suspend")
    resume = states.CAPABILITY.move("resume")
    demote = states.CAPABILITY.move("demote")

    class Meta:
        verbose_name_plural = "node capabilities"
        indexes: ClassVar = [
            models.Index(
                fields=["holds_until"], name="capability_due", condition=Q(state="promoted")
            ),
            models.Index(fields=["renew_at"], name="capability_renewal"),
            models.Index(fields=["node"], name="capability_rejudge", condition=Q(rejudge=True)),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "capability"], name="capability_once")
        ]

    def __str__(self) -> str:
        return f"{self.capability} of {self.node_id} {self.state}"
