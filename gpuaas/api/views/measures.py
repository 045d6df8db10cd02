"""How much is there, who may hold how much of it, and who has fallen silent?  For Prometheus.

Units are those of resource classes, seconds, and plain counts. Amounts in thousandths are told
whole. The label ``tenant`` is the tenant's slug: as many series as tenants and classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Q, Sum
from prometheus_client.core import (
    GaugeMetricFamily,
    Metric,
)

from gpuaas.kernel import clock, workflow
from placement.models import GpuDevice, Node
from placement.states import NodeState
from tenants.models import QuotaCounter, Sku
from tenants.states import SkuState, TenantState

MILLI = 1000


def measures(*, tenants: bool) -> Iterator[Metric]:
    """Every family of this module, in six grouped queries over what stands now.

    Without ``tenants`` those are left out whose labels name one.
    """
    yield _slots()
    yield _gpus()
    if tenants:
        yield from _envelopes()
    yield _stuck()
    yield _seen()


def _slots() -> Metric:
    """Free ones take work now, closed ones are free on hosts that take none; the rest is taken."""
    family = GaugeMetricFamily(
        "gpuaas_slots",
        "Slots of the hosts of each published SKU: free, closed with their host, or taken: "
        "held, blocked or cut",
        labels=["pool", "sku", "state"],
    )
    live = Node.objects.exclude(state=NodeState.RETIRED).filter(family__isnull=False)
    grouped = live.values_list("pool__name", "family__name").annotate(
        whole=Sum("slot_count"),
        idle=Sum("free_count"),
        open=Sum("free_count", filter=Q(schedulable=True), default=0),
    )
    counts = {(pool, kind): rest for pool, kind, *rest in grouped.order_by()}
    skus = Sku.objects.filter(state=SkuState.PUBLISHED).order_by("name")
    for name, pool, kind in skus.values_list("name", "pool", "family"):
        whole, idle, free = counts.get((pool, kind), (0, 0, 0))
        for state, count in (("taken", whole - idle), ("free", free), ("closed", idle - free)):
            family.add_metric([pool, name, state], count)
    return family


def _gpus() -> Metric:
    family = GaugeMetricFamily(
        "gpuaas_gpus",
        "GPUs by their model and the state of their host",
        labels=["pool", "model", "state"],
    )
    rows = GpuDevice.objects.values_list("node__pool__name", "model", "node__state")
    grouped = rows.annotate(n=Count("pk")).order_by("node__pool__name", "model", "node__state")
    for pool, model, state, count in grouped:
        family.add_metric([pool, model or "unknown", state], count)
    return family


def _envelopes() -> Iterator[Metric]:
    labels = ["tenant", "resource"]
    limit = GaugeMetricFamily(
        "gpuaas_tenant_envelope_limit", "Units a tenant may hold without borrowing", labels=labels
    )
    usage = GaugeMetricFamily(
        "gpuaas_tenant_envelope_usage", "Units that a tenant holds", labels=labels
    )
    burst = GaugeMetricFamily(
        "gpuaas_tenant_envelope_burst_used", "Units held beyond the limit", labels=labels
    )
    rows = QuotaCounter.objects.exclude(tenant__state=TenantState.DELETED)
    for tenant, resource, most, used in rows.order_by(
        "tenant__slug", "resource_class__name"
    ).values_list("tenant__slug", "resource_class__name", "limit_milli", "used_milli"):
        limit.add_metric([tenant, resource], most / MILLI)
        usage.add_metric([tenant, resource], used / MILLI)
        burst.add_metric([tenant, resource], max(0, used - most) / MILLI)
    yield from (limit, usage, burst)


def _stuck() -> Metric:
    stuck = GaugeMetricFamily(
        "gpuaas_workflow_stuck", "Runs that go on beyond their deadline", labels=["workflow"]
    )
    late = workflow.standing().filter(deadline_at__lt=clock.db_now())
    for kind, count in late.values_list("kind").annotate(n=Count("pk")).order_by("kind"):
        stuck.add_metric([kind], count)
    return stuck


def _seen() -> Metric:
    seen = GaugeMetricFamily(
        "gpuaas_agent_last_seen_timestamp_seconds", "When a host last spoke", labels=["node"]
    )
    live = Node.objects.exclude(state=NodeState.RETIRED).filter(last_seen_at__isnull=False)
    for name, at in live.order_by("name").values_list("name", "last_seen_at"):
        if at is not None:
            seen.add_metric([name], at.timestamp())
    return seen
