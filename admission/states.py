"""Which moves exist for an admission request?"""

from __future__ import annotations

from django.db.models import TextChoices

from gpuaas.kernel.lifecycle import Edge, Lifecycle


class RequestState(TextChoices):
    """Where a tenant's action stands before anything is placed."""

    RECEIVED = "received"
    QUEUED = "queued"
    ADMITTED = "admitted"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class PolicyState(TextChoices):
    """Whether a policy rule decides."""

    DRAFT = "draft"
    DRY_RUN = "dry_run"
    ACTIVE = "active"
    RETIRED = "retired"


class WorkloadState(TextChoices):
    """What is intended with a workload; the phase that is shown is computed."""

    SUBMITTED = "submitted"
    ADMITTED = "admitted"
    STOPPING = "stopping"
    ENDED = "ended"


S, P, W = RequestState, PolicyState, WorkloadState

REQUEST = Lifecycle(
    "admission.admissionrequest",
    RequestState,
    initial=S.RECEIVED,
    edges=(
        Edge("queue", (S.RECEIVED,), S.QUEUED, "platform"),
        Edge("admit", (S.RECEIVED, S.QUEUED), S.ADMITTED, "platform"),
        Edge("deny", (S.RECEIVED, S.QUEUED), S.DENIED, "platform"),
        Edge("withdraw", (S.RECEIVED, S.QUEUED), S.WITHDRAWN, "tenant"),
        Edge("expire", (S.QUEUED,), S.EXPIRED, "platform"),
    ),
    final=(S.ADMITTED, S.DENIED, S.WITHDRAWN, S.EXPIRED),
)

POLICY = Lifecycle(
    "admission.policyrule",
    PolicyState,
    initial=P.DRAFT,
    edges=(
        Edge("try_out", (P.DRAFT,), P.DRY_RUN, "operator"),
        Edge("activate", (P.DRY_RUN,), P.ACTIVE, "operator"),
        Edge("retire", (P.DRAFT, P.DRY_RUN, P.ACTIVE), P.RETIRED, "operator"),
    ),
    final=(P.RETIRED,),
)

WORKLOAD = Lifecycle(
    "admission.workload",
    WorkloadState,
    initial=W.SUBMITTED,
    edges=(
        Edge("admit", (W.SUBMITTED,), W.ADMITTED, "platform"),
        Edge("stop", (W.SUBMITTED, W.ADMITTED), W.STOPPING, "tenant"),
        Edge("end", (W.SUBMITTED, W.ADMITTED, W.STOPPING), W.ENDED, "platform"),
    ),
    final=(W.ENDED,),
)
