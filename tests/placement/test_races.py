"""When two things happen to one place at the same moment, is it as if one came first?"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections

from gpuaas.kernel import clock
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.models import Event
from gpuaas.kernel.transitions import advance
from nodeagent.protocol import RenewRequest
from placement.models import Allocation, Claim, Node, NodeCredential, NodeTask
from placement.services import agents, approvals, nodes, slots
from placement.services.allocations import allocation_release, allocations_release
from placement.services.queue import cycle_run
from tenants.models import QuotaCounter
from tenants.services import tenancy
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

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 6


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Do all at once, each on its own connection: what each returned, or the refusal."""
    barrier = threading.Barrier(len(acts))
    results: list[Any] = [None] * len(acts)

    def one(k: int, act: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[k] = act()
        except ProductError as refused:
            results[k] = refused
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def refusals(results: list[Any]) -> list[str]:
    """The codes of what was refused."""
    return sorted(result.code for result in results if isinstance(result, ProductError))


def charged(world: TenantWorld) -> int:
    """What the tenant's counter says."""
    return QuotaCounter.objects.get(tenant=world.tenant).used_milli


def held(world: TenantWorld) -> int:
    """What the tenant's live claims add up to."""
    live = Claim.objects.filter(tenant=world.tenant, holder="tenant").exclude(state="released")
    return sum(claim.amount_milli for claim in live)


def give_back_all(host: Host) -> None:
    """Release everything and let the host prove it."""
    for row in Allocation.objects.exclude(state="released"):
        allocation_release(allocation_id=row.pk, reason="", actor=OPERATOR)
    host.work()


def test_two_claims_on_the_last_slot_give_it_to_one() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    for _ in range(ROUNDS):
        acme.order(slots=7)
        results = together(lambda: globex.order(slots=1), lambda: acme.order(slots=1))
        assert refusals(results) == ["sku_unavailable"]
        assert Node.objects.get().free_mask == 0
        assert charged(acme) + charged(globex) == 8000 == held(acme) + held(globex)
        give_back_all(host)


def test_many_claims_on_two_nodes_fill_them_exactly() -> None:
    a_catalogue()
    worlds = [a_tenant(f"tenant-{k}") for k in range(4)]
    a_host("host-1")
    a_host("host-2")
    orders = [lambda world=world: world.order(slots=2) for world in worlds * 3]
    results = together(*orders)
    assert refusals(results) == ["sku_unavailable"] * 4
    assert {node.free_count for node in Node.objects.all()} == {0}
    assert Claim.objects.count() == 16


def test_a_whole_node_and_a_slice_never_share_it() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    for _ in range(ROUNDS):
        results = together(lambda: acme.order("h100.node"), lambda: globex.order(slots=1))
        assert refusals(results) == ["sku_unavailable"]
        live = Claim.objects.exclude(state="released")
        assert {claim.slot_index for claim in live} in ({-1}, {0})
        give_back_all(host)


def test_a_drain_beside_a_claim_lets_it_in_before_or_not_at_all() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    for _ in range(ROUNDS):
        claim, _drain = together(
            lambda: acme.order(slots=1),
            lambda: nodes.node_drain(node_id=host.node.pk, reason="work", actor=OPERATOR),
        )
        drained = Event.objects.filter(kind="placement.node.drain").latest("id").pk
        if not isinstance(claim, ProductError):
            placed = Event.objects.get(
                kind="placement.allocation.place", subject_id=claim.allocation_id
            )
            assert placed.pk < drained
        with pytest.raises(ProductError):
            acme.order(slots=1)
        assert not host.fresh().schedulable
        give_back_all(host)
        nodes.node_undrain(node_id=host.node.pk, reason="done", actor=OPERATOR)


def test_two_releases_are_one() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    for _ in range(ROUNDS):
        allocation = acme.order(slots=2).allocation_id
        assert allocation is not None
        host.work()
        runs = together(
            *[
                lambda allocation=allocation: allocation_release(
                    allocation_id=allocation, reason="", actor=acme.actor
                )
            ]
            * 4
        )
        assert len({run.pk for run in runs}) == 1
        assert (
            Event.objects.filter(kind="placement.allocation.release", subject_id=allocation).count()
            == 1
        )
        assert (
            NodeTask.objects.filter(allocation_id=allocation, kind__endswith="release").count() == 1
        )
        host.work()
        assert charged(acme) == 0 == held(acme)


def test_batches_of_releases_that_overlap_begin_each_once() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    hosts = [a_host(f"host-{k}") for k in range(3)]
    for _ in range(ROUNDS):
        made = [one for _ in range(6) if (one := acme.order(slots=3).allocation_id) is not None]
        hosts[0].work()
        batches = [made, made[::-1], made[1:4], made[::2]]
        results = together(
            *[
                lambda batch=batch: allocations_release(
                    allocation_ids=batch, reason="", actor=acme.actor
                )
                for batch in batches
            ]
        )
        assert refusals(results) == []
        left = [one for batch in results for one in batch]
        assert sorted(one.allocation_id for one in left if one.begun) == sorted(made)
        assert len({one.run_id for one in left}) == 6
        for host in hosts:
            host.work()
        assert charged(acme) == 0 == held(acme)


def test_a_batch_of_releases_beside_hosts_and_workers_lets_each_go_on() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    hosts = [a_host(f"host-{k}") for k in range(3)]
    for turn in range(ROUNDS):
        made = [one for _ in range(6) if (one := acme.order(slots=3).allocation_id) is not None]
        if turn % 2:
            for host in hosts:
                for task in host.lease():
                    host.complete(task)
        results = together(
            partial(allocations_release, allocation_ids=made, reason="", actor=acme.actor),
            *[host.lease for host in hosts],
            drive_all,
        )
        assert refusals(results) == []
        begun, *leased, _driven = results
        assert [one.begun for one in begun] == [True] * 6
        for host, tasks in zip(hosts, leased, strict=True):
            for task in NodeTask.objects.filter(pk__in=[t.pk for t in tasks], state="leased"):
                host.complete(task)
        for host in hosts:
            host.work()
        released = Allocation.objects.filter(pk__in=made, state="released")
        blocked = Allocation.objects.filter(pk__in=made, state="cleanup_blocked")
        assert (released.count(), blocked.count()) == (6, 0)
        assert charged(acme) == 0 == held(acme)


def test_a_suspension_beside_a_claim_is_in_one_order_or_the_other() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    for _ in range(ROUNDS):
        claim, _suspended = together(
            lambda: acme.order(slots=1),
            lambda: tenancy.tenant_suspend(tenant_id=acme.tenant.pk, reason="late", actor=OPERATOR),
        )
        if isinstance(claim, ProductError):
            assert claim.code in ("tenant_suspended", "tenant_not_admitting", "envelope_exceeded")
            assert held(acme) == 0
        with pytest.raises(ProductError):
            acme.order(slots=1)
        assert charged(acme) == held(acme)
        give_back_all(host)
        tenancy.tenant_resume(tenant_id=acme.tenant.pk, reason="paid", actor=OPERATOR)


def test_a_claim_beside_the_approval_of_the_only_node_takes_approved_slots_or_none() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    node = nodes.node_create(name="host-1", actor=OPERATOR, intended="any")
    Node.objects.filter(pk=node.pk).update(boot_id=BOOT)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots.slots_take(node, a_report("host-1", 8), actor=OPERATOR)
    Host(node).report()
    claim, approved = together(
        lambda: acme.order(slots=8),
        lambda: approvals.node_approve(
            node_id=node.pk, actor=OPERATOR, reason="seen", family="h100x8"
        ),
    )
    assert not isinstance(approved, ProductError)
    if isinstance(claim, ProductError):
        assert claim.code in ("never_fits", "sku_unavailable")
        assert held(acme) == 0
    else:
        assert set(Claim.objects.values_list("slot__state", flat=True)) == {"approved"}
        assert held(acme) == 8000


def test_a_tenant_that_races_itself_stays_within_its_envelope() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=5)
    a_host("host-1")
    a_host("host-2")
    results = together(*[lambda: acme.order(slots=2)] * 6)
    assert len(refusals(results)) == 4
    assert set(refusals(results)) == {"envelope_exceeded"}
    assert charged(acme) == 4000 == held(acme)


