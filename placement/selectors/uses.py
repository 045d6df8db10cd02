"""What uses a pool, a kind of hosts or a SKU now, and what ever did?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from admission.models import AdmissionRequest, Workload
from admission.states import RequestState, WorkloadState
from placement.models import (
    Allocation,
    AutomaticAction,
    Defragmentation,
    Node,
    NodeFamily,
    PlacementTerms,
    Pool,
)
from placement.states import AllocationState, NodeState
from tenants.models import Entitlement, Sku
from tenants.states import SkuState

MOST = 10_000
"""How far the past is counted: an operator needs to know that there is one, and its order."""
_ONE = {"hosts": "host", "skus": "SKU", "requests": "request", "leases": "lease"}
_MANY = {"skus": "SKUs", "terms": "sets of placement terms", "actions": "automatic actions"}


@dataclass(frozen=True)
class Uses:
    """What uses it: ``standing`` what keeps it from ending, ``known`` what is its history.

    Each is counted when it is first asked for, up to MOST. ``ended``: it is retired already;
    ``sold``: it is on the shelf; ``goes_on``: what uses it goes on when it is retired.
    """

    standing: Mapping[str, QuerySet[Any]]
    known: Mapping[str, QuerySet[Any]]
    ended: bool
    sold: bool = False
    goes_on: bool = False

    @cached_property
    def now(self) -> dict[str, int]:
        """Counts of what keeps it."""
        return _counted(self.standing)

    @cached_property
    def ever(self) -> dict[str, int]:
        """Counts of its history."""
        return _counted(self.known)

    @property
    def may_retire(self) -> bool:
        """Whether it can be retired now."""
        return not self.ended and (self.goes_on or not self.now)

    @property
    def may_remove(self) -> bool:
        """Whether it can be taken away: nothing ever used it."""
        return not self.sold and not self.ever


def _counted(rows: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    counts = {what: found[:MOST].count() for what, found in rows.items()}
    return {what: count for what, count in counts.items() if count}


def in_words(counts: Mapping[str, int]) -> str:
    """Counts as a sentence has them: 3 hosts, 1 SKU."""
    return ", ".join(
        f"{count} {_ONE.get(what, what.removesuffix('s')) if count == 1 else _MANY.get(what, what)}"
        for what, count in counts.items()
    )


def pool_uses(pool: Pool) -> Uses:
    """Of a pool."""
    hosts = Node.objects.filter(pool=pool)
    skus = Sku.objects.filter(pool=pool.name)
    requests = AdmissionRequest.objects.filter(pool=pool.name)
    return Uses(
        standing=dict(
            hosts=hosts.exclude(state=NodeState.RETIRED),
            skus=skus.exclude(state=SkuState.RETIRED),
            requests=requests.filter(state=RequestState.QUEUED),
        ),
        known=dict(
            hosts=hosts,
            skus=skus,
            requests=requests,
            moves=Defragmentation.objects.filter(pool=pool),
            actions=AutomaticAction.objects.filter(pool=pool),
            terms=PlacementTerms.objects.filter(about=f"pool:{pool.name}"),
        ),
        ended=pool.retired_at is not None,
    )


def family_uses(family: NodeFamily) -> Uses:
    """Of a kind of hosts."""
    hosts = Node.objects.filter(family=family)
    skus = Sku.objects.filter(family=family.name)
    return Uses(
        standing=dict(
            hosts=hosts.exclude(state=NodeState.RETIRED),
            skus=skus.exclude(state=SkuState.RETIRED),
        ),
        known=dict(hosts=hosts, skus=skus),
        ended=family.retired_at is not None,
    )


def sku_uses(sku: Sku) -> Uses:
    """Of a SKU; what runs of it goes on when it is retired."""
    leases = Allocation.objects.filter(sku=sku)
    requests = AdmissionRequest.objects.filter(sku=sku)
    workloads = Workload.objects.filter(sku=sku)
    return Uses(
        standing=dict(
            leases=leases.exclude(state=AllocationState.RELEASED),
            requests=requests.filter(state=RequestState.QUEUED),
            workloads=workloads.exclude(state=WorkloadState.ENDED),
        ),
        known=dict(
            leases=leases,
            requests=requests,
            workloads=workloads,
            grants=Entitlement.objects.filter(sku=sku),
            terms=PlacementTerms.objects.filter(about=f"sku:{sku.name}"),
        ),
        ended=sku.state == SkuState.RETIRED,
        sold=sku.state == SkuState.PUBLISHED,
        goes_on=True,
    )
