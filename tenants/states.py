"""Which moves exist for a tenant and for what is sold?"""

from __future__ import annotations

from django.db.models import TextChoices

from gpuaas.kernel.lifecycle import Edge, Lifecycle


class TenantState(TextChoices):
    """Where a tenant stands."""

    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETING = "deleting"
    DELETED = "deleted"
    REJECTED = "rejected"


class SkuState(TextChoices):
    """Whether a SKU is sold."""

    DRAFT = "draft"
    PUBLISHED = "published"
    RETIRED = "retired"


class BurstState(TextChoices):
    """Whether a burst's window is open."""

    SCHEDULED = "scheduled"
    OPEN = "open"
    ENDED = "ended"


class IncreaseState(TextChoices):
    """What became of a wish for more."""

    ASKED = "asked"
    APPROVED = "approved"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


T, S = TenantState, SkuState
B, Q = BurstState, IncreaseState

TENANT = Lifecycle(
    "tenants.tenant",
    TenantState,
    initial=T.PENDING,
    edges=(
        Edge("approve", (T.PENDING,), T.ACTIVE, "operator"),
        Edge("reject", (T.PENDING,), T.REJECTED, "operator"),
        Edge("suspend", (T.ACTIVE,), T.SUSPENDED, "operator"),
        Edge("resume", (T.SUSPENDED,), T.ACTIVE, "operator"),
        Edge("begin_delete", (T.ACTIVE, T.SUSPENDED), T.DELETING, "tenant"),
        Edge("finish_delete", (T.DELETING,), T.DELETED, "platform"),
    ),
    final=(T.DELETED, T.REJECTED),
)

SKU = Lifecycle(
    "tenants.sku",
    SkuState,
    initial=S.DRAFT,
    edges=(
        Edge("publish", (S.DRAFT,), S.PUBLISHED, "operator"),
        Edge("retire", (S.DRAFT, S.PUBLISHED), S.RETIRED, "operator"),
    ),
    final=(S.RETIRED,),
)

BURST = Lifecycle(
    "tenants.burstrule",
    BurstState,
    initial=B.SCHEDULED,
    edges=(
        Edge("open", (B.SCHEDULED,), B.OPEN, "platform"),
        Edge("close", (B.OPEN,), B.SCHEDULED, "platform"),
        Edge("end", (B.SCHEDULED, B.OPEN), B.ENDED, "operator"),
    ),
    final=(B.ENDED,),
)

INCREASE = Lifecycle(
    "tenants.quotaincrease",
    IncreaseState,
    initial=Q.ASKED,
    edges=(
        Edge("approve", (Q.ASKED,), Q.APPROVED, "operator"),
        Edge("refuse", (Q.ASKED,), Q.REFUSED, "operator"),
        Edge("withdraw", (Q.ASKED,), Q.WITHDRAWN, "tenant"),
    ),
    final=(Q.APPROVED, Q.REFUSED, Q.WITHDRAWN),
)
