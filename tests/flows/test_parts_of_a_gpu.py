"""Does a part of a GPU go from request to proven reuse, through the real API and the real agent?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections
from pytest_django.live_server_helper import LiveServer

from nodeagent.simhost.agent import TOKEN_FILE
from nodeagent.simhost.hardware import HardwareConfig, create_host
from nodeagent.simhost.state import StateStore
from placement.errors import SkuUnavailable
from placement.models import Claim, CleanupProof, CutSlot, NodeTask, SlotResidue
from placement.selectors import node_picture, offer_list, posture_of
from placement.services import agents, approvals, cuts, nodes
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from tests.builders import OPERATOR, a_catalogue, a_parts_catalogue, a_tenant
from tests.flows.test_fault_menu import Stage
from tests.nodeagent.clock import FakeClock
from tests.topologies import topology_file

pytestmark = pytest.mark.django_db(transaction=True)
MIG, SHARE = "h100.3g", "h100.third"
both_kinds = pytest.mark.parametrize("sku", [MIG, SHARE], ids=["mig", "share"])
GIB = 2**30


@pytest.fixture
def stage(live_server: LiveServer, tmp_path: Path) -> Iterator[Stage]:
    """A host with a slot of each cut, over real HTTP."""
    a_catalogue()
    a_parts_catalogue()
    node = nodes.node_create(name="host-1", actor=OPERATOR)
    _, token = agents.join_token_create(node_id=node.pk, actor=OPERATOR)
    folder = tmp_path / "host-1"
    config = HardwareConfig("host-1", gpu_model="NVIDIA H100 80GB HBM3", gpu_memory_bytes=80 * GIB)
    create_host(folder, config, topology_file("azure-ndv5-topo.xml"))
    (folder / TOKEN_FILE).write_text(token)
    acme, globex = a_tenant("acme"), a_tenant("globex")
    made = Stage(live_server.url, folder, node, acme, globex, FakeClock(time.time()))
    assert made.until(lambda: made.fresh().state == "verifying")
    approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family="h100x8")
    assert made.until(lambda: made.fresh().part_kinds == ["mig", "share"])
    assert made.until(lambda: made.fresh().schedulable)
    for index, cut in ((0, "mig"), (1, "share")):
        cuts.slot_cut(node_id=node.pk, slot_index=index, cut=cut, reason="test", actor=OPERATOR)
    yield made
    connections.close_all()


def _on_host(stage: Stage) -> tuple[int, int, int]:
    """Machines, parts and marks of tenants on the host's disk."""
    state = StateStore(stage.folder, "host-1").state
    return len(state.vms), len(state.parts), len(state.canaries)


@both_kinds
def test_a_part_is_leased_beside_another_and_proven_gone(stage: Stage, sku: str) -> None:
    stage.lease(sku)
    beside = stage.acme.order(sku).allocation
    assert beside is not None
    assert stage.until(lambda: stage.acme.tenant.allocations.filter(state="active").count() == 2)
    assert _on_host(stage) == (2, 2, 4)
    first = stage.acme.tenant.allocations.earliest("created_at")
    allocation_release(allocation_id=first.pk, reason="", actor=stage.acme.actor)
    assert stage.until(lambda: first.__class__.objects.get(pk=first.pk).state == "released")
    proof = CleanupProof.objects.get()
    assert proof.complete
    assert [step["step"] for step in proof.steps][-1] == "part_destroyed"
    assert _on_host(stage) == (1, 1, 2)
    beside.refresh_from_db()
    assert (beside.state, beside.observed) == ("active", "present")
    [claim] = Claim.objects.filter(state="active")
    again = stage.acme.order(sku).allocation
    assert again is not None
    assert stage.until(lambda: stage.acme.tenant.allocations.filter(state="active").count() == 2)
    assert {c.slot_id for c in Claim.objects.filter(state="active")} == {claim.slot_id}
    assert posture_of(stage.fresh()) == "partially_allocated"
    assert stage.nothing_wrong()


@both_kinds
def test_a_cleanup_that_skips_a_step_is_blocked_until_a_repair_proves_it(
    stage: Stage, sku: str
) -> None:
    stage.lease(sku)
    stage.menu.set("lie_cleanup", "missing_step")
    stage.release()
    assert stage.until(lambda: stage.state() == "cleanup_blocked")
    stage.menu.clear()
    row = stage.acme.tenant.allocations.get()
    assert stage.until(lambda: SlotResidue.objects.filter(state="found").exists())
    with pytest.raises(SkuUnavailable) as refused:
        stage.acme.order(sku)
    assert refused.value.facts["removed"]["slot_closed"] == 1
    cleanup_retry(allocation_id=row.pk, reason="scrubbed", actor=OPERATOR)
    assert stage.until(lambda: row.__class__.objects.get(pk=row.pk).state == "released")
    assert stage.nothing_wrong()


@both_kinds
def test_a_lie_about_a_part_closes_its_gpu_for_new_parts(stage: Stage, sku: str) -> None:
    stage.lease(sku)
    stage.menu.set("lie_cleanup", "false_ok")
    stage.release()
    assert stage.until(lambda: SlotResidue.objects.filter(state="found").exists())
    stage.menu.clear()
    index = 0 if sku == MIG else 1
    assert SlotResidue.objects.get().slot.index == index
    assert not CutSlot.objects.get(slot_index=index).open
    assert CutSlot.objects.exclude(slot_index=index).get().open
    store = StateStore(stage.folder, "host-1")
    store.state.canaries = {}
    store.save()
    assert stage.until(lambda: CutSlot.objects.get(slot_index=index).open)
    stage.lease(sku)
    assert stage.nothing_wrong()


@both_kinds
def test_faults_of_the_menu_end_as_for_whole_slots(stage: Stage, sku: str) -> None:
    stage.menu.set("fail_once", "slice.vm_provision,slice.vm_release")
    stage.menu.set("lose_reply", "1")
    stage.menu.set("reboot", "slice.vm_release")
    stage.lease(sku)
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    assert _on_host(stage) == (0, 0, 0)
    assert stage.nothing_wrong()


def test_a_host_without_the_capability_is_neither_cut_nor_obeys(stage: Stage) -> None:
    stage.lease(MIG)
    stage.release()
    assert stage.until(lambda: stage.state() == "released")
    config = stage.folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "part_kinds": []}))
    row = stage.acme.order(MIG).allocation
    assert row is not None
    assert stage.until(lambda: stage.fresh().part_kinds == [])
    task = NodeTask.objects.filter(allocation=row, kind="slice.vm_provision").get()
    assert stage.until(lambda: NodeTask.objects.get(pk=task.pk).state == "failed")
    task.refresh_from_db()
    assert task.error is not None
    assert task.error["code"] == "part_unsupported"
    assert not CutSlot.objects.filter(open=True).exists()


def test_offers_and_the_picture_show_parts(stage: Stage) -> None:
    before = {offer.sku: offer for offer in offer_list()}
    assert (before[MIG].available_slots, before[MIG].largest_fit) == (2, 1)
    assert (before["h100.1g"].available_slots, before[SHARE].available_slots) == (7, 3)
    stage.lease(MIG)
    after = {offer.sku: offer for offer in offer_list()}
    assert (after[MIG].available_slots, after["h100.1g"].available_slots) == (1, 4)
    [mark] = [m for m in node_picture(stage.fresh()).marks() if m.index == 0]
    [part] = mark.parts
    assert (mark.cut, mark.state, mark.free_milli) == ("mig", "in_use", 500)
    assert (part.label, part.spans, part.initials) == ("3g.40gb@4:4", ((500, 1000),), "AC")
