"""How does a tenant see its quota, ask for more, and say where its data lies?"""

from __future__ import annotations

from typing import Any

import pytest

from tenants.models import DataSet, Envelope, ProjectQuota, QuotaIncrease
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import TenantWorld, a_catalogue, a_host, a_member, a_tenant

pytestmark = pytest.mark.django_db
WISH = {"resource_class": "h100-slot", "nominal_asked_milli": 96_000, "justification": "a new run"}
EDGES: list[Any] = [-1, 2**63, 1.5, "1e3", "12", True, None]


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def operator(acme: TenantWorld) -> Caller:
    return operator_caller()


def test_the_quota_says_what_is_held_and_what_is_left(acme: TenantWorld) -> None:
    a_host()
    caller = caller_of(acme)
    caller.post("/projects/default/allocations", order_body(slots=3))
    (shown,) = caller.get("/quota").json()["items"]
    limit = shown["limit_milli"]
    assert (shown["resource_class"], shown["used_milli"]) == ("h100-slot", 3000)
    assert shown["free_milli"] == limit - 3000
    assert (shown["borrowed_milli"], shown["lent_milli"]) == (0, 0)


def test_a_project_sees_its_own_limit(acme: TenantWorld) -> None:
    caller = caller_of(acme)
    limit = {"limit_milli": 2000, "reason": "a share"}
    answer = caller.call("PUT", "/projects/default/quotas/h100-slot", limit)
    assert (answer.status_code, answer.json()["limit_milli"]) == (200, 2000)
    (shown,) = caller.get("/quota?project=default").json()["items"]
    assert (shown["project_limit_milli"], shown["free_milli"]) == (2000, 2000)
    assert caller.get("/quota?project=nothing").status_code == 404


def test_a_wish_is_asked_listed_and_withdrawn(acme: TenantWorld) -> None:
    caller = caller_of(acme)
    made = caller.post("/quota-increases", WISH)
    assert (made.status_code, made.json()["state"]) == (201, "asked")
    assert "deliverable_milli" not in made.json()
    again = caller.post("/quota-increases", WISH)
    assert (again.status_code, again.json()["code"]) == (409, "increase_open_already")
    path = f"/quota-increases/{made.json()['id']}"
    assert caller.get(path).json()["justification"] == "a new run"
    assert len(caller.get("/quota-increases?state=asked").json()["items"]) == 1
    gone = caller.post(f"{path}/actions/withdraw", {})
    assert (gone.status_code, gone.json()["state"]) == (200, "withdrawn")


def test_an_operator_grants_beside_what_can_be_delivered(
    acme: TenantWorld, operator: Caller
) -> None:
    a_host()
    made = caller_of(acme).post("/quota-increases", WISH).json()
    (seen,) = operator.get("/quota-increases").json()["items"]
    assert (seen["deliverable_milli"], seen["overcommitted"]) == (8000, True)
    grant = {"reason": "agreed", "nominal_granted_milli": 70_000}
    done = operator.post(f"/quota-increases/{made['id']}/actions/approve", grant)
    assert (done.status_code, done.json()["nominal_granted_milli"]) == (200, 70_000)
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 70_000
    late = caller_of(acme).post(f"/quota-increases/{made['id']}/actions/withdraw", {})
    assert (late.status_code, late.json()["code"]) == (409, "transition_refused")


def test_a_refusal_is_read_by_the_tenant(acme: TenantWorld, operator: Caller) -> None:
    made = caller_of(acme).post("/quota-increases", WISH).json()
    path = f"/quota-increases/{made['id']}"
    assert operator.post(f"{path}/actions/refuse", {}).status_code == 400
    operator.post(f"{path}/actions/refuse", {"reason": "the fleet is full"})
    seen = caller_of(acme).get(path).json()
    assert (seen["state"], seen["decision_reason"]) == ("refused", "the fleet is full")


@pytest.mark.parametrize("amount", [*EDGES, 0])
def test_an_amount_at_the_edge_is_refused_with_its_field(acme: TenantWorld, amount: Any) -> None:
    answer = caller_of(acme).post("/quota-increases", {**WISH, "nominal_asked_milli": amount})
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/nominal_asked_milli"]
    assert not QuotaIncrease.objects.exists()


def test_not_a_number_is_no_json(acme: TenantWorld) -> None:
    raw = b'{"resource_class":"h100-slot","nominal_asked_milli":NaN,"justification":"x"}'
    answer = caller_of(acme).post("/quota-increases", raw)
    assert answer.status_code == 400
    assert not QuotaIncrease.objects.exists()


