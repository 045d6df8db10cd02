"""What do operators see of hosts over the API, and can they run the fleet with it?"""

from __future__ import annotations

import pytest

from gpuaas.kernel import clock
from placement.audits.claims import claims
from placement.models import JoinToken, Node
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import a_catalogue, a_host, a_parts_catalogue, a_report, a_tenant

pytestmark = pytest.mark.django_db
LEFT = "01900000-0000-7000-8000-000000000001"


@pytest.fixture
def operator() -> Caller:
    a_catalogue()
    return operator_caller()


def test_a_host_is_named_and_invited_once(operator: Caller) -> None:
    made = operator.post("/nodes", {"name": "gpu-01", "rack": "r1"})
    assert (made.status_code, made.json()["state"]) == (201, "enrolling")
    invited = operator.post("/nodes/gpu-01/join-tokens", {"ttl_s": 600})
    assert invited.status_code == 201
    token = invited.json()["token"]
    assert bytes(JoinToken.objects.get().digest) not in token.encode()
    assert operator.post("/nodes", {"name": "gpu-01"}).status_code == 409
    assert operator.post("/nodes", {"name": "no spaces"}).status_code == 400


def test_a_host_is_shown_with_posture_states_and_slots(operator: Caller) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=2))
    shown = operator.get("/nodes/host-1").json()
    assert shown == operator.get(f"/nodes/{host.node.pk}").json() | {"states": shown["states"]}
    assert (shown["posture"], shown["slots_free"]) == ("partially_allocated", 6)
    assert set(shown["states"]) == {"desired", "observed", "executing", "projected"}
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    assert [slot["display_state"] for slot in slots].count("reserved") == 2
    assert {slot["claim"]["tenant"]["name"] for slot in slots if slot["claim"]} == {"acme"}
    assert slots[0]["switch"] is None
    (task,) = operator.get("/nodes/host-1/tasks").json()["items"]
    assert (task["kind"], task["state"]) == ("slice.vm_provision", "pending")


def test_a_host_that_was_not_discovered_shows_nothing_as_known(operator: Caller) -> None:
    operator.post("/nodes", {"name": "gpu-01"})
    topology = operator.get("/nodes/gpu-01/topology").json()
    assert (topology["known"], topology["gpus"]) == (False, [])


def test_a_discovered_hosts_wiring_keeps_what_is_unknown_as_null(operator: Caller) -> None:
    host = a_host()
    report = a_report("host-1").to_json()
    Node.objects.filter(pk=host.node.pk).update(topology=report, topology_at=clock.now())
    topology = operator.get("/nodes/host-1/topology").json()
    assert topology["known"] is True
    assert len(topology["gpus"]) == 8
    assert topology["gpus"][0]["switch"] is None


def test_a_drain_keeps_what_runs_and_ends(operator: Caller) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=2))
    host.work()
    drained = operator.post("/nodes/host-1/actions/drain", {"reason": "firmware"})
    assert drained.json()["posture"] == "draining"
    assert drained.json()["drains"][0]["reason"] == "firmware"
    refused = acme.post("/projects/default/allocations", order_body())
    assert refused.json()["code"] == "sku_unavailable"
    assert acme.get("/allocations?state=active").json()["items"]
    ended = operator.post("/nodes/host-1/actions/undrain", {"reason": "done"})
    assert ended.json()["posture"] == "partially_allocated"


@pytest.mark.parametrize(
    "verb", ["drain", "quarantine", "maintain", "retire", "revoke-credentials"]
)
def test_an_action_without_a_reason_changes_nothing(operator: Caller, verb: str) -> None:
    a_host()
    before = Node.objects.values().get()
    answer = operator.post(f"/nodes/host-1/actions/{verb}", {})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/reason"
    assert Node.objects.values().get() == before


def test_a_host_is_set_apart_and_brought_back(operator: Caller) -> None:
    a_host()
    apart = operator.post("/nodes/host-1/actions/quarantine", {"reason": "XID 79"})
    assert (apart.json()["state"], apart.json()["posture"]) == ("quarantined", "unavailable")
    back = operator.post("/nodes/host-1/actions/restore", {"reason": "replaced"})
    assert back.json()["state"] == "ready"


def test_a_discovery_is_a_task(operator: Caller) -> None:
    a_host()
    answer = operator.post("/nodes/host-1/actions/discover")
    assert (answer.status_code, answer.json()["kind"]) == (202, "slice.topology_discover")


