"""When any two acts on one pool happen at the same moment, is it as if one came first?

Every pair of claim, release, drain, approve, reboot, move and defragment, each act on a connection
of its own, started together by a barrier on real PostgreSQL. After each pair the hosts do what is
due and every audit is asked. GPUAAS_PAIR_ROUNDS says how often each pair is played.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations_with_replacement, count
from typing import Any

import pytest

from gpuaas.kernel import outbox, workflow
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.transitions import advance
from placement.models import Allocation, Node, Pool
from placement.services import nodes, slots
from placement.services.allocations import allocation_release
from placement.services.defrag import defrag_plan, defrag_run, policy_set
from placement.services.workloads import workload_placement
from tenants.models import SlaTier
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import (
    BOOT,
    OPERATOR,
    Host,
    a_catalogue,
    a_host,
    a_report,
    a_tenant,
    drive_all,
)
from tests.placement.test_races import together
from tests.tenants.worlds import findings

ROUNDS = int(os.environ.get("GPUAAS_PAIR_ROUNDS", "1"))
Act = Callable[[], Any]


class Fleet:
    """Two hosts in two zones; a service that may be moved; a lease of another tenant."""

    def __init__(self) -> None:
        a_catalogue()
        SlaTier.objects.update(protected_run_s=0)
        self.acme, self.globex = a_tenant("acme"), a_tenant("globex")
        self.hosts = [a_host("host-1"), a_host("host-2")]
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
        self.numbers = count(1)
        self.settle()

    def settle(self) -> None:
        """Hosts do what is due, and what follows from it."""
        for _ in range(3):
            for host in self.hosts:
                host.work()
            outbox.sweep()
            drive_all()

    def claim(self) -> Act:
        """Lease a slot."""
        return lambda: self.globex.order(slots=1)

    def release(self) -> Act:
        """Give back what was leased just now."""
        allocation = self.globex.order(slots=1).allocation_id
        assert allocation is not None
        return lambda: allocation_release(allocation_id=allocation, reason="", actor=OPERATOR)

    def drain(self) -> Act:
        """Give the first host no new work."""
        node = self.hosts[0].node.pk
        return lambda: nodes.node_drain(node_id=node, reason="work", actor=OPERATOR)

    def approve(self) -> Act:
        """Accept a host that has joined."""
        name = f"new-{next(self.numbers)}"
        node = nodes.node_create(name=name, actor=OPERATOR, intended="any")
        Node.objects.filter(pk=node.pk).update(boot_id=BOOT)
        for edge in ("inspect", "verify"):
            node = advance(node, edge, actor=OPERATOR)
        slots.slots_take(node, a_report(name, 8), actor=OPERATOR)
        Host(node).report()
        return lambda: nodes.node_approve(
            node_id=node.pk, actor=OPERATOR, reason="seen", family="h100x8"
        )

    def reboot(self) -> Act:
        """The second host comes back in another boot, and says that it is well."""
        host = self.hosts[1]
        boot = f"boot-{next(self.numbers):08d}"

        def act() -> None:
            host.boot, host.seq = boot, 0
            for task in host.lease():
                host.complete(task)
            host.report()

        return act

    def move(self) -> Act:
        """The service goes to the other zone."""
        here = Allocation.objects.filter(workload=self.web, state="active").first()
        zone = "a" if here is not None and here.node.zone == "b" else "b"
        return lambda: workload_placement(
            workload_id=self.web.pk, zones=(zone,), actor=self.acme.actor
        )

    def defragment(self) -> Act:
        """Room for a whole host's worth is made, by the plan of just now: the service moves."""
        here = Allocation.objects.filter(workload=self.web, state="active").get()
        if not self.globex_holds():
            self.globex.order(slots=1, zones=("b" if here.node.zone == "a" else "a",))
        plan = defrag_plan(sku="h100.slice")

        def act() -> None:
            run = defrag_run(sku=plan.sku, seen=plan.digest, reason="room", actor=OPERATOR)
            workflow.drive(run.pk)

        return act

    def globex_holds(self) -> bool:
        """Whether the other tenant has something already."""
        held = Allocation.objects.filter(tenant=self.globex.tenant)
        return held.exclude(state="released").exists()

    def again(self) -> None:
        """As it was before the pair: one service, nothing else held, nothing drained."""
        nodes.node_undrain(node_id=self.hosts[0].node.pk, reason="done", actor=OPERATOR)
        for row in Allocation.objects.exclude(state="released").filter(workload=None):
            allocation_release(allocation_id=row.pk, reason="", actor=OPERATOR)
        extra = [Host(node) for node in Node.objects.filter(name__startswith="new-")]
        self.hosts += [host for host in extra if host.fresh().state == "ready"]
        self.settle()
        self.hosts = self.hosts[:2]
        for host in extra:
            Node.objects.filter(pk=host.node.pk).update(schedulable=False)
        for host in self.hosts:
            host.report()
        # Where it stands decides where it may be moved to next.
        self.web.refresh_from_db()
        self.web.spec = {**self.web.spec, "zones": []}
        self.web.save(update_fields=["spec"])


ACTS = ("claim", "release", "drain", "approve", "reboot", "move", "defragment")


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300 + 600 * ROUNDS)
def test_every_pair_of_acts_leaves_nothing_that_an_audit_finds() -> None:
    fleet = Fleet()
    done: dict[str, int] = dict.fromkeys(ACTS, 0)
    for _ in range(ROUNDS):
        for pair in combinations_with_replacement(ACTS, 2):
            acts = [getattr(fleet, name)() for name in pair]
            results = together(*acts)
            for name, result in zip(pair, results, strict=True):
                done[name] += not isinstance(result, ProductError)
            assert findings() == [], pair
            fleet.settle()
            assert findings() == [], pair
            fleet.again()
            assert findings() == [], pair
    assert all(count > 0 for count in done.values()), done
