"""What can operators do with tenants over the API?"""

from __future__ import annotations

import pytest

from tenants.models import Envelope
from tests.api.client import Caller, caller_of, operator_caller, order_body
from tests.builders import a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    a_catalogue()
    return operator_caller()


def test_a_tenant_is_made_approved_suspended_and_resumed(operator: Caller) -> None:
    made = operator.post("/tenants", {"name": "Initech"}).json()
    assert made["state"] == "pending"
    path = f"/tenants/{made['slug']}"
    for verb, state in (("approve", "active"), ("suspend", "suspended"), ("resume", "active")):
        moved = operator.post(f"{path}/actions/{verb}", {"reason": f"{verb} it"})
        assert (moved.status_code, moved.json()["state"]) == (200, state)
    assert operator.get(path).json()["state_reason"] == "resume it"


def test_a_move_that_the_lifecycle_does_not_know_is_refused(operator: Caller) -> None:
    a_tenant("acme")
    answer = operator.post("/tenants/acme/actions/reject", {"reason": "no"})
    assert (answer.status_code, answer.json()["code"]) == (409, "transition_refused")
    assert operator.post("/tenants/acme/actions/suspend", {}).status_code == 400


def test_a_suspended_tenant_starts_nothing_new(operator: Caller) -> None:
    acme = a_tenant("acme")
    a_host()
    operator.post("/tenants/acme/actions/suspend", {"reason": "unpaid"})
    answer = caller_of(acme).post("/projects/default/allocations", order_body())
    assert (answer.status_code, answer.json()["code"]) == (403, "tenant_suspended")


def test_an_envelope_is_set_but_not_below_what_is_held(operator: Caller) -> None:
    acme = a_tenant("acme")
    a_host()
    caller_of(acme).post("/projects/default/allocations", order_body(slots=4))
    path = "/tenants/acme/envelopes/h100-slot"
    lowered = operator.call("PUT", path, {"nominal_milli": 1000})
    assert (lowered.status_code, lowered.json()["code"]) == (409, "envelope_below_use")
    done = operator.call("PUT", path, {"nominal_milli": 5000, "reason": "less"})
    assert (done.json()["limit_milli"], done.json()["used_milli"]) == (5000, 4000)
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 5000
    assert (
        operator.call("PUT", "/tenants/acme/envelopes/none", {"nominal_milli": 1}).status_code
        == 404
    )


def test_tenants_are_listed_newest_first_for_operators_only(operator: Caller) -> None:
    acme = a_tenant("acme")
    a_tenant("globex")
    items = operator.get("/tenants").json()["items"]
    assert [item["slug"] for item in items] == ["globex", "acme"]
    assert caller_of(acme).get("/tenants").status_code == 403
