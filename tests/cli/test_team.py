"""Do the commands about people, entitlements, data and levels ask what they say?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuaas.cli.exits import Exit
from tests.cli.conftest import Run
from tests.cli.fake_server import FakeServer, Reply, listing

KEY = "0190c0de-0000-7000-8000-000000000001"
WHY = ("--reason", "agreed")


def test_a_member_is_found_by_address(run: Run, server: FakeServer) -> None:
    server.on("GET", "/members", listing({"id": KEY, "email": "ada@example.org", "role": "admin"}))
    server.on("PUT", f"/members/{KEY}/role", {"id": KEY, "email": "ada@example.org"})
    server.on("DELETE", f"/members/{KEY}", Reply(204, None))
    assert run("member", "role", "Ada@example.org", "--role", "viewer").exit_code == 0
    assert server.sent("PUT", f"/members/{KEY}/role")[0].body == {"role": "viewer"}
    assert run("member", "remove", "ada@example.org", "--yes").exit_code == 0
    assert len(server.sent("DELETE", f"/members/{KEY}")) == 1
    assert run("member", "describe", "bob@example.org").exit_code == Exit.NOT_FOUND


def test_a_sku_is_granted_and_taken_away(run: Run, server: FakeServer) -> None:
    answer = {"catalogue": "listed", "items": []}
    grant = "/tenants/acme/entitlements"
    server.on("POST", grant, Reply(201, answer))
    server.on("POST", f"{grant}/h100/actions/revoke", answer)
    server.on("PUT", "/tenants/acme/catalogue", answer)
    until = "2027-01-01T00:00:00Z"
    run("entitlement", "grant", "acme", "h100", *WHY, "--until", until)
    assert server.sent("POST", grant)[0].body == {"sku": "h100", "until": until, "reason": "agreed"}
    assert run("entitlement", "revoke", "acme", "h100", *WHY).exit_code == 0
    run("entitlement", "catalogue", "acme", "listed", *WHY)
    sent = server.sent("PUT", "/tenants/acme/catalogue")[0].body
    assert sent == {"catalogue": "listed", "reason": "agreed"}


def test_the_end_of_a_tenant_is_asked_for_and_followed(run: Run, server: FakeServer) -> None:
    shown = {"tenant": {"slug": "acme", "state": "deleting"}, "held_count": 2, "held": []}
    server.on("GET", "/tenant/deletion", shown)
    server.on("POST", "/tenant/deletion", Reply(202, shown))
    assert run("deletion", "request", *WHY, "--yes").exit_code == 0
    assert server.sent("POST", "/tenant/deletion")[0].body == {"reason": "agreed"}
    status = run("deletion", "status", "-o", "json")
    assert json.loads(status.stdout)["held_count"] == 2


def test_a_project_that_holds_something_says_what(run: Run, server: FakeServer) -> None:
    problem = {
        "status": 409,
        "code": "project_not_empty",
        "title": "The project still holds capacity",
        "detail": "research holds 1000 milli-units.",
        "facts": {"held": [{"id": KEY, "name": "train-1", "state": "active"}]},
    }
    server.on("DELETE", "/projects/research", Reply(409, problem))
    refused = run("project", "delete", "research", "--yes")
    assert refused.exit_code != 0
    assert "project_not_empty" in refused.stderr
    assert "train-1" in refused.stderr


def test_data_is_declared_where_it_lies(run: Run, server: FakeServer) -> None:
    server.on("POST", "/datasets", Reply(201, {"name": "imagenet", "version": 1}))
    run("dataset", "declare", "imagenet", "--zone", "z1", "--zone", "z2", "--preferred")
    assert server.sent("POST", "/datasets")[0].body == {
        "name": "imagenet",
        "zones": ["z1", "z2"],
        "racks": [],
        "nodes": [],
        "storage": [],
        "required": False,
    }


def test_caps_are_changed_in_the_version_that_was_read(run: Run, server: FakeServer) -> None:
    server.on("GET", "/tenants/acme/caps", {"version": 3})
    server.on("PATCH", "/tenants/acme/caps", {"version": 4})
    run("caps", "set", "acme", "--cap", "waiting=4", "--cap", 'zones=["z1"]', *WHY)
    (sent,) = server.sent("PATCH", "/tenants/acme/caps")
    assert sent.body == {"waiting": 4, "zones": ["z1"], "reason": "agreed"}
    assert sent.headers["if-match"] == '"3"'


@pytest.mark.parametrize("term", ["", "=1", "priority_band"])
def test_a_term_without_a_name_or_value_never_leaves_the_client(
    run: Run, server: FakeServer, term: str
) -> None:
    assert run("tier-terms", "preview", "gold", "--term", term).exit_code == 2
    assert server.sent("POST", "/tiers/gold/actions/preview") == []


def test_terms_are_previewed_and_changed_as_seen(run: Run, server: FakeServer) -> None:
    server.on("POST", "/tiers/gold/actions/preview", {"digest": "abc", "tenants": []})
    server.on("POST", "/tiers/gold/actions/change", {"name": "gold", "version": 2})
    terms = ("--term", "priority_band=20", "--term", "isolation=node")
    assert "abc" in run("tier-terms", "preview", "gold", *terms).stdout
    run("tier-terms", "change", "gold", *terms, "--seen", "abc", *WHY)
    body = server.sent("POST", "/tiers/gold/actions/change")[0].body
    assert body["terms"] == {"priority_band": 20, "isolation": "node"}


def test_a_burst_and_an_envelope_are_given_in_units(run: Run, server: FakeServer) -> None:
    server.on("POST", "/tenants/acme/bursts", Reply(201, {"id": KEY}))
    server.on("POST", "/tenants/acme/envelopes/h100/versions", Reply(201, {"id": KEY}))
    window = ("--opens", "2027-01-01T20:00:00Z", "--closes", "2027-01-02T06:00:00Z")
    words = ("--class", "h100", *WHY)
    run("burst", "create", "acme", "--name", "night", "--extra", "8.5", *window, *words)
    assert server.sent("POST", "/tenants/acme/bursts")[0].body["extra_milli"] == 8500
    start = ("--from", "2027-01-01T00:00:00Z")
    run("envelope", "schedule", "acme", "--nominal", "64", "--borrow", "8", *start, *words)
    sent = server.sent("POST", "/tenants/acme/envelopes/h100/versions")[0].body
    assert (sent["nominal_milli"], sent["borrow_milli"]) == (64_000, 8000)
    assert "lend_milli" not in sent


@pytest.mark.parametrize(
    ("words", "verb", "body"),
    [
        (("batch-size", KEY, "32"), "batch-size", {"batch_size": 32}),
        (("sharing", KEY, "mig"), "sharing", {"mode": "mig"}),
        (("priority", KEY, "20"), "priority", {"band": 20}),
        (
            ("move", KEY, "--zone", "z2", "--dataset", "imagenet"),
            "placement",
            {"zones": ["z2"], "datasets": ["imagenet"], "wait": False},
        ),
    ],
)
def test_every_verb_of_a_workload_is_sent(
    run: Run, server: FakeServer, words: tuple[str, ...], verb: str, body: dict[str, Any]
) -> None:
    path = f"/workloads/{KEY}/actions/{verb}"
    ticket = {"workload": {"id": KEY, "name": "train"}, "request": KEY, "operation": None}
    server.on("POST", path, Reply(202, ticket))
    assert run("workload", *words).exit_code == 0
    assert server.sent("POST", path)[0].body == body


def test_a_dry_run_of_a_workload_submits_nothing(
    run: Run, server: FakeServer, tmp_path: Path
) -> None:
    plan = "/projects/research/workloads/plan"
    server.on("POST", plan, {"fits": True, "price_hour_micro": 6_000_000, "currency": "USD"})
    spec = tmp_path / "spec.json"
    spec.write_text('{"model": {"layers": 32}}', encoding="utf-8")
    words = ("--kind", "model", "--sku", "h100", "--spec", str(spec), "-p", "research")
    shown = run("workload", "submit", "chat", *words, "--dry-run")
    assert "6" in shown.stdout
    assert server.sent("POST", plan)[0].body["spec"] == {"model": {"layers": 32}}
    assert server.sent("POST", "/projects/research/workloads") == []
    spec.write_text("[1]", encoding="utf-8")
    assert run("workload", "submit", "chat", *words).exit_code == 2


def test_a_dry_run_of_a_change_asks_for_its_plan_and_changes_nothing(
    run: Run, server: FakeServer
) -> None:
    path = f"/workloads/{KEY}/actions/placement"
    told = {
        "fits": True,
        "currency": "USD",
        "before": {"zones": []},
        "after": {"zones": ["z2"]},
        "takes": 2,
        "releases": [{"id": KEY, "name": "train-1"}],
        "released_after": True,
        "waiting": 1,
        "workload_hour_before_micro": 4_000_000,
        "workload_hour_after_micro": 4_000_000,
    }
    server.on("POST", f"{path}/plan", told)
    shown = run("workload", "move", KEY, "--zone", "z2", "--dry-run")
    assert shown.exit_code == 0
    assert "train-1, once the new ones run" in shown.stdout
    assert "- -> z2" in shown.stdout
    assert server.sent("POST", path) == []


def test_requests_are_listed_by_how_they_stand(run: Run, server: FakeServer) -> None:
    server.on("GET", "/admission-requests", listing())
    run("request", "list", "--outcome", "no_capacity", "--action", "job.submit")
    asked = server.sent("GET", "/admission-requests")[0].query
    assert (asked["outcome"], asked["action"]) == ("no_capacity", "job.submit")


def test_a_workload_is_explained_by_its_reference(run: Run, server: FakeServer) -> None:
    told = {"verdict": "wait", "outcome": "waiting_for_authority", "code": "envelope_exceeded"}
    server.on("GET", f"/workloads/{KEY}/explain", {**told, "gates": []})
    shown = run("explain", f"workload/{KEY}").stdout
    assert "waiting for authority" in shown


def test_a_workload_is_explained_by_its_name_and_several_of_a_name_are_listed(
    run: Run, server: FakeServer
) -> None:
    compared = [{"rank": "chosen", "words": "3 members on 2 nodes, within one rack"}]
    told = {"verdict": "admit", "code": "", "gates": [], "compared": compared}
    mine = [{"id": KEY, "name": "train", "state": "admitted"}, {"id": "x", "name": "other"}]
    server.on("GET", "/workloads", {"items": mine, "next": ""})
    server.on("GET", f"/workloads/{KEY}/explain", told)
    shown = run("explain", "workload/train").stdout
    assert "Winner  3 members on 2 nodes, within one rack" in shown
    twice = [{**one, "name": "train"} for one in mine]
    server.on("GET", "/workloads", {"items": twice, "next": ""})
    refused = run("explain", "workload/train")
    assert refused.exit_code == 2
    assert f"several workloads are named 'train': {KEY}, x" in refused.stderr