def test_residue_is_told_for_its_slot_and_overridden_by_two_people(operator: Caller) -> None:
    host = a_host()
    host.report(residue={3: LEFT})
    node = operator.get("/nodes/host-1").json()
    assert (node["slots_free"], node["schedulable"]) == (7, True)
    (block,) = node["blocks"]
    assert (block["slot_index"], block["code"], block["allocation"]) == (3, "residue_found", LEFT)
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    assert [s["index"] for s in slots if s["blocks"]] == [3]
    assert (slots[3]["display_state"], slots[4]["display_state"]) == ("cleanup_blocked", "free")
    path = f"/slots/{slots[3]['id']}/actions"
    assert operator.post(f"{path}/override", {}).status_code == 400
    nobody = operator.post(f"{path}/approve-override", {"reason": "seen it"})
    assert nobody.status_code == 404
    other = operator_caller("second@platform.test")
    asked = operator.post(f"{path}/override", {"reason": "the GPU was swapped"})
    assert asked.status_code == 202
    assert asked.json()["approval"] == "Another operator than the one who asked has to approve it."
    shown = operator.get("/nodes/host-1/slots").json()["items"][3]["blocks"][0]
    assert shown["asked_by"]["name"] == asked.json()["items"][0]["asked_by"]["name"]
    own = operator.post(f"{path}/approve-override", {"reason": "me again"})
    assert (own.status_code, own.json()["code"]) == (403, "second_person_needed")
    done = other.post(f"{path}/approve-override", {"reason": "seen it"})
    assert done.json()["items"][0]["slot"] == slots[3]["id"]
    assert operator.get("/nodes/host-1").json()["slots_free"] == 8
    calm = operator.post(f"{path}/override", {"reason": "again"})
    assert (calm.status_code, calm.json()["code"]) == (409, "not_blocked")


def test_one_operator_alone_is_told_that_both_steps_are_theirs(operator: Caller) -> None:
    a_host().report(residue={3: LEFT})
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    path = f"/slots/{slots[3]['id']}/actions"
    asked = operator.post(f"{path}/override", {"reason": "the GPU was swapped"})
    assert "only operator" in asked.json()["approval"]
    done = operator.post(f"{path}/approve-override", {"reason": "nobody else is there"})
    assert done.status_code == 200


def test_a_slot_of_a_blocked_allocation_is_overridden_alone(operator: Caller) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=2))
    host.work()
    (item,) = acme.get("/allocations?state=active").json()["items"]
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    for index, left in ((0, "cleanup_blocked"), (1, "released")):
        path = f"/slots/{slots[index]['id']}/actions"
        operator.post(f"{path}/override", {"reason": "the GPU was swapped"})
        assert operator.post(f"{path}/approve-override", {"reason": "ok"}).status_code == 200
        assert acme.get(f"/allocations/{item['id']}").json()["state"] == left
        assert operator.get("/nodes/host-1").json()["slots_free"] == 7 + index
    assert claims() == []


def test_an_allocations_override_is_not_approved_while_some_of_its_slots_are_not_asked_for(
    operator: Caller,
) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=2))
    host.work()
    (item,) = acme.get("/allocations?state=active").json()["items"]
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    operator.post(f"/slots/{slots[0]['id']}/actions/override", {"reason": "the GPU was swapped"})
    approve = f"/allocations/{item['id']}/actions/approve-override"
    refused = operator.post(approve, {"reason": "ok"})
    assert (refused.status_code, refused.json()["code"]) == (409, "override_incomplete")
    assert refused.json()["facts"]["unasked"] == 1
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "cleanup_blocked"


def test_a_host_without_discovered_slots_has_nothing_to_approve(operator: Caller) -> None:
    a_host()
    refused = operator.post("/nodes/host-1/actions/approve", {"reason": "again"})
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_approve")


def test_a_retry_cleans_only_what_was_not_overridden(operator: Caller) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", order_body(slots=2))
    host.work()
    (item,) = acme.get("/allocations?state=active").json()["items"]
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    path = f"/slots/{slots[0]['id']}/actions"
    operator.post(f"{path}/override", {"reason": "the GPU was swapped"})
    operator.post(f"{path}/approve-override", {"reason": "ok"})
    retry = f"/allocations/{item['id']}/actions/retry-cleanup"
    assert operator.post(retry, {"reason": "repaired"}).status_code == 202
    (task,) = host.lease()
    assert [slot["slot_index"] for slot in task.params["slots"]] == [1]
    again = operator.post(retry, {"reason": "at once"})
    assert (again.status_code, again.json()["code"]) == (409, "operation_in_progress")
    host.complete(task)
    host.work()
    assert acme.get(f"/allocations/{item['id']}").json()["state"] == "released"


