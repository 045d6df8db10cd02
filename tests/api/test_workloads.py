"""How does a tenant run, change and stop a workload over the API?"""

from __future__ import annotations

from typing import Any

import pytest

from admission.models import AdmissionRequest, Workload
from tests.api.client import Caller, caller_of
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db
JOB: dict[str, Any] = {"kind": "job", "name": "train", "sku": "h100.slice", "slots": 2}
NEW = "/projects/default/workloads"


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host()


@pytest.fixture
def caller(acme: TenantWorld, host: Host) -> Caller:
    return caller_of(acme)


def test_a_job_of_two_replicas_is_placed_whole(caller: Caller) -> None:
    made = caller.post(NEW, {**JOB, "replicas": 2})
    assert made.status_code == 202
    shown = made.json()["workload"]
    assert (shown["state"], len(shown["allocations"])) == ("admitted", 2)
    path = f"/workloads/{shown['id']}"
    assert caller.get(path).json()["requests"] == [made.json()["request"]]
    assert caller.get(f"{path}/explain").json()["verdict"] == "admit"
    assert [w["id"] for w in caller.get("/workloads?kind=job").json()["items"]] == [shown["id"]]
    assert [w["id"] for w in caller.get(f"{NEW}?kind=job").json()["items"]] == [shown["id"]]
    assert caller.get(f"{NEW}?kind=service&kind=model").json()["items"] == []
    assert caller.get("/projects/nobodys/workloads").status_code == 404


def test_what_never_fits_is_refused_and_what_may_wait_waits(caller: Caller) -> None:
    refused = caller.post(NEW, {**JOB, "slots": 8, "replicas": 2})
    assert (refused.status_code, refused.json()["code"]) == (409, "sku_unavailable")
    assert not Workload.objects.exists()
    waiting = caller.post(NEW, {**JOB, "slots": 8, "replicas": 2, "wait": True})
    assert waiting.json()["workload"]["state"] == "submitted"


