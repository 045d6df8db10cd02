"""What do operators decide about envelopes, caps, cohorts, tiers and rules over the API?"""

from __future__ import annotations

from typing import Any

import pytest

from admission.models import PolicyRule
from tenants.models import Cohort, Envelope, EnvelopeVersion, SlaTier, TenantCaps
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant
from tests.security.world import RULE

pytestmark = pytest.mark.django_db
PATH = "/tenants/acme"
EDGES: list[Any] = [-1, 2**63, 1.5, "1e3", "12", True]


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def operator(acme: TenantWorld) -> Caller:
    return operator_caller()


def test_a_lowered_envelope_keeps_its_excess_apart(acme: TenantWorld, operator: Caller) -> None:
    a_host()
    caller_of(acme).post("/projects/default/allocations", order_body(slots=4))
    lowered = {"nominal_milli": 1000, "on_excess": "grandfather", "reason": "less"}
    answer = operator.call("PUT", f"{PATH}/envelopes/h100-slot", lowered)
    assert (answer.status_code, answer.json()["limit_milli"]) == (200, 1000)
    (shown,) = operator.get(f"{PATH}/quota").json()["items"]
    assert (shown["grandfathered_milli"], shown["free_milli"]) == (3000, 0)


def test_of_two_who_read_one_envelope_only_one_sets_the_next(
    acme: TenantWorld, operator: Caller
) -> None:
    path = f"{PATH}/envelopes/h100-slot"
    read = Envelope.objects.get(tenant=acme.tenant).version

    def put(nominal: int, tag: str) -> Any:
        body = {"nominal_milli": nominal, "reason": "more"}
        return operator.call("PUT", path, body, HTTP_IF_MATCH=tag)

    first = put(70_000, f'"{read}"')
    assert first.status_code == 200
    second = put(5_000, f'"{read}"')
    assert (second.status_code, second.json()["code"]) == (412, "stale_resource_version")
    assert put(5_000, "no tag").status_code == 400
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 70_000
    assert put(71_000, first.headers["ETag"]).status_code == 200
    assert put(72_000, "*").status_code == 200


def test_a_version_is_scheduled_listed_and_called_off(acme: TenantWorld, operator: Caller) -> None:
    before = Envelope.objects.get(tenant=acme.tenant).nominal_milli
    later = {
        "nominal_milli": 5000,
        "effective_from": "2099-01-01T00:00:00Z",
        "reason": "next contract",
    }
    made = operator.post(f"{PATH}/envelopes/h100-slot/versions", later)
    assert (made.status_code, made.json()["applied_at"]) == (201, None)
    versions = operator.get(f"{PATH}/envelope-versions").json()["items"]
    assert versions[0]["nominal_milli"] == 5000
    cancel = f"/envelope-versions/{made.json()['id']}/actions/cancel"
    assert operator.post(cancel, {"reason": "not signed"}).json()["cancelled_at"]
    assert operator.post(cancel, {"reason": "again"}).status_code == 409
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == before


@pytest.mark.parametrize("amount", EDGES)
@pytest.mark.parametrize("field", ["nominal_milli", "borrow_milli", "lend_milli"])
def test_an_envelopes_amount_at_the_edge_is_refused_with_its_field(
    acme: TenantWorld, operator: Caller, field: str, amount: Any
) -> None:
    versions = EnvelopeVersion.objects.count()
    body = {"nominal_milli": 1, "reason": "x", field: amount}
    answer = operator.call("PUT", f"{PATH}/envelopes/h100-slot", body)
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == [f"/{field}"]
    assert EnvelopeVersion.objects.count() == versions


def test_a_nominal_of_nothing_is_legitimate(acme: TenantWorld, operator: Caller) -> None:
    answer = operator.call("PUT", f"{PATH}/envelopes/h100-slot", {"nominal_milli": 0})
    assert (answer.status_code, answer.json()["nominal_milli"]) == (200, 0)


