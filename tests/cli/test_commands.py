"""Does each command ask the API the right thing, and show the answer to a person?"""

import json

import pytest

from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, Call, FakeServer, Reply, listing, pages, problem

KEY = "0190b6f0-0000-7000-8000-000000000001"
OTHER = "0190b6f0-0000-7000-8000-000000000002"
DECISION = {
    "verdict": "deny",
    "gates": [
        {"gate": "tenant_active", "passed": True, "code": "", "detail": "", "facts": {}},
        {
            "gate": "envelope",
            "passed": False,
            "code": "envelope_exceeded",
            "detail": "2 more than is left",
            "facts": {"limit_milli": 8000, "used_milli": 6000, "asked_milli": 4000},
        },
    ],
    "winner": None,
    "runner_up": None,
    "why": "the envelope is full",
    "unblock": "release 2 slots",
}


def test_explain_shows_the_gates_in_order_with_their_numbers(run: Run, server: FakeServer) -> None:
    server.on("GET", f"/allocations/{KEY}/explain", DECISION)
    for command in (("allocation", "explain", KEY), ("explain", f"allocation/{KEY}")):
        lines = run(*command).stdout.splitlines()
        assert lines[0] == "Decision  deny"
        assert lines[1].split() == ["1.", "tenant_active", "pass"]
        assert lines[2].split()[:4] == ["2.", "envelope", "FAIL", "envelope_exceeded"]
        assert "limit 8, used 6, asked 4" in lines[3]
        assert lines[-1] == "What would help  release 2 slots"


def test_explain_knows_requests_and_operations(run: Run, server: FakeServer) -> None:
    server.on("GET", f"/admission-requests/{KEY}/explain", DECISION)
    operation = {"id": "op-1", "kind": "k", "state": "running", "done": False, "progress": {}}
    server.on("GET", "/operations/op-1", operation)
    assert "envelope_exceeded" in run("explain", f"request/{KEY}").stdout
    assert "running" in run("explain", "operation/op-1").stdout
    assert run("explain", "node/n1").exit_code == 2


def test_an_allocation_is_described_with_four_states_and_their_ages(
    run: Run, server: FakeServer
) -> None:
    allocation = {
        "id": KEY,
        "name": "train-1",
        "state": "active",
        "states": {
            "desired": {"value": "active", "as_of": "2026-11-27T12:00:00Z", "age_s": 3},
            "observed": {"value": "running", "as_of": "2026-11-27T12:00:00Z", "age_s": 95},
            "executing": {"value": None, "as_of": None, "age_s": None},
            "projected": {"value": "active", "as_of": "2026-11-27T12:00:00Z", "age_s": 4000},
        },
    }
    server.on("GET", f"/allocations/{KEY}", allocation)
    lines = [line.split() for line in run("allocation", "describe", KEY).stdout.splitlines()]
    assert ["Observed", "running", "(1m35s", "old)"] in lines
    assert ["Executing", "unknown"] in lines
    assert ["Projected", "active", "(1h6m", "old)"] in lines


def test_a_name_finds_the_live_allocation(run: Run, server: FakeServer) -> None:
    rows = [
        {"id": OTHER, "name": "train", "state": "released"},
        {"id": KEY, "name": "train", "state": "active"},
    ]
    server.on("GET", "/allocations", pages(rows, size=1))
    server.on("GET", f"/allocations/{KEY}", rows[1])
    assert KEY in run("allocation", "describe", "train").stdout


def test_two_live_ones_of_one_name_must_be_told_apart(run: Run, server: FakeServer) -> None:
    rows = [
        {"id": OTHER, "name": "train", "state": "active"},
        {"id": KEY, "name": "train", "state": "active"},
    ]
    server.on("GET", "/allocations", listing(*rows))
    result = run("allocation", "describe", "train")
    assert result.exit_code == 2
    assert KEY in result.stderr
    assert OTHER in result.stderr