@pytest.mark.parametrize("amount", [edge for edge in EDGES if edge is not None])
def test_a_projects_limit_is_a_whole_amount_or_none(acme: TenantWorld, amount: Any) -> None:
    path = "/projects/default/quotas/h100-slot"
    answer = caller_of(acme).call("PUT", path, {"limit_milli": amount, "reason": "x"})
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == ["/limit_milli"]
    assert not ProjectQuota.objects.exclude(limit_milli=None).exists()


def test_data_lies_where_it_was_declared_until_it_is_retired(acme: TenantWorld) -> None:
    caller = caller_of(acme)
    wish = {"name": "corpus", "zones": ["z1"], "required": False}
    assert caller.post("/datasets", wish).json()["version"] == 1
    assert caller.post("/datasets", {**wish, "zones": ["z2"]}).json()["version"] == 2
    (shown,) = caller.get("/datasets").json()["items"]
    assert (shown["zones"], shown["required"]) == (["z2"], False)
    assert caller.post("/datasets", {"name": "nowhere"}).status_code == 400
    assert caller.call("DELETE", "/datasets/corpus").status_code == 204
    assert caller.get("/datasets").json()["items"] == []
    assert caller.call("DELETE", "/datasets/corpus").status_code == 404
    assert DataSet.objects.count() == 2


def test_roles_read_and_only_those_that_manage_ask(acme: TenantWorld) -> None:
    for role, status in (("admin", 201), ("member", 403), ("viewer", 403), ("billing", 403)):
        caller = caller_of(acme, a_member(acme, role))
        assert caller.get("/quota").status_code == 200
        assert caller.get("/caps").status_code == 200
        assert caller.post("/quota-increases", WISH).status_code == status
    assert QuotaIncrease.objects.count() == 1


def test_a_data_set_moves_in_versions_and_keeps_them(acme: TenantWorld) -> None:
    caller = caller_of(acme)
    caller.post("/datasets", {"name": "imagenet", "zones": ["z1"]})
    moved = caller.post("/datasets/imagenet/versions", {"zones": ["z2"], "required": False})
    assert (moved.status_code, moved.json()["version"]) == (201, 2)
    assert caller.get("/datasets/imagenet").json()["zones"] == ["z2"]
    assert caller.call("DELETE", "/datasets/imagenet").status_code == 204
    assert caller.get("/datasets/imagenet").status_code == 404
    kept = caller.get("/datasets/imagenet/versions").json()["items"]
    assert [(one["version"], one["zones"]) for one in kept] == [(2, ["z2"]), (1, ["z1"])]
    assert all(one["retired_at"] for one in kept)
    late = caller.post("/datasets/imagenet/versions", {"zones": ["z3"]})
    assert late.status_code == 404
    nowhere = caller.post("/datasets", {"name": "nowhere"})
    assert nowhere.json()["errors"][0]["pointer"] == "/zones"


def test_data_lies_only_in_storage_that_is_offered(acme: TenantWorld, operator: Caller) -> None:
    caller, data = caller_of(acme), {"name": "imagenet", "storage": ["pool-a"]}
    refused = caller.post("/datasets", data)
    assert refused.json()["errors"][0]["pointer"] == "/storage"
    offer = {"name": "pool-a", "kind": "nvme", "zones": ["z1"], "reason": "installed"}
    assert operator.post("/storage", offer).status_code == 201
    assert caller.post("/storage", offer).status_code == 403
    assert [one["name"] for one in caller.get("/storage").json()["items"]] == ["pool-a"]
    assert caller.post("/datasets", data).status_code == 201
    wrong = operator.post("/storage", {**offer, "kind": "NVMe drives"})
    assert wrong.json()["errors"][0]["pointer"] == "/kind"
    gone = operator.post("/storage/pool-a/actions/retire", {"reason": "sold"})
    assert gone.json()["items"] == []
    assert caller.post("/datasets", data).status_code == 400


def test_a_wish_leads_to_its_request_and_decision(acme: TenantWorld) -> None:
    owner = caller_of(acme)
    made = owner.post("/quota-increases", WISH).json()
    why = owner.get(f"/admission-requests/{made['request']}/explain").json()
    assert (why["action"], why["code"]) == ("quota.increase", "waiting_for_approval")
    assert [gate["gate"] for gate in why["gates"]][-1] == "approval"
    owner.post(f"/admission-requests/{made['request']}/actions/withdraw", {})
    assert owner.get(f"/quota-increases/{made['id']}").json()["state"] == "withdrawn"
