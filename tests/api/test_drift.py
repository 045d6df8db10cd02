"""Are differences and held actions listed, filtered and decided over REST, with metrics?"""

from __future__ import annotations

import pytest
from django.test import Client

from gpuaas.kernel import clock
from placement.models import AutomaticAction, Drift
from tests.api.client import Caller, operator_caller
from tests.builders import Host, a_catalogue, a_host

pytestmark = pytest.mark.django_db
WHY = {"reason": "I looked"}


@pytest.fixture
def operator() -> Caller:
    """An operator."""
    a_catalogue()
    return operator_caller()


@pytest.fixture
def host(operator: Caller) -> Host:
    """A host."""
    return a_host()


def differing(host: Host, kind: str, state: str = "open") -> Drift:
    return Drift.objects.create(
        node=host.node,
        kind=kind,
        subject=kind,
        severity="high",
        actor="operator",
        detail="x",
        state=state,
        last_seen_at=clock.db_now(),
    )


def test_differences_are_filtered_and_those_that_may_pass_are_left_out(
    operator: Caller, host: Host
) -> None:
    differing(host, "vm_unknown")
    differing(host, "vm_state", "closed")
    differing(host, "vm_missing", "seen")
    items = operator.get("/drift").json()["items"]
    assert [one["kind"] for one in items] == ["vm_state", "vm_unknown"]
    (one,) = operator.get("/drift?state=standing&node=host-1").json()["items"]
    assert (one["code"], one["node"]["name"]) == ("drift_vm_unknown", "host-1")
    assert operator.get("/drift?state=nonsense").status_code == 400


def test_a_difference_is_let_stand_and_one_to_be_repaired_is_refused(
    operator: Caller, host: Host
) -> None:
    answer = operator.post(f"/drift/{differing(host, 'vm_unknown').pk}/actions/accept", WHY)
    assert (answer.status_code, answer.json()["state"]) == (200, "accepted")
    refused = operator.post(f"/drift/{differing(host, 'residue').pk}/actions/accept", WHY)
    assert (refused.status_code, refused.json()["code"]) == (409, "drift_not_acceptable")
    refused = operator.post(f"/drift/{differing(host, 'residue', 'closed').pk}/actions/remove", WHY)
    assert (refused.status_code, refused.json()["code"]) == (409, "drift_not_removable")


def test_a_held_action_is_listed_and_decided_and_limits_are_set(
    operator: Caller, host: Host
) -> None:
    node = host.fresh()
    row = AutomaticAction.objects.create(
        pool=node.pool, node=node, kind="quarantine", reason="device_health"
    )
    (one,) = operator.get("/breaker/held").json()["items"]
    assert (one["action"], one["state"], one["pool"]) == ("quarantine", "held", "default")
    assert operator.post(f"/breaker/held/{row.pk}/actions/allow", WHY).json()["state"] == "allowed"
    assert (
        operator.post(f"/breaker/held/{row.pk}/actions/reject", WHY).json()["state"] == "rejected"
    )
    limits = {"percent": 5, "floor": 2, "window_s": 600, **WHY}
    assert operator.call("PUT", "/pools/default/breaker", limits).json()["floor"] == 2
    assert operator.call("PUT", "/pools/nowhere/breaker", limits).status_code == 404


def test_metrics_count_what_stands_and_what_is_held(operator: Caller, host: Host) -> None:
    differing(host, "vm_unknown")
    node = host.fresh()
    AutomaticAction.objects.create(
        pool=node.pool, node=node, kind="quarantine", reason="device_health"
    )
    text = Client().get("/metrics").content.decode()
    assert 'gpuaas_reconcile_drift{kind="vm_unknown"} 1.0' in text
    assert 'gpuaas_reconcile_drift_oldest_age_seconds{kind="vm_unknown"}' in text
    assert 'gpuaas_breaker_held{pool="default"} 1.0' in text