def test_cycles_that_run_at_once_place_each_waiting_request_once() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    acme.order("h100.node")
    waiting = [acme.order(slots=1, wait=True) for _ in range(8)]
    assert {ticket.allocation_id for ticket in waiting} == {None}
    give_back_all(host)
    placed = together(*[lambda: cycle_run("default")] * 4)
    assert Allocation.objects.exclude(state="released").count() == 8
    assert sum(placed) <= 8
    assert charged(acme) == 8000 == held(acme)


def test_no_credential_outlives_a_revocation_that_met_a_renewal() -> None:
    a_catalogue()
    for round_ in range(ROUNDS):
        node = a_host(f"host-{round_}").node
        NodeCredential.objects.filter(node=node).delete()
        until = clock.db_now() + timedelta(hours=1)
        old = NodeCredential.objects.create(node=node, public_key="a" * 44, expires_at=until)
        renew = RenewRequest(public_key=base64.b64encode(bytes(32)).decode())
        results = together(
            partial(agents.credential_renew, node=node, by=old.pk, message=renew),
            partial(agents.credential_revoke, node_id=node.pk, reason="stolen", actor=OPERATOR),
        )
        assert refusals(results) in ([], ["credential_invalid"])
        assert not NodeCredential.objects.filter(node=node, revoked_at__isnull=True).exists()