def test_a_slot_held_with_its_whole_node_is_not_overridden_alone(operator: Caller) -> None:
    host = a_host()
    acme = caller_of(a_tenant("acme"))
    acme.post("/projects/default/allocations", {"sku": "h100.node"})
    host.work()
    (item,) = acme.get("/allocations?state=active").json()["items"]
    acme.post(f"/allocations/{item['id']}/actions/release")
    host.work(skip=("gpu_scrubbed",))
    slots = operator.get("/nodes/host-1/slots").json()["items"]
    path = f"/slots/{slots[0]['id']}/actions/override"
    refused = operator.post(path, {"reason": "the GPU was swapped"})
    assert (refused.status_code, refused.json()["code"]) == (409, "held_with_its_node")
    assert refused.json()["facts"]["allocation"] == item["id"]


def test_hosts_page_by_name_with_a_fixed_number_of_queries(
    operator: Caller, django_assert_max_num_queries: object
) -> None:
    for number in range(5):
        a_host(f"host-{number}")
    with django_assert_max_num_queries(12):  # type: ignore[operator]  # pytest-django's fixture
        body = operator.get("/nodes?limit=3").json()
    assert [item["name"] for item in body["items"]] == ["host-0", "host-1", "host-2"]
    rest = operator.get(f"/nodes?limit=3&cursor={body['next']}").json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["host-3", "host-4"], "")


def test_allocations_page_with_a_fixed_number_of_queries(
    operator: Caller, django_assert_max_num_queries: object
) -> None:
    a_host()
    acme = caller_of(a_tenant("acme"))
    for _ in range(5):
        acme.post("/projects/default/allocations", order_body())
    for path in ("/allocations", "/operations", "/admission-requests"):
        with django_assert_max_num_queries(14):  # type: ignore[operator]  # pytest-django's
            assert len(acme.get(path).json()["items"]) == 5


def test_a_slot_is_cut_and_shows_its_parts(operator: Caller) -> None:
    a_parts_catalogue()
    a_host(parts=("mig",))
    cut = {"slot_index": 2, "cut": "mig", "reason": "small jobs"}
    assert operator.post("/nodes/host-1/actions/cut", {**cut, "cut": "half"}).status_code == 400
    refused = operator.post("/nodes/host-1/actions/cut", {**cut, "cut": "share"})
    assert (refused.status_code, refused.json()["code"]) == (409, "part_unsupported")
    done = operator.post("/nodes/host-1/actions/cut", cut)
    assert (done.status_code, done.json()["slots_free"]) == (200, 7)
    assert done.json()["part_kinds"] == ["mig"]
    acme = caller_of(a_tenant("acme"))
    offers = {offer["sku"]: offer for offer in acme.get("/offers").json()["items"]}
    assert (offers["h100.1g"]["part_profile"], offers["h100.1g"]["available_now"]) == ("1g.10gb", 7)
    assert (offers["h100.third"]["reason"], offers["h100.third"]["part_milli"]) == (
        "never_fits",
        300,
    )
    placed = acme.post(
        "/projects/default/allocations", {"sku": "h100.1g", "name": "small", "ssh_keys": []}
    )
    assert placed.status_code == 202
    slot = operator.get("/nodes/host-1/slots").json()["items"][2]
    assert (slot["cut"], slot["free_milli"], slot["claim"]) == ("mig", 875, None)
    [part] = slot["parts"]
    assert (part["part"], part["spans"]) == ("1g.10gb@6:1", [[750, 875]])
    assert part["tenant"]["name"] == "acme"
    busy = operator.post("/nodes/host-1/actions/cut", {**cut, "cut": "whole"})
    assert (busy.status_code, busy.json()["code"]) == (409, "slot_in_use")


def test_an_sku_that_is_a_part_says_which(operator: Caller) -> None:
    body = {
        "name": "half",
        "title": "Half",
        "shape": "mig",
        "family": "h100x8",
        "resource_class": "h100-slot",
        "hour_micro": 1,
    }
    missing = operator.post("/skus", body)
    assert missing.status_code == 400
    assert [e["pointer"] for e in missing.json()["errors"]] == ["/part_profile"]
    several = operator.post("/skus", {**body, "part_profile": "3g.40gb", "slots_max": 2})
    assert [e["pointer"] for e in several.json()["errors"]] == ["/slots_max"]
    made = operator.post("/skus", {**body, "part_profile": "3g.40gb"})
    assert (made.status_code, made.json()["isolation"]) == (201, "mig")
    wrong = operator.post("/skus", {**body, "name": "slice", "shape": "gpu_slice", "part_milli": 5})
    assert [e["pointer"] for e in wrong.json()["errors"]] == ["/part_milli"]
