"""Whatever happens in whatever order: does what is held, charged and free always agree?"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gpuaas.kernel import outbox
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation, Claim, Node, NodeDrain, NodeTask, Slot
from placement.services import nodes
from placement.services.allocations import allocation_release
from tenants.models import QuotaCounter
from tenants.services import tenancy
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant, drive_all

HOSTS, TENANTS, SLOTS, ENVELOPE = 2, 2, 4, 6
LIVE = ("reserved", "active", "releasing", "cleanup_blocked")
pytestmark = pytest.mark.django_db


def tried(act: Any, *args: Any, **named: Any) -> bool:
    """Do it, or be refused with a declared reason."""
    try:
        act(*args, **named)
    except ProductError:
        return False
    return True


class Platform(RuleBasedStateMachine):
    """A few hosts and tenants, and everything that people and hosts do to them.

    Each example is one transaction that is rolled back; services use savepoints inside it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        a_catalogue(slots_count=SLOTS)
        self.hosts: list[Host] = [a_host(f"host-{k}", slots_count=SLOTS) for k in range(HOSTS)]
        self.worlds: list[TenantWorld] = [
            a_tenant(f"tenant-{k}", envelope_slots=ENVELOPE) for k in range(TENANTS)
        ]
        for world in self.worlds:
            world.order(slots=1)
        for host in self.hosts:
            host.work()

    def teardown(self) -> None:
        """Forget everything."""
        transaction.set_rollback(True)
        self.undo.__exit__(None, None, None)

    @rule(tenant=st.integers(0, TENANTS - 1), slots=st.integers(1, SLOTS), wait=st.booleans())
    def order_slots(self, tenant: int, slots: int, wait: bool) -> None:
        tried(self.worlds[tenant].order, slots=slots, wait=wait)

    @rule(tenant=st.integers(0, TENANTS - 1))
    def order_a_node(self, tenant: int) -> None:
        tried(self.worlds[tenant].order, "h100.node")

    @rule(which=st.integers(0, 2), tenant=st.integers(0, TENANTS - 1))
    def release(self, which: int, tenant: int) -> None:
        rows = list(Allocation.objects.order_by("-created_at", "-id")[:3])
        if rows:
            allocation_release(
                allocation_id=rows[which % len(rows)].pk, reason="", actor=self.worlds[tenant].actor
            )

    @rule(host=st.integers(0, HOSTS - 1), how=st.sampled_from(["well", "well", "unclean", "fail"]))
    def work(self, host: int, how: str) -> None:
        """Everything that is due on the host, in one way."""
        for task in self.hosts[host].lease():
            if how == "fail":
                tried(self.hosts[host].fail, task)
            else:
                skipped = ("gpu_scrubbed",) if how == "unclean" else ()
                tried(self.hosts[host].complete, task, skip=skipped)
        drive_all()

    @rule(host=st.integers(0, HOSTS - 1), most=st.integers(1, 3))
    def lease(self, host: int, most: int) -> None:
        self.hosts[host].lease(most)

    @rule(which=st.integers(0, 20), clean=st.booleans())
    def complete(self, which: int, clean: bool) -> None:
        for host, task in self._leased(which):
            tried(host.complete, task, skip=() if clean else ("gpu_scrubbed",))
        drive_all()

    @rule(which=st.integers(0, 20), again=st.booleans())
    def fail(self, which: int, again: bool) -> None:
        for host, task in self._leased(which):
            tried(host.fail, task, retryable=again)
        drive_all()

    @rule(host=st.integers(0, HOSTS - 1))
    def reboot(self, host: int) -> None:
        self.hosts[host].boot = f"{self.hosts[host].boot[:8]}-{self.hosts[host].seq:08d}"
        self.hosts[host].lease(0)
        self.hosts[host].report()

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

    @rule(tenant=st.integers(0, TENANTS - 1))
    def suspend_or_resume(self, tenant: int) -> None:
        pk = self.worlds[tenant].tenant.pk
        if not tried(tenancy.tenant_suspend, tenant_id=pk, reason="late", actor=OPERATOR):
            tried(tenancy.tenant_resume, tenant_id=pk, reason="paid", actor=OPERATOR)

    @rule()
    def let_the_worker_run(self) -> None:
        drive_all()
        outbox.sweep()

    def _leased(self, which: int) -> list[tuple[Host, NodeTask]]:
        rows = list(NodeTask.objects.filter(state="leased").order_by("created_at", "id"))
        if not rows:
            return []
        task = rows[which % len(rows)]
        return [(host, task) for host in self.hosts if host.node.pk == task.node_id]

    @invariant()
    def what_is_charged_is_what_is_held(self) -> None:
        for counter in QuotaCounter.objects.all():
            live = Claim.objects.filter(
                tenant_id=counter.tenant_id,
                resource_class_id=counter.resource_class_id,
                holder="tenant",
                state__in=LIVE,
            )
            assert counter.used_milli == sum(claim.amount_milli for claim in live)
            assert 0 <= counter.used_milli <= counter.limit_milli + counter.grandfathered_milli

    @invariant()
    def nothing_is_held_twice_and_free_is_what_is_left(self) -> None:
        for node in Node.objects.all():
            held: set[int] = set()
            for claim in Claim.objects.filter(node=node, state__in=LIVE):
                slots = set(range(SLOTS)) if claim.slot_index < 0 else {claim.slot_index}
                assert not held & slots
                held |= slots
            drained = set(
                NodeDrain.objects.filter(node=node, ended_at__isnull=True).values_list(
                    "slot_index", flat=True
                )
            )
            approved = set(
                Slot.objects.filter(node=node, state="approved").values_list("index", flat=True)
            )
            free = approved - held - drained
            assert node.free_mask == sum(1 << k for k in free)
            assert node.free_count == len(free)
            assert not (None in drained and node.schedulable)

    @invariant()
    def an_allocation_has_all_of_its_claims_on_one_node_or_none(self) -> None:
        for row in Allocation.objects.all():
            claims = list(Claim.objects.filter(allocation=row))
            assert len(claims) == max(row.slots, 1)
            assert {claim.node_id for claim in claims} == {row.node_id}
            live = [claim for claim in claims if claim.state in LIVE]
            assert len(live) in (0, len(claims))
            assert bool(live) == (row.state != "released")

    @invariant()
    def a_drained_or_suspended_thing_takes_nothing_new(self) -> None:
        for world in self.worlds:
            world.tenant.refresh_from_db()
            counters = QuotaCounter.objects.filter(tenant=world.tenant)
            assert {c.admitting for c in counters} == {world.tenant.state == "active"}


@pytest.mark.timeout(240)
def test_any_order_of_events_keeps_claims_capacity_and_quota_in_agreement() -> None:
    run_state_machine_as_test(
        Platform,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Allocation.objects.count() == 0, "an example was not rolled back"
