"""Which two acts are made to meet, on which small fleet, and what is told of the outcome?"""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any, Final

from django.db import connection
from django.db.models import Count

from gpuaas.kernel import audits, clock, outbox, workflow
from gpuaas.kernel.audits import Finding
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from placement.models import Allocation, Claim, Node, NodeTask, Pool
from placement.services import approvals, nodes, slots
from placement.services.allocations import allocation_release
from placement.services.defrag import defrag_plan, defrag_run, policy_set
from placement.services.projections import projections_refresh
from placement.services.workloads import workload_placement
from placement.states import TaskState
from tenants.models import QuotaCounter, SlaTier
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import (
    BOOT,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_report,
    a_tenant,
    drive_all,
)
from tests.stepping import Act

ACTS: Final = ("claim", "release", "drain", "approve", "reboot", "move", "defragment")
SLOTS: Final = 4
FAMILY: Final = "h100x4"
_DUE: Final = """
SELECT (SELECT array_agg(DISTINCT node_id) FROM placement_nodetask WHERE state = 'pending'),
       (SELECT count(*) FROM kernel_workflowrun WHERE ended_at IS NULL),
       (SELECT count(*) FROM kernel_delivery WHERE state = 'pending')
"""


class Fleet:
    """Two hosts in two zones; a service that may be moved on the first; room for one large claim.

    What an act needs is there before it begins. Whatever has joined meanwhile belongs to it.
    """

    def __init__(self) -> None:
        a_catalogue(FAMILY, SLOTS)
        SlaTier.objects.update(protected_run_s=0)
        self.acme, self.globex = a_tenant("acme"), a_tenant("globex")
        self.hosts = [a_host(f"host-{k}", slots_count=SLOTS, family=FAMILY) for k in (1, 2)]
        for zone, host in zip("ab", self.hosts, strict=True):
            Node.objects.filter(pk=host.node.pk).update(zone=zone)
        self.web = the_workload(run_it(self.acme, slots=2, movable=True))
        policy_set(
            pool=Pool.objects.get().name,
            enabled=True,
            moves=4,
            lost_milli=0,
            from_hour=0,
            until_hour=0,
            reason="test",
            actor=OPERATOR,
        )
        self.settle()
        self._keep()
        self._first = list(self._kept)

    def _keep(self) -> None:
        self._kept = [(host, host.boot, host.seq) for host in self.hosts]

    def clear(self) -> None:
        """The hosts as they were before any act was prepared."""
        self._kept = list(self._first)
        self.again()

    def again(self) -> None:
        """The hosts know as little as when the rows were kept."""
        self.hosts = [host for host, _, _ in self._kept]
        for host, boot, seq in self._kept:
            host.boot, host.seq = boot, seq

    def prepare(self, pair: tuple[str, str]) -> tuple[Act, Act]:
        """Both acts, with all that they need."""
        self.claims = self.reboots = 0
        self.numbers = count(2)
        first = getattr(self, pair[0])()
        # Two tenants' claims and two hosts' reboots; else the same act twice.
        same = pair[0] == pair[1] and pair[0] not in ("claim", "reboot")
        second = first if same else getattr(self, pair[1])()
        # The two are played for minutes as of this moment.
        later = clock.db_now() + timedelta(hours=1)
        NodeTask.objects.filter(state=TaskState.LEASED).update(lease_until=later)
        self._keep()
        return first, second

    def settle(self) -> None:
        """Hosts do what is due and what follows is done, until nothing is left to do."""
        for _ in range(12):
            with connection.cursor() as cursor:
                cursor.execute(_DUE)
                (waiting, runs, news) = cursor.fetchone()
            if not (waiting or runs or news):
                break
            for host in self.hosts:
                if host.node.pk in (waiting or ()):
                    for task in host.lease():
                        host.complete(task)
            if runs:
                drive_all()
            if news:
                outbox.sweep()
        projections_refresh()

    def claim(self) -> Act:
        """Lease most of a host: there is room for one such claim, on the second."""
        tenant: TenantWorld = (self.globex, self.acme)[self.claims]
        self.claims += 1
        return lambda: tenant.order(slots=3)

    def release(self) -> Act:
        """Give back what runs on the second host."""
        allocation = self.globex.order(slots=1, zones=("b",)).allocation_id
        assert allocation is not None
        self.settle()
        return lambda: allocation_release(allocation_id=allocation, reason="", actor=OPERATOR)

    def drain(self) -> Act:
        """Give the second host no new work."""
        node = self.hosts[1].node.pk
        return lambda: nodes.node_drain(node_id=node, reason="work", actor=OPERATOR)

    def approve(self) -> Act:
        """Accept a host that has joined."""
        name = f"new-{next(self.numbers)}"
        node = nodes.node_create(name=name, actor=OPERATOR, intended="any")
        Node.objects.filter(pk=node.pk).update(boot_id=BOOT)
        for edge in ("inspect", "verify"):
            node = advance(node, edge, actor=OPERATOR)
        slots.slots_take(node, a_report(name, SLOTS), actor=OPERATOR)
        host = Host(node)
        host.report()
        self.hosts.append(host)
        return lambda: approvals.node_approve(
            node_id=node.pk, actor=OPERATOR, reason="seen", family=FAMILY
        )

    def reboot(self) -> Act:
        """A host where work is due comes back in another boot and says that it is well."""
        host = self.hosts[1 - self.reboots]
        self.globex.order(slots=1, zones=("ba"[self.reboots],))
        self.reboots += 1
        boot = f"boot-{next(self.numbers):08d}"
        host.lease()

        def act() -> None:
            host.boot, host.seq = boot, 0
            for task in host.lease():
                host.complete(task)
            host.report()

        return act

    def move(self) -> Act:
        """The service goes to the other zone."""
        return lambda: workload_placement(
            workload_id=self.web.pk, zones=("b",), actor=self.acme.actor
        )

    def defragment(self) -> Act:
        """Room for a whole host's worth is made, by the plan of just now: the service moves."""
        self.globex.order(slots=1, zones=("b",))
        self.settle()
        plan = defrag_plan(sku="h100.slice")

        def act() -> None:
            run = defrag_run(sku=plan.sku, seen=plan.digest, reason="room", actor=OPERATOR)
            workflow.drive(run.pk)

        return act


