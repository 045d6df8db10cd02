"""Does every fault of a host end as the lifecycle says, through the real API and the real agent?"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from django.db import connections
from django.db.models.functions import Now
from pytest_django.live_server_helper import LiveServer

from gpuaas.kernel import audits
from nodeagent.daemon import Pace
from nodeagent.simhost.agent import TOKEN_FILE, SimAgent, make_agent
from nodeagent.simhost.faults import FaultMenu
from nodeagent.simhost.hardware import HardwareConfig, create_host
from nodeagent.simhost.state import StateStore
from placement.models import (
    Allocation,
    CleanupProof,
    Node,
    NodeTask,
    SlotResidue,
    TaskObservation,
)
from placement.selectors import posture_of
from placement.services import agents, approvals, nodes, overrides
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from placement.services.projections import projections_refresh
from placement.states import TaskState
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_tenant, drive_all
from tests.identity.test_two_people import an_operator, as_person
from tests.nodeagent.clock import FakeClock
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db(transaction=True)

SLICE, BARE = ("h100.slice", "slice.vm"), ("h100.node", "baremetal.")
both_shapes = pytest.mark.parametrize("shape", [SLICE, BARE], ids=["slice", "baremetal"])


@dataclass
class Stage:
    """A control plane over HTTP, one host with its real agent, and a tenant."""

    url: str
    folder: Path
    node: Node
    acme: TenantWorld
    globex: TenantWorld
    clock: FakeClock

    @property
    def menu(self) -> FaultMenu:
        """The host's faults."""
        return FaultMenu(self.folder)

    def rounds(self, count: int = 2) -> None:
        """The agent's process for some rounds; due work is due at once; then the runs go on."""

        async def work(agent: SimAgent) -> None:
            for _ in range(count):
                await agent.step()
                await agent.settle()

        NodeTask.objects.filter(state=TaskState.PENDING).update(due_at=Now())
        self.process(work)
        drive_all()

    def process(self, story: Callable[[SimAgent], Awaitable[None]]) -> None:
        """The agent's process, from its start to its end."""

        async def process() -> None:
            async with httpx.AsyncHTTPTransport() as pool:
                agent: SimAgent = make_agent(
                    self.folder,
                    self.url,
                    pool,
                    self.clock,
                    pace=Pace(heartbeat_every_s=0.0, report_every_s=0.0),
                    chance=random.Random(7),
                )
                await story(agent)

        asyncio.run(process())

    def until(self, holds: Callable[[], bool], tries: int = 12) -> bool:
        """Rounds until something holds; a bounded number."""
        for _ in range(tries):
            if holds():
                return True
            self.rounds()
        return holds()

    def state(self) -> str:
        """Where acme's allocation stands."""
        return str(self.acme.tenant.allocations.latest("created_at").state)

    def fresh(self) -> Node:
        """The node's row."""
        return Node.objects.get(pk=self.node.pk)

    def lease(self, sku: str) -> None:
        """Acme leases, and has it."""
        self.acme.order(sku, **({"slots": 2} if sku == SLICE[0] else {}))
        assert self.until(lambda: self.state() == "active")

    def lease_more(self, slots: int) -> None:
        """Globex leases this many slots too, and has them."""
        row = self.globex.order("h100.slice", slots=slots).allocation
        assert row is not None
        assert self.until(lambda: Allocation.objects.get(pk=row.pk).state == "active")

    def release(self) -> None:
        """Acme gives it back."""
        row = self.acme.tenant.allocations.latest("created_at")
        allocation_release(allocation_id=row.pk, reason="", actor=self.acme.actor)

    def nothing_wrong(self) -> bool:
        """Whether the audits find nothing."""
        projections_refresh()
        found = [f for run in audits.registered().values() for f in run()]
        assert found == []
        return True