def test_create_sends_what_was_given_and_finds_keys_by_name(run: Run, server: FakeServer) -> None:
    server.on("GET", "/ssh-keys", listing({"id": "k-1", "name": "laptop"}))
    server.on(
        "POST",
        "/projects/research/allocations",
        Reply(202, {"id": "op-1", "kind": "k", "state": "pending", "done": False}),
    )
    run(
        "allocation", "create", "--sku", "h100-slice", "--slots", "2", "--name", "train",
        "--image", "ubuntu-24.04", "--ssh-key", "laptop", "--ssh-key", KEY, "--queue",
    )  # fmt: skip
    assert server.sent("POST", "/projects/research/allocations")[0].body == {
        "sku": "h100-slice",
        "slots": 2,
        "name": "train",
        "image": "ubuntu-24.04",
        "ssh_keys": ["k-1", KEY],
        "wait": True,
    }


def test_which_project_must_be_said_when_there_are_several(run: Run, server: FakeServer) -> None:
    server.on("GET", "/projects", listing({"id": "1", "slug": "a"}, {"id": "2", "slug": "b"}))
    result = run("allocation", "create", "--sku", "x")
    assert result.exit_code == 2
    assert "known: a, b" in result.stderr


def test_a_plan_shows_the_price_and_the_envelope(run: Run, server: FakeServer) -> None:
    plan = {
        "fits": True,
        "node_hint": None,
        "price_hour_micro": 4_980_000,
        "price_month_micro": 3_585_600_000,
        "envelope": {"before": 2000, "after": 4000, "limit": 8000},
    }
    server.on("POST", "/projects/research/allocations/plan", plan)
    for command in (("plan",), ("create", "--dry-run")):
        shown = run("allocation", *command, "--sku", "h100-slice", "--slots", "2").stdout
        assert "4.98 an hour" in shown
        assert "3585.60 a month" in shown
        assert "2 used before, 4 after, of 8" in shown
    assert server.sent("POST", "/projects/research/allocations") == []


def test_release_asks_once_and_shows_the_end(run: Run, server: FakeServer) -> None:
    operation = {
        "id": "op-2",
        "kind": "allocation.release",
        "target": {"kind": "allocation", "id": KEY},
        "state": "running",
        "done": False,
        "progress": {},
    }
    server.on("POST", f"/allocations/{KEY}/actions/release", Reply(202, operation))
    server.on("GET", "/operations/op-2", {**operation, "state": "succeeded", "done": True})
    server.on("GET", f"/allocations/{KEY}", {"id": KEY, "state": "released", "outcome": "ended"})
    result = run("allocation", "release", KEY, "--yes", "--reason", "done", "--wait")
    assert result.exit_code == 0
    assert server.sent("POST", f"/allocations/{KEY}/actions/release")[0].body == {"reason": "done"}
    assert "released" in result.stdout


def test_the_timeline_shows_each_change_with_its_actor(run: Run, server: FakeServer) -> None:
    server.on(
        "GET",
        f"/allocations/{KEY}/timeline",
        listing(
            {
                "at": "2026-11-27T12:00:00Z",
                "kind": "placement.allocation.activate",
                "actor": {"kind": "node", "name": "n1"},
                "before": {"state": "provisioning"},
                "after": {"state": "active"},
                "reason": "",
                "facts": {},
            }
        ),
    )
    row = run("allocation", "timeline", KEY, "--no-headers").stdout
    assert row.split()[:6] == [
        "2026-11-27", "12:00:00", "placement.allocation.activate", "provisioning", "→", "active",
    ]  # fmt: skip
    assert "n1" in row


@pytest.mark.parametrize("action", ["drain", "undrain", "approve", "quarantine", "restore"])
def test_a_node_action_carries_its_reason(run: Run, server: FakeServer, action: str) -> None:
    server.on("POST", f"/nodes/n1/actions/{action}", {"name": "n1", "state": "ready"})
    assert run("node", action, "n1", "--reason", "fan swap").exit_code == 0
    assert server.sent("POST", f"/nodes/n1/actions/{action}")[0].body == {"reason": "fan swap"}


