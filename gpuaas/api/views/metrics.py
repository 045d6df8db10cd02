"""How is the platform doing, in numbers that a Prometheus-compatible server reads?"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.http.response import HttpResponseBase
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry
from rest_framework.request import Request

from admission.domain.outcome import outcome_of
from admission.models import AdmissionRequest
from admission.totals import decision_totals
from gpuaas.api import answered
from gpuaas.api.base import OperatorView
from gpuaas.api.permissions import Rule, admit
from gpuaas.api.views.counted import counted
from gpuaas.api.views.measures import measures
from gpuaas.kernel import clock, workflow
from gpuaas.kernel.errors import PermissionDenied
from gpuaas.kernel.models import Delivery, SweepFault
from gpuaas.kernel.notify import hub
from placement import selectors
from placement.domain.part_stranding import PART_CAUSES
from placement.domain.stranding import CAUSES
from placement.models import (
    Allocation,
    MaintenanceWindow,
    Node,
    NodeCapability,
    NodeTask,
    Pool,
)
from placement.services.fragmentation import fragmentation_list, part_fragmentation_list
from placement.states import AllocationState, WindowState


class Collector:
    """A fixed number of grouped queries, whatever the fleet's size, over what stands now and not
    over what was. Labels are words of the platform and names that operators give: no ids.

    What names a tenant is told to operators only (``tenants``), and not to whoever asks from the
    machine itself.
    """

    def __init__(self, *, tenants: bool = False) -> None:
        self._tenants = tenants

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        yield self._build()
        yield self._nodes()
        yield self._capabilities()
        yield self._devices()
        yield self._strangers()
        yield self._allocations()
        yield self._decisions()
        yield from self._queue()
        yield from self._fragmentation()
        yield self._tasks()
        yield self._runs()
        yield from self._outbox()
        yield from self._drift()
        yield self._reasons()
        yield self._windows()
        yield self._sweeps()
        yield self._problems()
        yield from measures(tenants=self._tenants)
        yield from counted()
        parked = GaugeMetricFamily("gpuaas_parked_requests", "Requests parked in this process")
        parked.add_metric([], hub.parked)
        yield parked

    def _build(self) -> Metric:
        version = str(settings.SPECTACULAR_SETTINGS["VERSION"])
        family = GaugeMetricFamily(
            "gpuaas_build_info", "The version and its commit", labels=["version", "commit"]
        )
        family.add_metric([version, settings.CONFIG.commit], 1)
        return family

    def _nodes(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_nodes", "Nodes by pool and posture", labels=["pool", "posture"]
        )
        for (pool, posture), count in sorted(postures().items()):
            family.add_metric([pool, posture], count)
        return family

    def _capabilities(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_node_capabilities",
            "Nodes by capability and where its promotion stands",
            labels=["capability", "state"],
        )
        rows = NodeCapability.objects.exclude(node__state="retired")
        grouped = rows.values_list("capability", "state").annotate(n=Count("pk"))
        for capability, state, count in grouped.order_by("capability", "state"):
            family.add_metric([capability, state], count)
        return family

    def _devices(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_devices", "GPUs by how they are judged", labels=["classification"]
        )
        for word, count in sorted(selectors.device_classes().items()):
            family.add_metric([word], count)
        return family

    def _strangers(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_unknown_machines",
            "Machines that nobody asked for, by node and by what they block: slots or the node",
            labels=["node", "blocks"],
        )
        for (node, blocks), count in sorted(selectors.unknown_machines().items()):
            family.add_metric([node, blocks], count)
        return family

    def _allocations(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_allocations",
            "Allocations that are not released, by shape and state",
            labels=["shape", "state"],
        )
        standing = Allocation.objects.exclude(state=AllocationState.RELEASED)
        rows = standing.values_list("shape", "state").annotate(n=Count("pk"))
        for shape, state, count in rows.order_by("shape", "state"):
            family.add_metric([shape, state], count)
        return family

    def _decisions(self) -> Metric:
        family = CounterMetricFamily(
            "gpuaas_admission_decisions",
            "Admission decisions by action, class of outcome and reason code",
            labels=["workflow", "outcome", "code"],
        )
        counts: Counter[tuple[str, str, str]] = Counter()
        for (action, verdict, code), count in decision_totals().items():
            counts[action, outcome_of(verdict, code), code] += count
        for labels, count in sorted(counts.items()):
            family.add_metric(list(labels), count)
        return family

    def _queue(self) -> Iterator[Metric]:
        labels = ["pool", "tier"]
        depth = GaugeMetricFamily("gpuaas_queue_depth", "Waiting requests", labels=labels)
        oldest = GaugeMetricFamily(
            "gpuaas_queue_oldest_age_seconds", "Age of the oldest waiting request", labels=labels
        )
        now = clock.db_now()
        waiting = AdmissionRequest.objects.filter(state="queued").exclude(pool="")
        rows = waiting.values_list("pool", "tier__name")
        for pool, tier, count, first in rows.annotate(n=Count("pk"), first=Min("queued_at")):
            where = [pool, tier or "none"]
            depth.add_metric(where, count)
            oldest.add_metric(where, (now - first).total_seconds() if first else 0)
        yield depth
        yield oldest
        broken = CounterMetricFamily(
            "gpuaas_pool_cycles_broken", "Scheduling cycles that broke", labels=["pool"]
        )
        for pool, count in Pool.objects.order_by("name").values_list("name", "cycles_broken"):
            broken.add_metric([pool], count)
        yield broken

    def _fragmentation(self) -> Iterator[Metric]:
        labels = ["sku", "pool"]
        free = GaugeMetricFamily("gpuaas_slots_open", "Idle slots of use to a SKU", labels=labels)
        idle = GaugeMetricFamily("gpuaas_slots_idle", "Slots that nobody holds", labels=labels)
        largest = GaugeMetricFamily(
            "gpuaas_largest_fit_slots", "The largest request that fits on one node", labels=labels
        )
        stranded = GaugeMetricFamily(
            "gpuaas_slots_stranded", "Idle slots of no use, by cause", labels=[*labels, "cause"]
        )
        for account in fragmentation_list():
            found, where = account.found, [account.found.sku, account.pool]
            free.add_metric(where, found.open)
            idle.add_metric(where, found.idle)
            largest.add_metric(where, found.largest)
            for cause in CAUSES:
                stranded.add_metric([*where, cause], found.causes.get(cause, 0))
        yield from (free, idle, largest, stranded)
        yield from self._parts()

    def _parts(self) -> Iterator[Metric]:
        labels = ["sku", "pool"]
        free = GaugeMetricFamily("gpuaas_parts_open", "Parts that fit now", labels=labels)
        idle = GaugeMetricFamily(
            "gpuaas_parts_idle_milli", "Thousandths of cut GPUs that nobody holds", labels=labels
        )
        stranded = GaugeMetricFamily(
            "gpuaas_parts_stranded_milli",
            "Idle thousandths of cut GPUs of no use, by cause",
            labels=[*labels, "cause"],
        )
        for account in part_fragmentation_list():
            found, where = account.found, [account.found.sku, account.pool]
            free.add_metric(where, found.now)
            idle.add_metric(where, found.idle)
            for cause in PART_CAUSES:
                stranded.add_metric([*where, cause], found.causes.get(cause, 0))
        yield from (free, idle, stranded)

    def _tasks(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_agent_tasks", "Open node tasks by kind and state", labels=["kind", "state"]
        )
        rows = NodeTask.objects.filter(state__in=["pending", "leased"])
        grouped = rows.values_list("kind", "state").annotate(n=Count("pk"))
        for kind, state, count in grouped.order_by("kind", "state"):
            family.add_metric([kind, state], count)
        return family

    def _runs(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_workflow_runs_standing",
            "Runs that have not ended",
            labels=["workflow", "state"],
        )
        rows = workflow.standing().values_list("kind", "state")
        for kind, state, count in rows.annotate(n=Count("pk")).order_by("kind", "state"):
            family.add_metric([kind, state], count)
        return family

    def _outbox(self) -> Iterator[Metric]:
        waiting = Delivery.objects.filter(state="pending").aggregate(
            n=Count("pk"), first=Min("due_at")
        )
        pending = GaugeMetricFamily("gpuaas_outbox_pending", "Deliveries not made yet")
        pending.add_metric([], waiting["n"])
        yield pending
        age = GaugeMetricFamily("gpuaas_outbox_oldest_age_seconds", "Age of the oldest delivery")
        first = waiting["first"]
        age.add_metric([], max(0.0, (clock.db_now() - first).total_seconds()) if first else 0)
        yield age

    def _windows(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_maintenance_windows", "Windows of maintenance by state", labels=["state"]
        )
        counts = dict(
            MaintenanceWindow.objects.values_list("state").annotate(n=Count("pk")).order_by("state")
        )
        for state in WindowState.values:
            family.add_metric([state], counts.get(state, 0))
        return family

    def _sweeps(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_sweep_faults",
            "Objects that a sweep could not do and leaves alone for a while",
            labels=["sweep"],
        )
        rows = SweepFault.objects.values_list("sweep").annotate(n=Count("pk"))
        for sweep, count in rows.order_by("sweep"):
            family.add_metric([sweep], count)
        return family

    def _problems(self) -> Metric:
        family = CounterMetricFamily(
            "gpuaas_api_problems",
            "Requests that the API answered with a problem, by reason code",
            labels=["code", "status"],
        )
        for (code, status), count in sorted(answered.problems.read().items()):
            family.add_metric([code, str(status)], count)
        return family

    def _reasons(self) -> Metric:
        family = GaugeMetricFamily(
            "gpuaas_reasons_standing",
            "What differs, waits, is held or is blocked now, by reason code",
            labels=["code"],
        )
        for code, count in sorted(selectors.reasons_standing().items()):
            family.add_metric([code], count)
        return family

    def _drift(self) -> Iterator[Metric]:
        count = GaugeMetricFamily(
            "gpuaas_reconcile_drift", "Differences that stand, by kind", labels=["kind"]
        )
        oldest = GaugeMetricFamily(
            "gpuaas_reconcile_drift_oldest_age_seconds", "Age of the oldest", labels=["kind"]
        )
        now = clock.db_now()
        for one in selectors.drift_standing():
            count.add_metric([one.kind], one.count)
            oldest.add_metric([one.kind], max(0.0, (now - one.oldest).total_seconds()))
        yield count
        yield oldest
        held = GaugeMetricFamily(
            "gpuaas_breaker_held", "Automatic actions that the breaker holds", labels=["pool"]
        )
        for pool, waiting in sorted(selectors.held_by_pool().items()):
            held.add_metric([pool], waiting)
        yield held


def postures() -> Counter[tuple[str, str]]:
    """Nodes counted by pool and posture."""
    pools = dict(Node.objects.values_list("id", "pool__name"))
    found = selectors.postures_of(pools)
    return Counter((pools[node], posture) for node, posture in found.items())


class Metrics(OperatorView):
    """For operators, and less what names tenants for whoever asks from the machine itself."""

    schema = None

    def get(self, request: Request) -> HttpResponseBase:
        """The text exposition."""
        if request.auth is not None:
            admit(Rule("operator", operator_action="operator:read"), self.actor)
        elif not is_local(request._request):
            raise PermissionDenied("Metrics are for operators.")
        registry = CollectorRegistry()
        registry.register(Collector(tenants=request.auth is not None))
        # OpenMetrics for who asks for it, as Prometheus does; the plain text otherwise.
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(registry), content_type=kind)


def is_local(request: HttpRequest) -> bool:
    """Whether the caller is this machine, and no proxy and no page speaks for another.

    A page of a stranger's that has its own name lead here asks by that name, from a browser on
    this machine; who watches the platform asks by an address or by one of the platform's names.
    """
    if "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META:
        return False
    caller = _address(request.META.get("REMOTE_ADDR", ""))
    return caller is not None and caller.is_loopback and _rightly_named(request)


def _rightly_named(request: HttpRequest) -> bool:
    """Whether the Host header is an address, or one of the hosts that are answered to."""
    host, _port = split_domain_port(request.META.get("HTTP_HOST", ""))
    if _address(host.strip("[]")) is not None:
        return True
    try:
        return bool(request.get_host())
    except DisallowedHost:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