@pytest.fixture
def stage(live_server: LiveServer, tmp_path: Path) -> Iterator[Stage]:
    """A host that joined, was discovered and approved over real HTTP."""
    a_catalogue()
    node = nodes.node_create(name="host-1", actor=OPERATOR)
    _, token = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    folder = tmp_path / "host-1"
    create_host(folder, HardwareConfig("host-1"), topology_file("azure-ndv5-topo.xml"))
    (folder / TOKEN_FILE).write_text(token)
    made = Stage(
        live_server.url,
        folder,
        node,
        a_tenant("acme"),
        a_tenant("globex"),
        FakeClock(time.time()),
    )
    assert made.until(lambda: made.fresh().state == "verifying")
    approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family="h100x8")
    assert made.until(lambda: made.fresh().schedulable)
    yield made
    connections.close_all()


@both_shapes
def test_a_lease_goes_from_join_to_release_with_proof(stage: Stage, shape: tuple[str, str]) -> None:
    stage.lease(shape[0])
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    assert CleanupProof.objects.filter(complete=False).count() == 0
    assert posture_of(stage.fresh()) == "fully_available"
    assert stage.nothing_wrong()


@both_shapes
def test_a_slow_host_keeps_its_lease_by_heartbeats(stage: Stage, shape: tuple[str, str]) -> None:
    stage.menu.set("slow_s", "20")
    stage.lease(shape[0])
    assert NodeTask.objects.filter(kind__endswith="provision").get().attempt == 1


@both_shapes
def test_a_task_that_fails_once_is_done_at_the_second_try(
    stage: Stage, shape: tuple[str, str]
) -> None:
    provision, release = (
        ("slice.vm_provision", "slice.vm_release")
        if shape == SLICE
        else ("baremetal.provision", "baremetal.release")
    )
    stage.menu.set("fail_once", f"{provision},{release}")
    stage.lease(shape[0])
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    assert set(NodeTask.objects.exclude(allocation=None).values_list("attempt", flat=True)) == {2}
    assert stage.nothing_wrong()


@both_shapes
def test_a_cleanup_that_skips_a_step_is_blocked_until_a_repair_proves_it(
    stage: Stage, shape: tuple[str, str]
) -> None:
    stage.lease(shape[0])
    stage.menu.set("lie_cleanup", "missing_step")
    stage.release()
    assert stage.until(lambda: stage.state() == "cleanup_blocked")
    assert posture_of(stage.fresh()) == "cleanup_blocked"
    stage.menu.clear()
    row = stage.acme.tenant.allocations.get()
    cleanup_retry(allocation_id=row.pk, reason="scrubbed", actor=OPERATOR)
    assert stage.until(lambda: stage.state() == "released")
    assert stage.until(lambda: posture_of(stage.fresh()) == "fully_available")
    assert stage.nothing_wrong()


@both_shapes
def test_a_cleanup_that_claims_what_it_did_not_do_is_found_out_before_reuse(
    stage: Stage, shape: tuple[str, str]
) -> None:
    stage.lease(shape[0])
    stage.menu.set("lie_cleanup", "false_ok")
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    clean = 6 if shape == SLICE else 0
    assert stage.until(lambda: stage.fresh().free_count == clean)
    assert {c["code"] for c in stage.fresh().conditions} == {"residue_found"}
    assert posture_of(stage.fresh()) == "cleanup_blocked"
    assert stage.nothing_wrong()


