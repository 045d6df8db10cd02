"""Whatever is claimed, released, cut and drained in whatever order: do parts and parents agree?"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gpuaas.kernel.errors import ProductError
from placement.audits.capacity import capacity, quota
from placement.audits.claims import claims, devices
from placement.audits.parts import parts
from placement.domain.parts import CUTS
from placement.models import Allocation, Claim, CutSlot
from placement.services import cuts, nodes, queue
from placement.services.allocations import allocation_release
from tests.builders import (
    BOTH_KINDS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    drive_all,
)

HOSTS, TENANTS, SLOTS = 2, 2, 3
SKUS = (
    *("h100.1g", "h100.3g", "h100.4g", "h100.media", "h100.third", "h100.tenth"),
    *("h100.slice", "h100.node"),
)
AUDITS = (claims, devices, capacity, quota, parts)


def tried(act: Any, *args: Any, **named: Any) -> bool:
    """Do it, or be refused with a declared reason."""
    try:
        act(*args, **named)
    except ProductError:
        return False
    return True


def a_world() -> tuple[list[Host], list[TenantWorld]]:
    """Hosts with a slot of each cut, and tenants that may have parts."""
    a_catalogue(slots_count=SLOTS)
    a_parts_catalogue()
    hosts = [a_host(f"host-{k}", slots_count=SLOTS, parts=BOTH_KINDS) for k in range(HOSTS)]
    for host in hosts:
        for index, cut in ((0, "mig"), (1, "share")):
            cut_it(host, index, cut)
    return hosts, [a_tenant(f"tenant-{k}", envelope_slots=8) for k in range(TENANTS)]


def cut_it(host: Host, index: int, cut: str) -> bool:
    """Cut a slot if that can be."""
    return tried(
        cuts.slot_cut,
        node_id=host.node.pk,
        slot_index=index,
        cut=cut,
        reason="test",
        actor=OPERATOR,
    )


class Parts(RuleBasedStateMachine):
    """Each example is one transaction that is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        self.hosts, self.worlds = a_world()

    def teardown(self) -> None:
        """Forget everything."""
        transaction.set_rollback(True)
        self.undo.__exit__(None, None, None)

    @rule(
        tenant=st.integers(0, TENANTS - 1),
        sku=st.sampled_from(SKUS),
        wait=st.booleans(),
        often=st.integers(1, 3),
    )
    def order(self, tenant: int, sku: str, wait: bool, often: int) -> None:
        for _ in range(often):
            tried(self.worlds[tenant].order, sku, wait=wait)

    @rule(which=st.integers(0, 5), tenant=st.integers(0, TENANTS - 1))
    def release(self, which: int, tenant: int) -> None:
        rows = list(Allocation.objects.exclude(state="released").order_by("-created_at", "-id")[:6])
        if rows:
            allocation_release(
                allocation_id=rows[which % len(rows)].pk, reason="", actor=self.worlds[tenant].actor
            )

    @rule(
        host=st.integers(0, HOSTS - 1),
        skip=st.sampled_from([(), (), ("part_destroyed",), ("gpu_scrubbed",)]),
    )
    def work(self, host: int, skip: tuple[str, ...]) -> None:
        for task in self.hosts[host].lease():
            tried(self.hosts[host].complete, task, skip=skip)
        drive_all()
        queue.cycle_run("default")

    @rule(host=st.integers(0, HOSTS - 1), slot=st.integers(0, SLOTS - 1), cut=st.sampled_from(CUTS))
    def cut(self, host: int, slot: int, cut: str) -> None:
        held = Claim.objects.filter(
            node=self.hosts[host].node,
            slot_index__in=(slot, -1),
            state__in=("reserved", "active", "releasing", "cleanup_blocked"),
        ).exists()
        before = self.hosts[host].node.slots.get(index=slot).cut
        done = cut_it(self.hosts[host], slot, cut)
        assert not (held and done and before != cut)

    @rule(host=st.integers(0, HOSTS - 1), slot=st.none() | st.integers(0, SLOTS - 1))
    def drain(self, host: int, slot: int | None) -> None:
        nodes.node_drain(
            node_id=self.hosts[host].node.pk, reason="work", actor=OPERATOR, slot_index=slot
        )

    @rule(host=st.integers(0, HOSTS - 1), slot=st.none() | st.integers(0, SLOTS - 1))
    def undrain(self, host: int, slot: int | None) -> None:
        nodes.node_undrain(
            node_id=self.hosts[host].node.pk, reason="done", actor=OPERATOR, slot_index=slot
        )

    @rule(host=st.integers(0, HOSTS - 1), kinds=st.sampled_from([(), ("mig",), BOTH_KINDS]))
    def report(self, host: int, kinds: tuple[str, ...]) -> None:
        self.hosts[host].parts = kinds
        self.hosts[host].report()

    @invariant()
    def no_audit_finds_anything(self) -> None:
        for audit in AUDITS:
            assert audit() == []


@pytest.mark.django_db
@pytest.mark.timeout(240)
def test_any_order_of_acts_keeps_parts_and_parents_apart() -> None:
    run_state_machine_as_test(
        Parts,
        settings=settings(
            max_examples=15,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Allocation.objects.count() == 0, "an example was not rolled back"


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(240)
def test_a_crowd_on_the_same_gpus_never_overlaps() -> None:
    hosts, worlds = a_world()

    def act(seed: int) -> int:
        chance, placed = random.Random(seed), 0
        try:
            for _ in range(14):
                world = chance.choice(worlds)
                pick = chance.random()
                if pick < 0.6:
                    placed += tried(world.order, chance.choice(SKUS))
                elif pick < 0.85:
                    row = Allocation.objects.exclude(state="released").order_by("?").first()
                    if row is not None:
                        tried(
                            allocation_release, allocation_id=row.pk, reason="", actor=world.actor
                        )
                else:
                    cut_it(chance.choice(hosts), chance.randrange(SLOTS), chance.choice(CUTS))
            return placed
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as crowd:
        placed = sum(crowd.map(act, range(4)))
    assert placed > 0
    for audit in AUDITS:
        assert audit() == []
    for host in hosts:
        host.work()
    for audit in AUDITS:
        assert audit() == []
    assert CutSlot.objects.filter(free_milli__lt=0).count() == 0
