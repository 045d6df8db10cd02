"""Do the commands about quota, tiers, rules and workloads ask what they say?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.fake_server import FakeServer, Reply, listing

KEY = "0190c0de-0000-7000-8000-000000000001"


def test_quota_is_shown_in_units(run: Run, server: FakeServer) -> None:
    quota = {
        "resource_class": "h100-slot",
        "limit_milli": 8000,
        "used_milli": 9500,
        "free_milli": 500,
        "borrowed_milli": 1500,
        "lent_milli": 0,
    }
    server.on("GET", "/quota", listing(quota))
    row = run("quota", "show", "--no-headers").stdout.split()
    assert row == ["h100-slot", "8", "9.5", "0.5", "1.5", "0"]


def test_more_is_asked_for_in_thousandths(run: Run, server: FakeServer) -> None:
    server.on("POST", "/quota-increases", Reply(201, {"id": KEY, "state": "asked"}))
    words = ("--class", "h100-slot", "--units", "16.5", "--for", "a run")
    assert run("quota", "request", *words).exit_code == 0
    assert server.sent("POST", "/quota-increases")[0].body == {
        "resource_class": "h100-slot",
        "nominal_asked_milli": 16_500,
        "justification": "a run",
    }


@pytest.mark.parametrize("units", ["-1", "1e3", "NaN", "1.0001", "", ".5", "1.", str(2**63)])
def test_an_amount_at_the_edge_never_leaves_the_client(
    run: Run, server: FakeServer, units: str
) -> None:
    words = ("--class", "h100-slot", f"--units={units}", "--for", "a run")
    assert run("quota", "request", *words).exit_code == 2
    assert server.sent("POST", "/quota-increases") == []


def test_a_grant_carries_its_reason_and_amount(run: Run, server: FakeServer) -> None:
    path = f"/quota-increases/{KEY}/actions/approve"
    server.on("POST", path, {"id": KEY, "state": "approved"})
    run("quota", "approve", KEY, "--reason", "agreed", "--units", "8")
    assert server.sent("POST", path)[0].body == {
        "reason": "agreed",
        "nominal_granted_milli": 8000,
    }


def test_a_tier_is_given_with_the_digest_that_was_seen(run: Run, server: FakeServer) -> None:
    server.on("PUT", "/tenants/acme/tier", {"id": "t-1", "slug": "acme", "tier": "gold"})
    words = ("--seen", "abc", "--reason", "bought")
    assert run("tier", "assign", "acme", "gold", *words).exit_code == 0
    body = server.sent("PUT", "/tenants/acme/tier")[0].body
    assert body == {"tier": "gold", "seen": "abc", "reason": "bought"}


def test_a_rule_is_tried_out_and_switched_on(run: Run, server: FakeServer) -> None:
    for verb in ("dry-run", "activate"):
        server.on("POST", f"/policies/{KEY}/actions/{verb}", {"id": KEY, "state": "x"})
    assert run("policy", "dry-run", KEY, "--last", "10").exit_code == 0
    assert server.sent("POST", f"/policies/{KEY}/actions/dry-run")[0].body == {"last": 10}
    assert run("policy", "activate", KEY, "--reason", "agreed", "--yes").exit_code == 0


def test_a_rule_is_kept_from_a_file_looked_at_and_switched_off(
    run: Run, server: FakeServer, tmp_path: Path
) -> None:
    rule = {"name": "night", "expression": "true", "message": "Not now.", "tests": []}
    server.on("POST", "/policies", Reply(201, {"id": KEY, "state": "draft", **rule}))
    server.on("GET", f"/policies/{KEY}", {"id": KEY, "state": "draft"})
    server.on("POST", f"/policies/{KEY}/actions/retire", {"id": KEY, "state": "retired"})
    file = tmp_path / "rule.json"
    assert "cannot be read" in run("policy", "create", "--file", str(file)).stderr
    for odd in ("[]", "{"):
        file.write_text(odd)
        assert run("policy", "create", "--file", str(file)).exit_code == 2
    file.write_text(json.dumps(rule))
    assert run("policy", "create", "--file", str(file)).exit_code == 0
    assert server.sent("POST", "/policies")[0].body == rule
    assert "draft" in run("policy", "describe", KEY).stdout
    assert run("policy", "retire", KEY, "--reason", "over", "--yes").exit_code == 0


def test_a_bare_name_is_explained_whether_it_is_a_lease_or_a_workload(
    run: Run, server: FakeServer
) -> None:
    server.on("GET", "/allocations", listing())
    server.on("GET", "/workloads", listing({"id": KEY, "name": "train", "state": "admitted"}))
    server.on("GET", f"/workloads/{KEY}/explain", {"verdict": "admit", "gates": []})
    assert "admit" in run("explain", "train").stdout
    assert "no allocation or workload 'nothing'" in run("explain", "nothing").stderr


def test_a_moment_to_come_is_told_as_such(run: Run, server: FakeServer) -> None:
    window = {"id": KEY, "name": "night", "state": "open", "closes_at": "2999-01-01T00:00:00Z"}
    server.on("POST", "/tenants/acme/bursts", Reply(201, window))
    words = ("--opens", "2998-01-01", "--closes", "2999-01-01", "--reason", "x")
    told = run(
        "burst", "create", "acme", "--name", "night", "--class", "h100", "--extra", "1", *words
    )
    assert "(in " in told.stdout


def test_a_workload_is_submitted_scaled_and_stopped(run: Run, server: FakeServer) -> None:
    workload = {"id": KEY, "name": "train", "state": "admitted"}
    ticket = Reply(202, {"workload": workload, "request": KEY, "operation": None})
    server.on("POST", "/projects/research/workloads", ticket)
    server.on("GET", "/workloads", listing(workload))
    server.on("POST", f"/workloads/{KEY}/actions/scale", ticket)
    server.on("POST", f"/workloads/{KEY}/actions/stop", Reply(202, workload))
    words = ("--kind", "job", "--sku", "h100.slice", "--slots", "2", "-p", "research")
    assert run("workload", "submit", "train", *words).exit_code == 0
    sent = server.sent("POST", "/projects/research/workloads")[0].body
    assert (sent["slots"], sent["replicas"], sent["wait"]) == (2, 1, False)
    assert run("workload", "scale", "train", "--replicas", "3").exit_code == 0
    assert run("workload", "stop", "train", "--yes").exit_code == 0


def test_a_refused_workload_ends_with_the_code_of_its_reason(run: Run, server: FakeServer) -> None:
    problem = {"status": 403, "code": "envelope_exceeded", "title": "Too much", "detail": "8 of 4"}
    server.on("POST", "/projects/research/workloads", Reply(403, problem))
    result = run(
        "workload", "submit", "x", "--kind", "job", "--sku", "h100.slice", "-p", "research"
    )
    assert result.exit_code != 0
    assert "envelope_exceeded" in result.stderr
