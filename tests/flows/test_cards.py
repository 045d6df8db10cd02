"""Is each way in which a host becomes another found out over HTTP, with its declared outcome?

The hardware file of a simulated host is changed as a hand in the rack would change the host; its
real agent discovers it; what the control plane says is read from the API.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from nodeagent.simhost.__main__ import main as simhost
from nodeagent.simhost.agent import TOKEN_FILE
from nodeagent.simhost.hardware import HardwareConfig, create_host, read_config, read_hardware
from placement.models import Allocation, Node, Slot
from placement.services import agents, nodes
from placement.services.differences import boots_sweep
from tests.api.client import Caller, operator_caller
from tests.builders import OPERATOR
from tests.flows.test_fault_menu import SLICE, Stage, stage
from tests.topologies import topology_file

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(stage: Stage) -> Caller:
    """An operator at the API."""
    return operator_caller()


def hand(stage: Stage, *arguments: str) -> None:
    """Somebody does something to the host."""
    command, *rest = arguments
    assert simhost([command, str(stage.folder), *rest]) == 0


def looked_at(stage: Stage, api: Caller, node: str = "host-1") -> dict[str, Any]:
    """A discovery, and who the host says it is since."""
    task = api.post(f"/api/v1/nodes/{node}/actions/discover", {}).json()
    done = f"/api/v1/nodes/{node}/tasks"
    assert stage.until(
        lambda: any(
            one["id"] == task["id"] and one["state"] == "succeeded"
            for one in api.get(done).json()["items"]
        )
    )
    found: dict[str, Any] = api.get(f"/api/v1/nodes/{node}/identity").json()
    return found


def told(seen: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    """Each difference: its name, its slot, and what follows."""
    return sorted((d["code"], d["slot_index"], d["outcome"]) for d in seen["differences"])


def slot(index: int) -> tuple[str, str]:
    """A slot's state and GPU."""
    row = Slot.objects.exclude(state="retired").get(node__name="host-1", index=index)
    return row.state, row.gpu_uuid


def fingerprint() -> list[str]:
    """Everything that was approved of the slots."""
    rows = Slot.objects.filter(node__name="host-1", approved_at__isnull=False)
    fields = ("index", "gpu_uuid", "devices", "device_uids", "cpuset")
    return sorted(repr(row) for row in rows.values_list(*fields))


def test_a_swapped_card_is_shown_and_goes_on_only_when_its_replacement_is_approved(
    stage: Stage, api: Caller
) -> None:
    before, old = fingerprint(), slot(3)[1]
    hand(stage, "card", "--slot", "3", "--uuid", "GPU-new-card")
    seen = looked_at(stage, api)
    assert told(seen) == [("card_added", None, "offer"), ("card_swapped", 3, "block")]
    assert {d["discovered"]["gpu_uuid"] for d in seen["differences"]} == {"GPU-new-card"}
    # No silent change: what was approved is as it was, and is not sold.
    assert (fingerprint(), slot(3)) == (before, ("blocked", old))
    assert stage.fresh().free_count == 7
    where = "/api/v1/nodes/host-1/actions"
    body = {"slot_index": 3, "reason": "XID 79"}
    early = api.post(f"{where}/approve-card", body)
    assert early.status_code == 404
    assert api.post(f"{where}/replace-card", body).status_code in (200, 201)
    looked_at(stage, api)
    done = api.post(f"{where}/approve-card", body)
    assert done.status_code == 200, done.content
    assert slot(3) == ("approved", "GPU-new-card")
    assert stage.fresh().free_count == 8
    assert told(looked_at(stage, api)) == []
    # The next tenant gets the new card, and the host agrees about which it is.
    stage.acme.order("h100.slice", slots=8)
    assert stage.until(lambda: stage.state() == "active")
    given = Allocation.objects.get().claims.values_list("slot__gpu_uuid", flat=True)
    assert "GPU-new-card" in given
    assert stage.nothing_wrong()


def test_a_new_address_is_noted_and_the_slot_goes_on(stage: Stage, api: Caller) -> None:
    before = fingerprint()
    hand(stage, "card", "--slot", "3", "--at", "0000:77:00.0")
    assert told(looked_at(stage, api)) == [("address_changed", 3, "note")]
    assert (fingerprint(), slot(3)[0], stage.fresh().free_count) == (before, "approved", 8)
    stage.acme.order("h100.slice", slots=8)
    assert stage.until(lambda: stage.state() == "active")