def test_caps_are_changed_only_by_who_saw_them(acme: TenantWorld, operator: Caller) -> None:
    tag = operator.get(f"{PATH}/caps").headers["ETag"]
    wish = {"slots_per_request": 4, "shapes": ["gpu_slice"], "reason": "a start"}
    assert operator.call("PATCH", f"{PATH}/caps", wish).status_code == 428
    done = operator.call("PATCH", f"{PATH}/caps", wish, HTTP_IF_MATCH=tag)
    assert (done.status_code, done.json()["slots_per_request"]) == (200, 4)
    assert operator.call("PATCH", f"{PATH}/caps", wish, HTTP_IF_MATCH=tag).status_code == 412
    assert caller_of(acme).get("/caps").json()["shapes"] == ["gpu_slice"]


@pytest.mark.parametrize("amount", EDGES)
@pytest.mark.parametrize("field", ["allocations", "slots_per_request", "spend_hard_micro"])
def test_a_cap_at_the_edge_is_refused_with_its_field(
    acme: TenantWorld, operator: Caller, field: str, amount: Any
) -> None:
    body = {"reason": "x", field: amount}
    answer = operator.call("PATCH", f"{PATH}/caps", body, HTTP_IF_MATCH="*")
    assert answer.status_code == 400
    assert [e["pointer"] for e in answer.json()["errors"]] == [f"/{field}"]
    assert not TenantCaps.objects.exists()


def test_two_tenants_of_a_cohort_borrow_from_each_other(
    acme: TenantWorld, operator: Caller
) -> None:
    a_tenant("globex", envelope_slots=8)
    assert operator.post("/cohorts", {"name": "lab"}).status_code == 201
    for slug in ("acme", "globex"):
        body = {"cohort": "lab", "reason": "they share"}
        assert operator.call("PUT", f"/tenants/{slug}/cohort", body).status_code == 200
    share = {"nominal_milli": 1000, "borrow_milli": 3000, "reason": "less, but more at times"}
    operator.call("PUT", f"{PATH}/envelopes/h100-slot", share)
    (seen,) = operator.get("/cohorts").json()["items"]
    assert seen["tenants"] == ["acme", "globex"]
    assert seen["classes"][0]["quota_milli"] == 9000
    (quota,) = caller_of(acme).get("/quota").json()["items"]
    assert (quota["cohort"], quota["free_milli"]) == ("lab", 4000)
    assert operator.call("DELETE", "/cohorts/lab").status_code == 409
    limits = {"borrow_milli": None, "lend_milli": 0, "reason": "keep it"}
    assert operator.call("PUT", "/cohorts/lab/limits/h100-slot", limits).status_code == 200
    window = {
        "resource_class": "h100-slot",
        "name": "night",
        "extra_milli": 2000,
        "opens_at": "2099-01-01T00:00:00Z",
        "closes_at": "2099-01-01T06:00:00Z",
        "reason": "cheap power",
    }
    made = operator.post(f"{PATH}/bursts", window)
    assert (made.status_code, made.json()["state"]) == (201, "scheduled")
    bad = operator.post(f"{PATH}/bursts", {**window, "extra_milli": 0})
    assert [e["pointer"] for e in bad.json()["errors"]] == ["/extra_milli"]
    ended = operator.post(f"/bursts/{made.json()['id']}/actions/end", {"reason": "done"})
    assert ended.json()["state"] == "ended"
    assert operator.get(f"{PATH}/bursts").json()["items"][0]["state"] == "ended"


def test_a_tier_is_given_only_after_its_preview(acme: TenantWorld, operator: Caller) -> None:
    a_host()
    caller_of(acme).post("/projects/default/allocations", order_body(slots=1, name="train"))
    terms = {"priority_band": 10, "isolation": "node"}
    tier = {"name": "gold", "title": "Gold", "terms": terms, "reason": "to sell"}
    assert operator.post("/tiers", tier).status_code == 201
    shown = operator.post(f"{PATH}/tier/preview", {"tier": "gold"}).json()
    assert [lease["name"] for lease in shown["leases"]] == ["train"]
    assert shown["broken"] == [shown["leases"][0]["id"]]
    unseen = {"tier": "gold", "seen": "0" * 64, "reason": "bought"}
    stale = operator.call("PUT", f"{PATH}/tier", unseen)
    assert (stale.status_code, stale.json()["code"]) == (409, "preview_stale")
    done = operator.call("PUT", f"{PATH}/tier", {**unseen, "seen": shown["digest"]})
    assert done.json()["tier"] == "gold"
    change = {"terms": {"priority_band": 20}}
    seen = operator.post("/tiers/gold/actions/preview", change).json()["digest"]
    body = {**change, "seen": seen, "reason": "too dear"}
    assert operator.post("/tiers/gold/actions/change", body).json()["version"] == 2
    assert SlaTier.objects.get(name="gold").priority_band == 20
    wrong = operator.post("/tiers/gold/actions/preview", {"terms": {"priority_band": 1.5}})
    assert [e["pointer"] for e in wrong.json()["errors"]] == ["/priority_band"]