def test_a_join_token_is_the_only_thing_on_standard_output(run: Run, server: FakeServer) -> None:
    made = {"token": "gpuaas_join_once", "expires_at": "2026-11-27T12:00:00Z"}
    server.on("POST", "/nodes/n1/join-tokens", Reply(201, made))
    result = run("node", "join-token", "n1")
    assert result.stdout == "gpuaas_join_once\n"
    assert "2026-11-27 12:00:00" in result.stderr


@pytest.mark.parametrize("action", ["approve", "reject", "suspend", "resume"])
def test_a_tenant_action_carries_its_reason(run: Run, server: FakeServer, action: str) -> None:
    server.on("POST", f"/tenants/acme/actions/{action}", {"id": "t-1", "state": "x"})
    consent = ["--yes"] if action == "suspend" else []
    assert run("tenant", action, "acme", "--reason", "because", *consent).exit_code == 0
    assert server.sent("POST", f"/tenants/acme/actions/{action}")[0].body == {"reason": "because"}


def test_a_new_token_goes_to_a_private_file_when_asked(
    run: Run, server: FakeServer, tmp_path: object
) -> None:
    server.on("POST", "/tokens", Reply(201, {"id": "k-2", "name": "ci", "token": TOKEN}))
    kept = f"{tmp_path}/ci.token"
    result = run("token", "create", "ci", "--scope", "allocations:read", "--out-file", kept)
    assert result.exit_code == 0
    assert TOKEN not in result.output
    with open(kept, encoding="utf-8") as file:
        assert file.read() == TOKEN + "\n"
    assert run("token", "create", "ci", "--out-file", kept).exit_code == 2
    assert len(server.sent("POST", "/tokens")) == 1


def test_a_private_key_is_never_sent(run: Run, server: FakeServer) -> None:
    text = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    assert run("ssh-key", "add", "laptop", "-", stdin=text).exit_code == 2
    assert server.sent("POST", "/ssh-keys") == []


def test_a_public_key_comes_from_standard_input(run: Run, server: FakeServer) -> None:
    server.on("POST", "/ssh-keys", Reply(201, {"id": "k-1", "name": "laptop"}))
    run("ssh-key", "add", "laptop", "-", stdin="ssh-ed25519 AAAA me\n")
    assert server.sent("POST", "/ssh-keys")[0].body == {
        "name": "laptop",
        "public_key": "ssh-ed25519 AAAA me",
    }


def test_deleting_by_name_finds_the_id(run: Run, server: FakeServer) -> None:
    server.on("GET", "/ssh-keys", listing({"id": "k-1", "name": "laptop"}))
    server.on("DELETE", "/ssh-keys/k-1", Reply(204))
    assert run("ssh-key", "delete", "laptop", "--yes").exit_code == 0