def test_a_card_that_vanishes_blocks_its_slot_alone_and_the_others_work_as_approved(
    stage: Stage, api: Caller
) -> None:
    before = fingerprint()
    hand(stage, "card", "--slot", "3", "--gone")
    assert told(looked_at(stage, api)) == [("card_vanished", 3, "block")]
    assert (fingerprint(), stage.fresh().free_count) == (before, 7)
    # The host takes a machine with the CPUs that were approved, though it divides otherwise now.
    stage.acme.order("h100.slice", slots=7)
    assert stage.until(lambda: stage.state() == "active")
    hand(stage, "card", "--slot", "3", "--back")
    assert {code for code, _, _ in told(looked_at(stage, api))} == {"difference_gone"}
    # It was away for a reason: somebody looks before it is sold again.
    body = {"slot_index": 3, "reason": "reseated"}
    assert api.post("/api/v1/nodes/host-1/actions/accept", body).status_code == 200
    assert (stage.fresh().free_count, fingerprint()) == (1, before)
    assert stage.nothing_wrong()


def test_a_card_that_cannot_say_who_it_is_blocks_its_slot_and_is_not_accepted(
    stage: Stage, api: Caller
) -> None:
    hand(stage, "card", "--slot", "3", "--uuid", "")
    assert told(looked_at(stage, api)) == [("uuid_unknown", 3, "block")]
    body = {"slot_index": 3, "reason": "it looks the same"}
    assert api.post("/api/v1/nodes/host-1/actions/accept", body).status_code == 409
    assert slot(3)[0] == "blocked"


def test_two_cards_of_one_uuid_are_both_not_believed(stage: Stage, api: Caller) -> None:
    twin = slot(5)[1]
    hand(stage, "card", "--slot", "3", "--uuid", twin)
    seen = told(looked_at(stage, api))
    assert ("duplicate_uuid", 5, "block") in seen
    assert {index for _, index, outcome in seen if outcome == "block"} == {3, 5}
    assert stage.fresh().free_count == 6
    assert stage.nothing_wrong()


def test_a_host_that_is_a_copy_of_another_gives_nothing(
    stage: Stage, api: Caller, tmp_path: Path
) -> None:
    before = fingerprint()
    folder = tmp_path / "host-2"
    create_host(folder, HardwareConfig("host-2"), topology_file("azure-ndv5-topo.xml"))
    same = read_hardware(stage.folder, read_config(stage.folder))
    for gpu in same.gpus:
        assert (
            simhost(["card", str(folder), "--slot", str(gpu.index), "--uuid", str(gpu.uuid)]) == 0
        )
    node = nodes.node_create(name="host-2", actor=OPERATOR)
    (folder / TOKEN_FILE).write_text(agents.join_token_create(node_id=node.pk, actor=OPERATOR)[1])
    other = Stage(stage.url, folder, node, stage.acme, stage.globex, stage.clock)
    assert other.until(lambda: Node.objects.get(pk=node.pk).state == "verifying")
    seen = told(api.get("/api/v1/nodes/host-2/identity").json())
    assert ("host_cloned", None, "block") in seen
    assert {code for code, _, _ in seen} == {"host_cloned", "card_elsewhere"}
    assert not Slot.objects.filter(node=node).exists()
    assert (fingerprint(), stage.fresh().free_count) == (before, 8)
    assert stage.nothing_wrong()


def test_a_copy_with_the_originals_key_is_refused_by_its_message_numbers(
    stage: Stage, tmp_path: Path
) -> None:
    """Somebody copies the disk of a host that goes on: the two share a credential, not a count."""
    copy = tmp_path / "copy"
    shutil.copytree(stage.folder, copy)
    stage.rounds(5)
    seen_at = stage.fresh().observed_seq
    other = Stage(stage.url, copy, stage.node, stage.acme, stage.globex, stage.clock)
    other.rounds(1)
    assert stage.fresh().observed_seq <= seen_at + 1
    assert stage.fresh().state == "ready"
    stage.lease(SLICE[0])
    assert stage.nothing_wrong()


def test_a_new_name_is_noted_and_the_inventorys_name_stays(stage: Stage, api: Caller) -> None:
    hand(stage, "rename", "--to", "gpu-17-new")
    seen = looked_at(stage, api)
    assert told(seen) == [("host_renamed", None, "note")]
    assert (seen["hostname"], stage.fresh().name) == ("gpu-17-new", "host-1")
    assert stage.fresh().free_count == 8


def test_a_new_boot_is_looked_at_anew_and_noted(stage: Stage, api: Caller) -> None:
    looked_at(stage, api)
    hand(stage, "reboot")
    stage.rounds()
    boots_sweep()
    stage.rounds()
    seen = api.get("/api/v1/nodes/host-1/identity").json()
    assert told(seen) == [("new_boot", None, "note")]
    assert stage.fresh().free_count == 8
    assert stage.nothing_wrong()