def outcome() -> tuple[Any, ...]:
    """What is so, told without ids and without names of hosts that are as good as each other."""
    allocations = Allocation.objects.values_list(
        "tenant__slug", "slots", "state", "outcome", "outcome_code", "workload__name"
    )
    claims = Claim.objects.values("state", "tenant__slug").annotate(n=Count("pk"))
    nodes_now = Node.objects.values_list("name", "state", "schedulable", "free_count", "boot_id")
    work = NodeTask.objects.filter(state__in=[TaskState.PENDING, TaskState.LEASED])
    runs = WorkflowRun.objects.filter(ended_at__isnull=True)
    return (
        tuple(sorted(map(str, allocations))),
        tuple(sorted(map(str, claims.values_list("state", "tenant__slug", "n")))),
        tuple(sorted(map(str, nodes_now))),
        tuple(sorted(map(str, QuotaCounter.objects.values_list("tenant__slug", "used_milli")))),
        tuple(sorted(map(str, work.values_list("kind", "state")))),
        tuple(sorted(map(str, runs.values_list("kind", "step")))),
    )


AT_ONCE: Final = (
    "placement.claims",
    "placement.devices",
    "placement.capacity",
    "placement.parts",
    "placement.quota",
    "placement.wiring",
    "tenants.cohorts",
    "tenants.projects",
)
"""Audits of what holds at every commit; the others ask whether what follows was done."""


def found(*names: str) -> list[Finding]:
    """What these audits find; all of them unless told otherwise."""
    known = audits.registered()
    return [finding for name in names or known for finding in known[name]()]