def test_watching_events_goes_on_from_the_last_sequence(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    def feed(call: Call) -> Reply:
        after = int(call.query.get("after", 0))
        if after == 2 and not naps:
            return listing()
        return listing(*({"seq": n, "kind": f"k{n}"} for n in (after + 1, after + 2)))

    server.on("GET", "/events", feed)
    result = run("events", "-w", "--limit", "4", "-o", "json")
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == [1, 2, 3, 4]
    assert len(naps) >= 1


def test_events_can_be_narrowed_to_one_subject(run: Run, server: FakeServer) -> None:
    server.on(
        "GET",
        "/events",
        listing(
            {"seq": 1, "kind": "a", "subject": {"kind": "allocation", "id": KEY}},
            {"seq": 2, "kind": "b", "subject": {"kind": "allocation", "id": OTHER}},
        ),
    )
    rows = run("events", "--for", f"allocation/{OTHER}", "--no-headers").stdout.splitlines()
    assert len(rows) == 1
    assert rows[0].startswith("2")


def test_a_raw_call_sends_a_body_and_prints_the_answer(run: Run, server: FakeServer) -> None:
    def echo(call: Call) -> Reply:
        return Reply(200, {"body": call.body, "query": call.query, "if": call.headers["if-match"]})

    server.on("PATCH", "/allocations/a", echo)
    result = run(
        "api", "patch", "/allocations/a", "-f", "name=x", "-f", "slots=2", "--query", "a=b",
        "-H", 'If-Match: "7"',
    )  # fmt: skip
    assert json.loads(result.stdout) == {
        "body": {"name": "x", "slots": 2},
        "query": {"a": "b"},
        "if": '"7"',
    }


def test_a_raw_body_comes_from_standard_input(run: Run, server: FakeServer) -> None:
    server.on("POST", "/x", lambda call: Reply(200, {"got": call.body}))
    result = run("api", "POST", "/x", "--data-file", "-", stdin='{"a": [1]}')
    assert json.loads(result.stdout) == {"got": {"a": [1]}}
    assert run("api", "POST", "/x", "--data-file", "-", stdin="{").exit_code == 2


def test_a_raw_listing_can_be_read_whole(run: Run, server: FakeServer) -> None:
    server.on("GET", "/skus", pages([{"name": str(n)} for n in range(5)], size=2))
    assert len(json.loads(run("api", "GET", "/skus", "--all").stdout)) == 5


def test_a_path_cannot_climb_out_of_its_place(run: Run, server: FakeServer) -> None:
    assert run("operation", "describe", "../tokens").exit_code == 2
    run("sku", "describe", "sku/a/../../tokens")
    assert all(call.path != "/api/v1/tokens" for call in server.calls)


def test_the_doctor_finds_nothing_wrong(run: Run, server: FakeServer) -> None:
    result = run("doctor", "-o", "json")
    checks = {check["name"]: check["result"] for check in json.loads(result.stdout)}
    assert result.exit_code == 0
    assert checks == {
        "context file": "ok",
        "server": "ok",
        "clock": "ok",
        "encryption": "ok",
        "token": "ok",
        "scopes": "ok",
        "project": "ok",
        "client": "ok",
    }


def test_the_doctor_names_a_bad_token_and_a_wrong_clock(run: Run, server: FakeServer) -> None:
    result = run("doctor", GPUAAS_TOKEN="gpuaas_pat_wrong")
    assert result.exit_code == 4
    assert "fail" in result.stdout
    late = Reply(200, {"name": "Ada"}, {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"})
    server.on("GET", "/me", late)
    checks = json.loads(run("doctor", "-o", "json").stdout)
    assert [c["result"] for c in checks if c["name"] == "clock"] == ["warn"]


def test_a_wrong_field_is_named(run: Run, server: FakeServer) -> None:
    refusal = problem(
        400,
        "invalid_request",
        "some fields are wrong",
        errors=[{"pointer": "/slots", "code": "max_value", "detail": "at most 16"}],
        docs="/docs/reasons/invalid_request",
    )
    server.on("POST", "/projects/research/allocations", refusal)
    result = run("allocation", "create", "--sku", "x", "--slots", "99")
    assert result.exit_code == 2
    assert "/slots: at most 16" in result.stderr
    assert f"{server.url}/docs/reasons/invalid_request" in result.stderr


def test_fragmentation_is_listed_in_short_and_described_with_what_would_help(
    run: Run, server: FakeServer
) -> None:
    account = {
        "sku": "h100.slice",
        "idle": 6,
        "open": 5,
        "largest_fit": 3,
        "fits": [{"size": 4, "now": 0, "ideal": 1}],
        "stranded": [{"cause": "draining", "slots": 1, "help": "End the drain."}],
        "free_by_host": [{"free": 3, "hosts": 1}],
    }
    server.on("GET", "/fragmentation", {"items": [account], "parts": []})
    listed = run("fragmentation", "list").stdout
    assert "4:0/1" in listed
    assert "draining 1" in listed
    told = run("fragmentation", "describe", "h100.slice").stdout
    assert "4 slots: 0 now, 1 if gathered" in told
    assert "1 slots: draining. End the drain." in told


def test_parts_of_gpus_are_listed_and_described_with_what_strands_them(
    run: Run, server: FakeServer
) -> None:
    account = {
        "sku": "h100.3g",
        "part": "3g.40gb",
        "cut_slots": 2,
        "idle_milli": 1875,
        "open_milli": 1500,
        "parts_now": 3,
        "largest_fit": "7g.80gb",
        "fits": [{"part": "3g.40gb", "now": 3, "ideal": 3}],
        "stranded": [{"cause": "free_milli", "milli": 375, "help": "Sell a smaller part."}],
    }
    server.on("GET", "/fragmentation", {"items": [], "parts": [account]})
    listed = run("fragmentation", "parts").stdout
    assert "7g.80gb" in listed
    assert "free_milli 375" in listed
    told = run("fragmentation", "describe", "h100.3g").stdout
    assert "3g.40gb: 3 now, 3 at most if gathered" in told
    assert "0.375 GPUs: free_milli. Sell a smaller part." in told


def test_a_plan_of_moves_is_shown_with_its_hosts_before_and_after(
    run: Run, server: FakeServer
) -> None:
    move = {
        "workload": "web",
        "tenant": "acme",
        "source_node": "host-1",
        "leaves": [0, 1],
        "target": "host-2",
        "takes": [2, 3],
        "lost_milli": 500,
    }
    plan = {
        "sku": "h100.slice",
        "detail": "1 moves make room on host-1.",
        "moves": [move],
        "pictures": [{"host": "host-1", "before": ["leaving", "free"], "after": ["free", "free"]}],
        "enabled": False,
        "pool": "default",
        "digest": "abc",
    }
    server.on("POST", "/defrag/plan", plan)
    told = run("defrag", "plan", "h100.slice", "--slots", "8", "--gpu-hours", "1.5").stdout
    assert "web of acme: host-1 slots 0,1 to host-2 slots 2,3, 0.5 GPU-hours lost" in told
    assert "host-1  <. to .." in told
    assert "--seen abc" in told
    sent = server.sent("POST", "/defrag/plan")[0].body
    assert sent == {"sku": "h100.slice", "slots": 8, "lost_milli": 1500}


def test_who_is_kept_apart_is_sent_as_given(run: Run, server: FakeServer) -> None:
    path = "/separations/rivals"
    server.on("PUT", path, {"name": "rivals", "digest": "d1", "tenants": []})
    server.on("DELETE", path, Reply(204))
    options = ("--tenant", "acme", "--tenant", "globex", "--reason", "why")
    assert "d1" in run("separation", "set", "rivals", *options, "--dry-run").stdout
    assert run("separation", "set", "rivals", *options, "--seen", "d1").exit_code == 0
    dry, real = server.sent("PUT", path)
    assert (dry.query, real.query) == ({"dry_run": "server"}, {})
    assert dry.body == {"tenants": ["acme", "globex"], "reason": "why"}
    assert real.body == {**dry.body, "seen": "d1"}
    assert run("separation", "remove", "rivals", "--reason", "over").exit_code == 0
    assert server.sent("DELETE", path)[0].query == {"reason": "over"}
    assert run("separation", "set", "rivals", "--reason", "why").exit_code == 2


def test_terms_and_weights_are_sent_as_given(run: Run, server: FakeServer) -> None:
    path = "/placement-terms/sku/h100.slice"
    server.on("POST", f"{path}/actions/preview", {"digest": "d1", "running": 2})
    server.on("PUT", path, {"about": "sku:h100.slice", "version": 1})
    server.on("POST", "/scoring", {"number": 2})
    options = ("--alone", "wiring", "--driver-min", "550")
    assert "d1" in run("placement-terms", "preview", "sku", "h100.slice", *options).stdout
    done = run(
        "placement-terms", "set", "sku", "h100.slice", "--seen", "d1", "--reason", "why", *options
    )
    assert done.exit_code == 0
    sent = server.sent("PUT", path)[0].body
    assert (sent["alone"], sent["driver_min"], sent["seen"]) == ("wiring", "550", "d1")
    weights = ("--gap", "1", "--fragment", "2", "--stranded", "3", "--broken", "4")
    assert run("scoring", "set", "--reason", "a trial", *weights).exit_code == 0
    assert server.sent("POST", "/scoring")[0].body["broken"] == 4
