"""Is maintenance planned, seen and told over REST, each to whom it concerns?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from gpuaas.kernel import clock
from placement.models import MaintenanceWindow, Notice
from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    a_host("n1")
    a_host("n2")
    return a_tenant("acme")


def body(**more: object) -> dict[str, object]:
    now = clock.now()
    return {
        "nodes": ["n1"],
        "starts_at": (now + timedelta(days=2)).isoformat(),
        "ends_at": (now + timedelta(days=3)).isoformat(),
        **more,
    }


def planned(operator: Caller, **more: object) -> str:
    answer = operator.post(
        "/api/v1/maintenance-windows", body(reason="firmware of rack 7", announce=True, **more)
    )
    assert answer.status_code == 201, answer.content
    found: str = answer.json()["items"][0]["id"]
    return found


def test_a_window_is_previewed_planned_listed_and_cancelled(acme: TenantWorld) -> None:
    operator = operator_caller()
    acme.order(slots=3, name="train")
    preview = operator.post("/api/v1/maintenance-windows/actions/preview", body()).json()
    assert preview["tenants"] == ["acme"]
    assert preview["nodes"][0]["allocations"][0]["fate"] == "stays"
    assert preview["nodes"][0]["allocations"][0]["to"] == "n2"
    assert MaintenanceWindow.objects.count() == 0
    window = planned(operator)
    listed = operator.get("/api/v1/maintenance-windows?state=announced&node=n1").json()["items"]
    assert [one["id"] for one in listed] == [window]
    overlap = operator.post("/api/v1/maintenance-windows", body(reason="again"))
    assert overlap.status_code == 409
    assert overlap.json()["code"] == "window_overlaps"
    assert overlap.json()["errors"][0]["pointer"] in ("/starts_at", "/ends_at")
    path = f"/api/v1/maintenance-windows/{window}/actions/cancel"
    assert operator.post(path, {"reason": "postponed"}).json()["state"] == "cancelled"


def test_each_tenant_reads_and_acknowledges_its_own_notices_only(acme: TenantWorld) -> None:
    globex = a_tenant("globex")
    acme.order(slots=1, name="mine")
    planned(operator_caller())
    mine, theirs = caller_of(acme), caller_of(globex)
    assert theirs.get("/api/v1/notices").json()["items"] == []
    (notice,) = mine.get("/api/v1/notices?unread=true").json()["items"]
    assert notice["allocation"]["name"] == "mine"
    assert "n1" not in notice["text"]
    assert "rack 7" not in notice["text"]
    path = f"/api/v1/notices/{notice['id']}/actions/acknowledge"
    assert theirs.post(path).status_code == 404
    assert Notice.objects.get().acknowledged_at is None
    first = mine.post(path).json()["acknowledged_at"]
    assert first is not None
    assert mine.post(path).json()["acknowledged_at"] == first
    assert mine.get("/api/v1/notices?unread=true").json()["items"] == []


def test_a_drain_is_planned_and_a_card_replaced_over_rest(acme: TenantWorld) -> None:
    operator = operator_caller()
    acme.order(slots=2, name="train")
    plan = operator.get("/api/v1/nodes/n1/drain-plan").json()
    assert plan["counts"] == {"ends": 0, "moves": 0, "stays": 1, "no_room": 0}
    early = operator.post("/api/v1/nodes/n1/actions/move", {"reason": "now"})
    assert early.json()["code"] == "not_movable"
    card = {"slot_index": 7, "reason": "XID 79"}
    assert operator.post("/api/v1/nodes/n1/actions/replace-card", card).json()["state"] == (
        "declared"
    )
    unseen = operator.post("/api/v1/nodes/n1/actions/approve-card", card)
    assert unseen.json()["code"] == "card_not_seen"
    held = operator.post("/api/v1/nodes/n1/actions/replace-card", {**card, "slot_index": 0})
    assert held.json()["code"] == "card_in_use"
    listed = operator.get("/api/v1/nodes/n1/replacements").json()["items"]
    assert [one["slot_index"] for one in listed] == [7]


def test_a_pool_says_how_long_before_what_happens(acme: TenantWorld) -> None:
    answer = operator_caller().call(
        "PUT",
        "/api/v1/pools/default/notice",
        {"lead_s": 3600, "again_s": 60, "reason": "agreed"},
    )
    assert answer.json() == {"pool": "default", "lead_s": 3600, "again_s": 60}


def test_windows_are_counted_by_state(acme: TenantWorld) -> None:
    operator = operator_caller()
    planned(operator)
    text = Client().get("/metrics").content.decode()
    assert 'gpuaas_maintenance_windows{state="announced"} 1.0' in text