def test_residue_on_one_slot_leaves_neighbours_and_free_slots_alone_until_it_is_wiped(
    stage: Stage,
) -> None:
    neighbour = stage.globex.order("h100.slice", slots=3).allocation
    assert neighbour is not None
    stage.acme.order("h100.slice", slots=1)
    assert stage.until(lambda: stage.state() == "active")
    left = stage.acme.tenant.allocations.get()
    (index,) = left.claims.values_list("slot_index", flat=True)
    stage.menu.set("lie_cleanup", "false_ok")
    stage.release()
    assert stage.until(lambda: SlotResidue.objects.filter(state="found").exists())
    stage.menu.clear()
    residue = SlotResidue.objects.get()
    assert (residue.slot.index, residue.left_by) == (index, str(left.pk))
    assert stage.until(lambda: stage.fresh().free_count == 4)
    neighbour.refresh_from_db()
    assert (neighbour.state, neighbour.observed) == ("active", "present")
    stage.lease_more(4)
    assert stage.fresh().free_count == 0
    store = StateStore(stage.folder, "host-1")
    store.refresh()
    store.state.canaries = {
        device: owner for device, owner in store.state.canaries.items() if owner != str(left.pk)
    }
    store.save()
    assert stage.until(lambda: stage.fresh().free_count == 1)
    residue.refresh_from_db()
    assert residue.state == "gone"
    stage.lease_more(1)
    assert stage.nothing_wrong()


def test_an_overridden_slot_is_sold_again_and_the_host_still_refuses_to_hand_traces_over(
    stage: Stage,
) -> None:
    stage.acme.order("h100.slice", slots=8)
    assert stage.until(lambda: stage.state() == "active")
    stage.menu.set("lie_cleanup", "false_ok")
    stage.release()
    assert stage.until(lambda: SlotResidue.objects.filter(state="found").count() == 8)
    stage.menu.clear()
    left = stage.acme.tenant.allocations.get()
    one, two = as_person(an_operator("one")), as_person(an_operator("two"))
    overrides.override_request(allocation_id=left.pk, reason="wiped by hand", actor=one)
    overrides.override_approve(allocation_id=left.pk, reason="seen", actor=two)
    assert stage.fresh().free_count == 8
    refused = stage.globex.order("h100.slice", slots=1).allocation
    assert refused is not None
    assert stage.until(lambda: Allocation.objects.get(pk=refused.pk).state == "released")
    refused.refresh_from_db()
    assert (refused.outcome, refused.outcome_code) == ("failed", "provision_failed")
    assert stage.until(lambda: SlotResidue.objects.filter(state="gone").count() == 1)
    assert stage.nothing_wrong()


@both_shapes
def test_a_lost_reply_and_a_doubled_result_count_once(stage: Stage, shape: tuple[str, str]) -> None:
    stage.menu.set("lose_reply", "1")
    stage.menu.set("duplicate", "2")
    stage.lease(shape[0])
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    assert TaskObservation.objects.count() == 0
    assert stage.nothing_wrong()


@both_shapes
@pytest.mark.parametrize("part", ["provision", "release"])
def test_a_reboot_in_the_middle_voids_the_lease_and_the_work_is_done_again(
    stage: Stage, shape: tuple[str, str], part: str
) -> None:
    kind = f"slice.vm_{part}" if shape == SLICE else f"baremetal.{part}"
    before = stage.fresh().boot_id
    stage.menu.set("reboot", kind)
    stage.lease(shape[0])
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    assert stage.fresh().boot_id != before
    assert stage.until(lambda: posture_of(stage.fresh()) == "fully_available")
    assert stage.nothing_wrong()


@both_shapes
def test_a_release_in_the_middle_of_the_making_leaves_nothing_on_the_host(
    stage: Stage, shape: tuple[str, str]
) -> None:
    stage.acme.order(shape[0], **({"slots": 2} if shape == SLICE else {}))
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    row = stage.acme.tenant.allocations.get()
    assert (row.outcome, row.observed) != ("ended", "present")
    assert stage.until(lambda: posture_of(stage.fresh()) == "fully_available")
    assert stage.nothing_wrong()


def test_a_lost_prerequisite_takes_the_host_out_and_its_return_brings_it_back(
    stage: Stage,
) -> None:
    stage.menu.set("vfio_missing", "true")
    assert stage.until(lambda: not stage.fresh().schedulable)
    assert posture_of(stage.fresh()) == "unavailable"
    stage.menu.set("vfio_missing", "false")
    assert stage.until(lambda: stage.fresh().schedulable)
