"""Does a machine that nobody asked for block what it touches, and nothing else?"""

from __future__ import annotations

import pytest

from nodeagent.protocol import ObservedDevices, ObservedReport, ObservedVm, VmState
from nodeagent.simhost.__main__ import main as simhost
from nodeagent.simhost.state import StateStore
from placement.models import Allocation, Node, Slot
from placement.services.approvals import node_approve
from placement.services.differences import slot_accept
from placement.services.nodes import recount
from placement.services.strangers import strangers_add
from tests.api.client import Caller, operator_caller
from tests.builders import OPERATOR
from tests.flows.test_cards import looked_at
from tests.flows.test_fault_menu import SLICE, Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)


def gone(stage: Stage) -> None:
    """Somebody ends the machine by hand."""
    store = StateStore(stage.folder, "host-1")
    store.state.vms = {key: vm for key, vm in store.state.vms.items() if vm.allocation}
    store.save()


def metric(name: str) -> list[str]:
    """The lines of one metric."""
    text = Caller().get("/metrics").content.decode()
    return [line for line in text.splitlines() if line.startswith(name)]


def test_a_machine_on_two_slots_blocks_those_two_and_says_which(stage: Stage) -> None:
    assert simhost(["stray", str(stage.folder), "--slots", "3,5"]) == 0
    stage.rounds()
    row = stage.fresh()
    assert (row.schedulable, row.health, row.free_count) == (True, "ok", 6)
    shown = operator_caller().get("/nodes/host-1").json()
    said = [(c["code"], c["detail"], c["slots"]) for c in shown["conditions"]]
    told = "machine stray-0 was not asked for"
    assert said == [("unknown_vm", told, [3]), ("unknown_vm", told, [5])]
    rows = Slot.objects.filter(state="blocked").order_by("index")
    assert list(rows.values_list("index", "block_reason")) == [(3, told), (5, told)]
    assert metric("gpuaas_unknown_machines{") == [
        'gpuaas_unknown_machines{blocks="slots",node="host-1"} 1.0'
    ]
    # The others are sold as ever, and the stranger is not touched.
    stage.lease_more(6)
    taken = Allocation.objects.get().claims.values_list("slot_index", flat=True)
    assert not {3, 5} & set(taken)
    assert "stray-0" in StateStore(stage.folder, "host-1").state.vms
    gone(stage)
    stage.rounds()
    assert stage.fresh().free_count == 2
    assert metric("gpuaas_unknown_machines{") == []
    assert stage.nothing_wrong()


def test_a_machine_of_which_nobody_knows_what_it_touches_blocks_the_host(stage: Stage) -> None:
    stage.lease(SLICE[0])
    assert simhost(["stray", str(stage.folder), "--slots", "40"]) == 0
    stage.rounds()
    assert (stage.fresh().schedulable, stage.fresh().health) == (False, "degraded")
    assert metric("gpuaas_unknown_machines{") == [
        'gpuaas_unknown_machines{blocks="node",node="host-1"} 1.0'
    ]
    # What runs goes on, and is released as ever.
    assert stage.state() == "active"
    gone(stage)
    stage.rounds()
    assert stage.fresh().schedulable
    assert stage.nothing_wrong()


def moved_in(stage: Stage, state: str) -> None:
    """A machine that nobody asked for gets slot 3 while that is not approved."""
    rows = Slot.objects.filter(node=stage.node, index=3)
    rows.update(state="blocked", block_reason="by hand", block_owner=OPERATOR.as_json())
    if state != "blocked":
        rows.update(state=state, block_reason="", block_owner=None)
    recount(stage.fresh())
    assert simhost(["stray", str(stage.folder), "--slots", "3"]) == 0
    stage.rounds()
    assert rows.get().state == state


def kept_from_work(stage: Stage) -> bool:
    """Whether slot 3 is not offered, for what has its GPU."""
    row = Slot.objects.exclude(state="retired").get(node=stage.node, index=3)
    said = "was not asked for" in row.block_reason
    return (row.state, said, stage.fresh().free_count, stage.fresh().schedulable) == (
        "blocked",
        True,
        7,
        True,
    )


def test_a_slot_that_a_stranger_has_is_not_offered_between_approval_and_next_report(
    stage: Stage,
) -> None:
    moved_in(stage, "verified")
    node_approve(node_id=stage.node.pk, actor=OPERATOR, reason="seen", family="h100x8")
    assert kept_from_work(stage)
    gone(stage)
    stage.rounds()
    assert stage.fresh().free_count == 8


def test_a_slot_that_a_stranger_has_is_not_offered_when_it_is_accepted(stage: Stage) -> None:
    moved_in(stage, "blocked")
    slot = slot_accept(node_id=stage.node.pk, slot_index=3, reason="as it was", actor=OPERATOR)
    assert (slot.state, kept_from_work(stage)) == ("blocked", True)


def test_a_new_card_that_a_stranger_has_is_not_offered_when_it_is_approved(stage: Stage) -> None:
    api = operator_caller()
    card = ["card", str(stage.folder), "--slot", "3", "--uuid", "GPU-new-card"]
    assert simhost(card) == 0
    looked_at(stage, api)
    body = {"slot_index": 3, "reason": "XID 79"}
    assert api.post("/api/v1/nodes/host-1/actions/replace-card", body).status_code < 300
    looked_at(stage, api)
    assert simhost(["stray", str(stage.folder), "--slots", "3"]) == 0
    stage.rounds()
    assert api.post("/api/v1/nodes/host-1/actions/approve-card", body).status_code == 200
    assert kept_from_work(stage)


def test_a_stranger_is_told_apart_from_one_whose_name_is_a_part_of_another_word() -> None:
    """A machine called 'a' of which the host says nothing, beside one of which it does."""
    vms = tuple(ObservedVm(None, name, VmState.RUNNING, ()) for name in ("a", "stray-0"))
    report = ObservedReport("boot-1", 1, 0, vms, ObservedDevices(), ())
    told = [{"code": "unknown_vm", "detail": "machine stray-0 was not asked for", "device": None}]
    strangers_add(Node(), report, told, set())
    assert [one["detail"] for one in told] == [
        "machine stray-0 was not asked for",
        "a is not ours",
    ]