def test_a_data_set_that_nobody_declared_is_named(caller: Caller) -> None:
    refused = caller.post(NEW, {**JOB, "datasets": ["faces"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "dataset_unknown")
    assert "faces" in refused.json()["detail"]


def test_it_is_scaled_changed_and_stopped(caller: Caller) -> None:
    path = f"/workloads/{caller.post(NEW, JOB).json()['workload']['id']}"
    grown = caller.post(f"{path}/actions/scale", {"replicas": 3}).json()["workload"]
    assert (grown["replicas"], len(grown["allocations"])) == (3, 3)
    sized = caller.post(f"{path}/actions/batch-size", {"batch_size": 16}).json()["workload"]
    assert sized["batch_size"] == 16
    shared = caller.post(f"{path}/actions/sharing", {"mode": "none"})
    assert shared.json()["workload"]["spec"]["sharing"] == "none"
    fewer = caller.post(f"{path}/actions/scale", {"replicas": 1}).json()["workload"]
    assert fewer["replicas"] == 1
    late = caller.post(f"{path}/actions/stop", {"reason": "done"}, HTTP_IF_MATCH='"1"')
    assert (late.status_code, late.json()["code"]) == (412, "stale_resource_version")
    stopped = caller.post(f"{path}/actions/stop", {"reason": "done"})
    assert stopped.json()["state"] in ("stopping", "ended")
    late = caller.post(f"{path}/actions/scale", {"replicas": 2})
    assert (late.status_code, late.json()["code"]) == (409, "workload_state_refused")


def test_each_change_has_a_plan_that_decides_the_same_and_writes_nothing(caller: Caller) -> None:
    made = caller.post(NEW, {**JOB, "replicas": 2}).json()["workload"]
    path = f"/workloads/{made['id']}/actions"
    before = AdmissionRequest.objects.count()

    def plan(verb: str, **body: Any) -> Any:
        answer = caller.post(f"{path}/{verb}/plan", body)
        assert answer.status_code == 200, answer.content
        return answer.json()

    grown = plan("scale", replicas=3)
    assert (grown["fits"], grown["takes"], grown["before"], grown["after"]) == (
        True,
        1,
        {"replicas": 2},
        {"replicas": 3},
    )
    assert grown["workload_hour_after_micro"] > grown["workload_hour_before_micro"]
    assert [gate["gate"] for gate in grown["decision"]["gates"]][-1] == "capacity"
    fewer = plan("scale", replicas=1)
    assert (fewer["takes"], len(fewer["releases"]), fewer["released_after"]) == (0, 1, False)
    assert fewer["envelope"]["after"] < fewer["envelope"]["before"]
    moved = plan("placement", zones=["nowhere"])
    assert (moved["fits"], moved["decision"]["verdict"]) == (False, "deny")
    assert len(moved["releases"]) == 2
    assert plan("batch-size", batch_size=16)["after"] == {"batch_size": 16}
    assert plan("sharing", mode="shared")["decision"]["code"] == "sharing_not_eligible"
    best = plan("priority", band=0)["decision"]
    refused = caller.post(f"{path}/priority", {"band": 0}).json()
    assert best["code"] == refused["code"]
    assert AdmissionRequest.objects.count() == before + 1


@pytest.mark.parametrize("amount", [-1, 0, 2**63, 1.5, "1e3", True])
@pytest.mark.parametrize("field", ["replicas", "slots", "batch_size"])
def test_a_size_at_the_edge_is_refused_with_its_field(
    caller: Caller, field: str, amount: Any
) -> None:
    answer = caller.post(NEW, {**JOB, field: amount})
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == [f"/{field}"]
    assert not Workload.objects.exists()


@pytest.mark.parametrize("spec", [[], "x", 3, {"model": {"note": "x" * 17_000}}])
def test_a_specification_is_an_object_of_bounded_size(caller: Caller, spec: object) -> None:
    refused = caller.post(NEW, {**JOB, "spec": spec})
    assert refused.status_code == 400
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/spec"]
    assert not Workload.objects.exists()


def test_a_plan_says_what_all_replicas_cost_and_changes_nothing(caller: Caller) -> None:
    plan = caller.post(f"{NEW}/plan", {**JOB, "replicas": 3})
    single = caller.post(f"{NEW}/plan", JOB).json()
    shown = plan.json()
    assert (plan.status_code, shown["fits"]) == (200, True)
    assert shown["price_hour_micro"] == 3 * single["price_hour_micro"]
    assert shown["envelope"]["after"] - shown["envelope"]["before"] == 6000
    wide = caller.post(f"{NEW}/plan", {**JOB, "slots": 4, "replicas": 3}).json()
    assert (wide["fits"], wide["decision"]["code"]) == (False, "sku_unavailable")
    assert wide["decision"]["outcome"] == "no_capacity"
    assert wide["decision"]["gates"][-1]["facts"]["replicas_fitting"] == 2
    assert not Workload.objects.exists()
    assert caller.get("/admission-requests").json()["items"] == []


def test_requests_are_told_apart_by_how_they_stand(caller: Caller) -> None:
    made = caller.post(NEW, JOB).json()["workload"]
    caller.post(NEW, {**JOB, "slots": 8})
    caller.post(NEW, {**JOB, "slots": 8, "wait": True})
    caller.post(NEW, {**JOB, "sku": "h100.slice", "slots": 4, "replicas": 40})

    def standing(query: str) -> list[str]:
        items = caller.get(f"/admission-requests?{query}").json()["items"]
        return sorted(f"{item['state']} {item['outcome']}" for item in items)

    assert standing("outcome=admitted") == ["admitted admitted"]
    assert standing("outcome=no_capacity") == ["denied no_capacity", "queued no_capacity"]
    assert standing("outcome=denied") == ["denied denied"]
    assert standing("outcome=waiting_for_authority") == []
    assert standing(f"workload={made['id']}") == ["admitted admitted"]
    assert len(standing("action=job.submit")) == 4
    assert caller.get("/admission-requests?outcome=maybe").status_code == 400
    explained = caller.get(f"/workloads/{made['id']}/explain").json()
    assert (explained["action"], explained["outcome"]) == ("job.submit", "admitted")


def test_a_word_that_is_not_offered_is_refused_with_those_that_are(caller: Caller) -> None:
    body = {"kind": "jobb", "name": "x", "sku": "h100.slice"}
    refused = caller.post(NEW, body)
    (wrong,) = refused.json()["errors"]
    assert (wrong["pointer"], wrong["detail"]) == (
        "/kind",
        '"jobb" is not one of job, service, model.',
    )
