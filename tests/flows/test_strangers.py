"""Does a machine that nobody asked for block what it touches, and nothing else?"""

from __future__ import annotations

import pytest

from nodeagent.simhost.__main__ import main as simhost
from nodeagent.simhost.state import StateStore
from placement.models import Allocation, Slot
from tests.api.client import Caller, operator_caller
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
