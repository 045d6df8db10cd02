"""What uses a pool, a kind of hosts or a SKU now, and what ever did?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Model, QuerySet

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


@dataclass(frozen=True, slots=True)
class Uses:
    """Counts by what uses it: ``now`` what keeps it from ending, ``ever`` what is its history, up
    to MOST of each; empty where only what is now was asked for."""

    now: Mapping[str, int]
    ever: Mapping[str, int]


def _counted(**rows: QuerySet[Model]) -> dict[str, int]:
    counts = {what: found[:MOST].count() for what, found in rows.items()}
    return {what: count for what, count in counts.items() if count}


def in_words(counts: Mapping[str, int]) -> str:
    """Counts as a sentence has them: 3 hosts, 1 SKU."""
    return ", ".join(
        f"{count} {_ONE.get(what, what.removesuffix('s')) if count == 1 else _MANY.get(what, what)}"
        for what, count in counts.items()
    )


def pool_uses(pool: Pool, *, past: bool = True) -> Uses:
    """Of a pool."""
    hosts = Node.objects.filter(pool=pool)
    skus = Sku.objects.filter(pool=pool.name)
    requests = AdmissionRequest.objects.filter(pool=pool.name)
    return Uses(
        now=_counted(
            hosts=hosts.exclude(state=NodeState.RETIRED),
            skus=skus.exclude(state=SkuState.RETIRED),
            requests=requests.filter(state=RequestState.QUEUED),
        ),
        ever={}
        if not past
        else _counted(
            hosts=hosts,
            skus=skus,
            requests=requests,
            moves=Defragmentation.objects.filter(pool=pool),
            actions=AutomaticAction.objects.filter(pool=pool),
            terms=PlacementTerms.objects.filter(about=f"pool:{pool.name}"),
        ),
    )


def family_uses(family: NodeFamily, *, past: bool = True) -> Uses:
    """Of a kind of hosts."""
    hosts = Node.objects.filter(family=family)
    skus = Sku.objects.filter(family=family.name)
    return Uses(
        now=_counted(
            hosts=hosts.exclude(state=NodeState.RETIRED),
            skus=skus.exclude(state=SkuState.RETIRED),
        ),
        ever=_counted(hosts=hosts, skus=skus) if past else {},
    )


def sku_uses(sku: Sku, *, past: bool = True) -> Uses:
    """Of a SKU; what runs of it goes on when it is retired."""
    leases = Allocation.objects.filter(sku=sku)
    requests = AdmissionRequest.objects.filter(sku=sku)
    workloads = Workload.objects.filter(sku=sku)
    return Uses(
        now=_counted(
            leases=leases.exclude(state=AllocationState.RELEASED),
            requests=requests.filter(state=RequestState.QUEUED),
            workloads=workloads.exclude(state=WorkloadState.ENDED),
        ),
        ever={}
        if not past
        else _counted(
            leases=leases,
            requests=requests,
            workloads=workloads,
            grants=Entitlement.objects.filter(sku=sku),
            terms=PlacementTerms.objects.filter(about=f"sku:{sku.name}"),
        ),
    )