def test_a_rule_is_tried_out_before_it_is_switched_on(acme: TenantWorld, operator: Caller) -> None:
    made = operator.post("/policies", RULE)
    assert (made.status_code, made.json()["state"]) == (201, "draft")
    assert made.json()["results"] == [{"name": "at three", "passed": True, "detail": ""}]
    path = f"/policies/{made.json()['id']}/actions"
    early = operator.post(f"{path}/activate", {"reason": "now"})
    assert early.status_code == 409
    tried = operator.post(f"{path}/dry-run", {"last": 10}).json()
    assert (tried["state"], tried["report"]["errors"]) == ("dry_run", 0)
    assert operator.post(f"{path}/activate", {"reason": "now"}).json()["state"] == "active"
    assert operator.post(f"{path}/retire", {"reason": "over"}).json()["state"] == "retired"
    assert operator.get("/policies?state=retired").json()["items"][0]["name"] == RULE["name"]


def test_a_rule_with_a_fault_is_refused_with_its_field(operator: Caller) -> None:
    for field, value in (("expression", "time.hour <"), ("name", "No Spaces"), ("tests", [])):
        answer = operator.post("/policies", {**RULE, field: value})
        assert answer.status_code == 400, field
        assert answer.json()["errors"][0]["pointer"].startswith(f"/{field}")
    assert not PolicyRule.objects.exists()


def test_suspension_and_deletion_follow_their_policies(acme: TenantWorld, operator: Caller) -> None:
    body = {"suspension": "release", "reason": "as agreed"}
    assert operator.call("PUT", f"{PATH}/suspension", body).status_code == 200
    assert operator.post(f"{PATH}/actions/suspend", {"reason": "unpaid"}).status_code == 200
    gone = operator.post(f"{PATH}/actions/delete", {"reason": "closed"})
    assert (gone.status_code, gone.json()["state"]) == (200, "deleting")


def test_a_cohort_of_this_name_is_made_once(operator: Caller) -> None:
    operator.post("/cohorts", {"name": "lab"})
    again = operator.post("/cohorts", {"name": "lab"})
    assert again.status_code in (400, 409)
    assert Cohort.objects.count() == 1


def test_an_envelope_names_its_preview_and_is_refused_when_it_would_touch_something_else(
    acme: TenantWorld, operator: Caller
) -> None:
    address = f"{PATH}/envelopes/h100-slot"
    before = Envelope.objects.get(tenant=acme.tenant).nominal_milli
    shown = operator.post(f"{address}/preview", {"nominal_milli": 70_000}).json()
    assert f"h100-slot nominal: {before} to 70000" in shown["lines"]
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == before
    a_host()
    acme.order(slots=1, name="meanwhile")
    body = {"nominal_milli": 70_000, "seen": shown["digest"], "reason": "contract"}
    stale = operator.call("PUT", address, body)
    assert (stale.status_code, stale.json()["code"]) == (409, "preview_stale")
    changed = stale.json()["facts"]["changed"]
    assert "held: 1000 in 1" in changed
    assert not any("nominal" in line for line in changed)
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == before
    later = {**body, "effective_from": "2099-01-01T00:00:00Z"}
    assert operator.post(f"{address}/versions", later).json()["code"] == "preview_stale"
    now = operator.post(f"{address}/preview", {"nominal_milli": 70_000}).json()["digest"]
    assert operator.call("PUT", address, {**body, "seen": now}).status_code == 200
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 70_000
