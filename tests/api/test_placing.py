"""Can operators plan moves, set terms and weights over REST, each looked at before it is made?"""

from __future__ import annotations

import pytest

from placement.models import Defragmentation, Node, PlacementTerms
from tenants.models import SlaTier
from tests.admission.test_workloads import run_it
from tests.api.client import operator_caller
from tests.builders import a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_plan_is_looked_at_and_run_by_its_digest() -> None:
    a_catalogue()
    SlaTier.objects.update(protected_run_s=0)
    acme, hosts = a_tenant("acme"), [a_host("host-1"), a_host("host-2")]
    Node.objects.filter(name="host-2").update(schedulable=False)
    run_it(acme, slots=4, movable=True)
    Node.objects.update(schedulable=True)
    acme.order(slots=4, own="apart")
    for host in hosts:
        host.work()
    operator = operator_caller()
    (policy,) = operator.get("/defrag/policies").json()["items"]
    assert (policy["pool"], policy["enabled"], policy["version"]) == ("default", False, 0)
    plan = operator.post("/defrag/plan", {"sku": "h100.slice"}).json()
    assert (plan["possible"], plan["enabled"], len(plan["moves"])) == (True, False, 1)
    assert plan["moves"][0]["source_node"] == "host-1"
    body = {"sku": "h100.slice", "seen": plan["digest"], "reason": "room"}
    refused = operator.post("/defrag/runs", body)
    assert (refused.status_code, refused.json()["code"]) == (409, "defrag_off")
    allowed = operator.call(
        "PUT", "/api/v1/defrag/policies/default", {"enabled": True, "reason": "nights are quiet"}
    )
    assert allowed.json()["version"] == 1
    stale = operator.post("/defrag/runs", {**body, "seen": "another"})
    assert stale.json()["code"] == "defrag_plan_stale"
    begun = operator.post("/defrag/runs", body)
    assert (begun.status_code, begun.json()["kind"]) == (202, "placement.defragment")
    assert Defragmentation.objects.get().reason == "room"


def test_terms_are_set_only_as_they_were_previewed_and_their_history_is_kept() -> None:
    a_catalogue()
    a_host("host-1")
    a_tenant("acme").order(slots=1)
    operator = operator_caller()
    path = "/placement-terms/sku/h100.slice"
    assert operator.get(path).json()["version"] == 0
    terms = {"alone": "wiring", "driver_min": "550"}
    shown = operator.post(f"{path}/actions/preview", terms).json()
    assert shown["unrealisable"] == ["h100.slice"]
    assert (shown["nodes_ruled_out"], shown["running"]) == (1, 1)
    assert {c["term"]: c["after"] for c in shown["changes"]} == {
        "alone": "wiring",
        "driver_min": "550",
    }
    kept = {**terms, "reason": "sold as isolated"}
    wrong = operator.call("PUT", f"/api/v1{path}", {**kept, "seen": "another"})
    assert wrong.json()["code"] == "preview_stale"
    done = operator.call("PUT", f"/api/v1{path}", {**kept, "seen": shown["digest"]}).json()
    assert (done["version"], done["alone"], done["reason"]) == (1, "wiring", "sold as isolated")
    assert done["versions"][0]["after"]["driver_min"] == [550]
    assert PlacementTerms.objects.get().driver_min == [550]
    (listed,) = operator.get("/placement-terms").json()["items"]
    assert listed["set_by"]["name"].startswith("operator@platform.test")
    assert operator.get("/placement-terms/sku/none").status_code == 400


def test_weights_are_listed_from_the_products_own_on() -> None:
    operator = operator_caller()
    (own,) = operator.get("/scoring").json()["items"]
    assert (own["number"], own["gap"], own["set_by"]) == (0, 10000, None)
    weights = {"gap": 1, "fragment": 2, "stranded": 3, "broken": 4, "reason": "a trial"}
    assert operator.post("/scoring", weights).status_code == 201
    now, *_ = operator.get("/scoring").json()["items"]
    assert (now["number"], now["broken"], now["reason"]) == (1, 4, "a trial")
