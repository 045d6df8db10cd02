"""Do the commands about blocked capacity ask for what they say?"""

from __future__ import annotations

from tests.cli.conftest import Run
from tests.cli.fake_server import FakeServer, Reply, listing

SLOT = "0190c0de-0000-7000-8000-000000000003"
LEASE = "0190c0de-0000-7000-8000-000000000004"
RULE = "Another operator than the one who asked has to approve it."


def test_a_slot_is_named_by_its_node_and_index(run: Run, server: FakeServer) -> None:
    server.on(
        "GET", "/nodes/host-1/slots", listing({"id": "x", "index": 2}, {"id": SLOT, "index": 3})
    )
    path = f"/slots/{SLOT}/actions/override"
    server.on("POST", path, Reply(202, {"items": [], "approval": RULE}))
    done = run("slot", "override", "host-1", "3", "--reason", "swapped")
    assert done.exit_code == 0
    assert RULE in done.stdout + done.stderr
    assert server.sent("POST", path)[0].body == {"reason": "swapped"}


def test_a_slot_that_is_not_there_is_named_with_the_way_out(run: Run, server: FakeServer) -> None:
    server.on("GET", "/nodes/host-1/slots", listing())
    done = run("slot", "approve-override", "host-1", "3", "--reason", "seen")
    assert done.exit_code == 2
    assert "host-1 has no slot 3" in done.stderr
    assert "gpuaas node topology host-1" in done.stderr


def test_an_allocations_override_is_asked_for_and_approved(run: Run, server: FakeServer) -> None:
    for action, verb in (("override", "ask"), ("approve-override", "approve")):
        path = f"/allocations/{LEASE}/actions/{action}"
        server.on("POST", path, Reply(200, {"items": [], "approval": RULE}))
        assert run("override", verb, LEASE, "--reason", "scrapped").exit_code == 0
        assert server.sent("POST", path)[0].body == {"reason": "scrapped"}
