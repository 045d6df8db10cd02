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


S = RequestState

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
