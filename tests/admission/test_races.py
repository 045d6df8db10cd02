"""Do changes of authority and of workloads beside each other keep the invariants?

Two or three connections of a real Postgres, let go together by a barrier. Each round one of them
starts a little later than the other, by turns, so that they meet at other points of their way.
After every round all audits of claims, quota, capacity and requests are asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import pytest
from django.db import connections

from admission.models import AdmissionRequest, Workload
from admission.services.changes import requests_about
from admission.services.tenancies import tenant_approve, tenant_delete, tenant_signup
from admission.services.wishes import increase_approve, increase_ask, increase_withdraw
from gpuaas.kernel import outbox
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation, Node
from placement.services.allocations import allocation_release, request_withdraw
from placement.services.endings import deletions_sweep
from placement.services.queue import cycle_run, cycle_sweep
from placement.services.workloads import (
    workload_placement,
    workload_priority,
    workload_scale,
    workload_stop,
)
from tenants.models import Envelope, QuotaCounter, QuotaIncrease, Role, Tenant
from tenants.services.envelopes import envelope_set
from tenants.services.tenancy import tenant_suspend
from tests.admission.test_changes import signed_up
from tests.admission.test_workloads import run_it, the_workload, used
from tests.builders import CLASS, OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant
from tests.tenants.worlds import CHECKED, findings

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

ROUNDS = 24
BUDGET_S = 12.0
"""A race that is slow here ends with fewer rounds after this long, but not before the eighth."""
STEP_S = 0.0008
AUDITS = (*CHECKED, "placement.capacity", "admission.changes")
BUSY = {"", "concurrent_update"}


@dataclass
class Arena:
    """Threads with connections of their own, and how often they were let go."""

    pool: ThreadPoolExecutor
    rounds: Iterator[int] = field(default_factory=count)

    def race(self, *runners: Callable[[], object]) -> list[str]:
        """Run all at once: each one's refusal code, or an empty string."""
        turn = next(self.rounds)
        barrier = threading.Barrier(len(runners))

        def go(k: int, runner: Callable[[], object]) -> str:
            barrier.wait(10)
            late = turn // len(runners) % 12 * STEP_S if turn % len(runners) == k else 0.0
            until = time.perf_counter() + late
            while time.perf_counter() < until:
                pass
            try:
                runner()
            except ProductError as refused:
                return refused.code
            return ""

        return list(self.pool.map(go, range(len(runners)), runners))


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Three threads, whose connections are closed afterwards."""
    with ThreadPoolExecutor(3) as pool:
        yield Arena(pool)
        barrier = threading.Barrier(3)

        def close() -> None:
            barrier.wait(10)
            connections.close_all()

        for done in [pool.submit(close) for _ in range(3)]:
            done.result()


def rounds() -> Iterator[int]:
    """Numbers of rounds, within the budget."""
    until = time.monotonic() + BUDGET_S
    for n in range(ROUNDS):
        if n >= 8 and time.monotonic() > until:
            return
        yield n


def clean(*hosts: Host) -> None:
    """All audits are; then everything that is held is given back by proof."""
    assert findings(*AUDITS) == []
    for row in Allocation.objects.exclude(state__in=("released", "releasing")):
        allocation_release(allocation_id=row.pk, reason="", actor=OPERATOR)
    for host in hosts:
        host.work()
    outbox.sweep()
    assert findings(*AUDITS) == []


def test_suspensions_and_creations_of_workloads(arena: Arena) -> None:
    a_catalogue()
    host = a_host()
    for n in rounds():
        acme = a_tenant(f"acme-{n}")
        codes = arena.race(
            partial(run_it, acme, replicas=2),
            partial(tenant_suspend, tenant_id=acme.tenant.pk, reason="race", actor=OPERATOR),
        )
        assert codes[1] == ""
        assert codes[0] in ("", "tenant_suspended", "tenant_not_admitting")
        assert used(acme) == (2000 if codes[0] == "" else 0)
        assert Workload.objects.filter(tenant=acme.tenant).count() == (codes[0] == "")
        with pytest.raises(ProductError):
            run_it(acme)
        clean(host)


def test_deletions_and_creations_of_leases_and_workloads(arena: Arena) -> None:
    a_catalogue()
    host = a_host()
    for n in rounds():
        acme = a_tenant(f"acme-{n}")
        codes = arena.race(
            partial(run_it, acme, replicas=2, wait=bool(n % 2)),
            partial(acme.order, slots=1),
            partial(tenant_delete, tenant_id=acme.tenant.pk, reason="race", actor=OPERATOR),
        )
        assert codes[2] == ""
        assert set(codes[:2]) <= {"", "tenant_not_active", "tenant_not_admitting"}
        outbox.sweep()
        deletions_sweep()
        clean(host)
        deletions_sweep()
        assert Tenant.objects.get(pk=acme.tenant.pk).state == "deleted"
        assert not AdmissionRequest.objects.filter(tenant=acme.tenant, state="queued").exists()
        assert used(acme) == 0


def test_lowered_envelopes_and_scaling(arena: Arena) -> None:
    a_catalogue()
    host = a_host()
    for n in rounds():
        acme = a_tenant(f"acme-{n}", envelope_slots=4)
        row = the_workload(run_it(acme))
        codes = arena.race(
            partial(workload_scale, workload_id=row.pk, replicas=4, actor=acme.actor),
            partial(
                envelope_set,
                tenant_id=acme.tenant.pk,
                resource_class=CLASS,
                nominal_milli=2000,
                reason="race",
                actor=OPERATOR,
                on_excess="grandfather",
            ),
        )
        assert codes[1] == ""
        assert codes[0] in ("", "envelope_exceeded")
        counter = QuotaCounter.objects.get(tenant=acme.tenant)
        held, excess = (4000, 2000) if codes[0] == "" else (1000, 0)
        assert (counter.used_milli, counter.grandfathered_milli) == (held, excess)
        workload_stop(workload_id=row.pk, reason="", actor=acme.actor)
        clean(host)


def test_approvals_and_withdrawals_of_a_wish(arena: Arena) -> None:
    a_catalogue()
    for n in rounds():
        acme = a_tenant(f"acme-{n}", envelope_slots=2)
        wish = increase_ask(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_asked_milli=8000,
            justification="a larger model",
            actor=acme.actor,
        )
        request = requests_about(wish.pk)[0]
        withdraw: Callable[[], object] = partial(
            request_withdraw, request_id=request.pk, actor=acme.actor
        )
        if n % 2:
            withdraw = partial(increase_withdraw, increase_id=wish.pk, actor=acme.actor)
        codes = arena.race(
            partial(increase_approve, increase_id=wish.pk, reason="race", actor=OPERATOR), withdraw
        )
        assert sorted(codes)[0] == ""
        assert sorted(codes)[1] in ("transition_refused", "request_ended", "concurrent_update")
        nominal = Envelope.objects.get(tenant=acme.tenant).nominal_milli
        state = QuotaIncrease.objects.get(pk=wish.pk).state
        request.refresh_from_db()
        assert (state, request.state, nominal) in {
            ("approved", "admitted", 8000),
            ("withdrawn", "withdrawn", 2000),
        }
        assert findings(*AUDITS) == []


def test_two_wishes_for_the_same_class(arena: Arena) -> None:
    a_catalogue()
    for n in rounds():
        acme = a_tenant(f"acme-{n}", envelope_slots=2)
        ask = partial(
            increase_ask,
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_asked_milli=8000,
            justification="a larger model",
            actor=acme.actor,
        )
        assert sorted(arena.race(ask, ask)) == ["", "increase_open_already"]
        states = AdmissionRequest.objects.filter(tenant=acme.tenant).values_list("state", flat=True)
        assert sorted(states) == ["denied", "queued"]


def test_approvals_and_withdrawals_of_a_signup(arena: Arena) -> None:
    a_catalogue()
    for n in rounds():
        tenant = signed_up(f"Acme {n}", f"ann@acme-{n}.test")
        request = requests_about(tenant.pk)[0]
        owner = Actor(kind="user", id="o", name="o", tenant_id=tenant.pk, role=Role.OWNER)
        codes = arena.race(
            partial(tenant_approve, tenant_id=tenant.pk, reason="race", actor=OPERATOR),
            partial(request_withdraw, request_id=request.pk, actor=owner),
        )
        assert sorted(codes)[0] == ""
        assert sorted(codes)[1] in ("transition_refused", "request_ended", "concurrent_update")
        tenant.refresh_from_db()
        request.refresh_from_db()
        assert (tenant.state, request.state) in {("active", "admitted"), ("rejected", "withdrawn")}
        assert findings(*AUDITS) == []


def test_two_signups_with_one_address(arena: Arena) -> None:
    a_catalogue()
    for n in rounds():
        sign_up = partial(
            tenant_signup,
            email=f"ann@acme-{n}.test",
            password="a long pass phrase",
            full_name="Ann",
            tenant_name=f"Acme {n}",
            actor=OPERATOR,
        )
        assert sorted(arena.race(sign_up, sign_up)) == ["", "name_taken"]
        assert Tenant.objects.filter(name=f"Acme {n}").count() == 1
        assert AdmissionRequest.objects.filter(action="tenant.signup").count() == n + 1


def test_scaling_and_stopping(arena: Arena) -> None:
    a_catalogue()
    host, acme = a_host(), a_tenant("acme")
    for n in rounds():
        row = the_workload(run_it(acme, name=f"web-{n}", replicas=2))
        to = (4, 1)[n % 2]
        codes = arena.race(
            partial(workload_scale, workload_id=row.pk, replicas=to, actor=acme.actor),
            partial(workload_stop, workload_id=row.pk, reason="race", actor=acme.actor),
        )
        assert codes[1] == ""
        assert codes[0] in BUSY | {"workload_state_refused"}
        assert findings(*AUDITS) == []
        for _ in range(2):
            host.work()
            outbox.sweep()
        row.refresh_from_db()
        assert (row.state, used(acme)) == ("ended", 0)


@dataclass
class Crossing:
    """A workload in zone a that wants to zone b, which is full until it is let go."""

    acme: TenantWorld
    globex: TenantWorld
    here: Host
    there: Host

    @classmethod
    def made(cls) -> Crossing:
        """Two hosts in two zones, two tenants."""
        a_catalogue()
        here, there = a_host("host-1"), a_host("host-2")
        for zone, host in (("a", here), ("b", there)):
            Node.objects.filter(pk=host.node.pk).update(zone=zone)
        return cls(a_tenant("acme"), a_tenant("globex"), here, there)

    def waiting(self, n: int, replicas: int = 1) -> tuple[Workload, AdmissionRequest]:
        """A workload whose move waits, with room for it from now on, not taken yet."""
        blocker = self.globex.order("h100.node", zones=("b",))
        row = the_workload(run_it(self.acme, name=f"web-{n}", zones=("a",), replicas=replicas))
        self.here.work()
        self.there.work()
        ticket = workload_placement(
            workload_id=row.pk, zones=("b",), wait=True, actor=self.acme.actor
        )
        assert ticket.allocation_id is None
        assert blocker.allocation_id is not None
        allocation_release(allocation_id=blocker.allocation_id, reason="", actor=self.globex.actor)
        self.there.work()
        return row, ticket.request

    def settled(self, row: Workload) -> None:
        """Audits are clean, what stands is what is wanted, and everything ends."""
        assert findings(*AUDITS) == []
        for _ in range(3):
            self.here.work()
            self.there.work()
            outbox.sweep()
            cycle_sweep()
        row.refresh_from_db()
        wanted = 0 if row.state == "ended" else row.replicas
        standing = Allocation.objects.filter(workload=row).exclude(state="released").count()
        assert (row.state in ("ended", "admitted"), standing) == (True, wanted)
        workload_stop(workload_id=row.pk, reason="", actor=self.acme.actor)
        clean(self.here, self.there)
        assert used(self.acme) == 0


def test_a_waiting_move_that_is_taken_up_and_withdrawn(arena: Arena) -> None:
    place = Crossing.made()
    for n in rounds():
        row, request = place.waiting(n)
        codes = arena.race(
            partial(cycle_run, "default"),
            partial(request_withdraw, request_id=request.pk, actor=place.acme.actor),
        )
        assert codes[0] == ""
        assert codes[1] in BUSY | {"request_ended"}
        request.refresh_from_db()
        row.refresh_from_db()
        zones = {"admitted": ["b"], "withdrawn": ["a"]}
        if request.state != "queued":
            assert row.spec["zones"] == zones[request.state]
        place.settled(row)


def test_a_waiting_move_that_is_taken_up_while_its_workload_stops_or_scales(arena: Arena) -> None:
    place = Crossing.made()
    for n in rounds():
        row, _ = place.waiting(n, replicas=2)
        change: Callable[[], object] = partial(
            workload_stop, workload_id=row.pk, reason="race", actor=place.acme.actor
        )
        if n % 3:
            change = partial(
                workload_scale, workload_id=row.pk, replicas=n % 3 * 2 - 1, actor=place.acme.actor
            )
        codes = arena.race(
            partial(cycle_run, "default"),
            change,
            partial(workload_priority, workload_id=row.pk, band=5, actor=place.acme.actor),
        )
        assert codes[0] == ""
        assert set(codes[1:]) <= BUSY | {"workload_state_refused"}
        place.settled(row)


def test_two_moves_of_one_workload(arena: Arena) -> None:
    place = Crossing.made()
    for n in rounds():
        row = the_workload(run_it(place.acme, name=f"web-{n}", zones=("a",), replicas=2))
        place.here.work()
        move = partial(workload_placement, workload_id=row.pk, actor=place.acme.actor)
        codes = arena.race(
            partial(move, zones=("b",)),
            partial(move, zones=("b",), wait=True),
        )
        assert set(codes) <= BUSY
        assert "" in codes
        place.settled(row)


def test_a_suspension_beside_a_move(arena: Arena) -> None:
    place = Crossing.made()
    for n in rounds():
        acme = a_tenant(f"acme-{n}")
        row = the_workload(run_it(acme, zones=("a",)))
        place.here.work()
        codes = arena.race(
            partial(workload_placement, workload_id=row.pk, zones=("b",), actor=acme.actor),
            partial(tenant_suspend, tenant_id=acme.tenant.pk, reason="race", actor=OPERATOR),
        )
        assert codes[1] == ""
        assert codes[0] in ("", "tenant_suspended", "tenant_not_admitting")
        assert used(acme) == (2000 if codes[0] == "" else 1000)
        clean(place.here, place.there)
