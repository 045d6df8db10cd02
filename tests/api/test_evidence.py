"""Can operators see what a host is fit for over the wire, and decide it?"""

from __future__ import annotations

import pytest

from placement.models import ReadinessEvidence, XidEvent
from tests.api.client import Caller, caller_of, operator_caller
from tests.builders import Host, a_catalogue, a_host, a_tenant
from tests.placement.test_health import tell

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Caller:
    """An operator."""
    a_catalogue()
    return operator_caller()


@pytest.fixture
def host(operator: Caller) -> Host:
    """A host that was approved."""
    return a_host("h1")


def test_a_hosts_fitness_is_shown_check_by_check(operator: Caller, host: Host) -> None:
    shown = operator.get("/nodes/h1/evidence").json()
    assert shown["takes"] == "any"
    states = {one["capability"]: one["state"] for one in shown["capabilities"]}
    assert states == {"slices": "promoted", "baremetal": "promoted"}
    iommu = next(one for one in shown["evidence"] if one["check"] == "iommu")
    assert (iommu["standing"], iommu["told_by"]) == ("pass", "discovery")
    assert (iommu["needed_for"], iommu["unblock"]) == (["slices"], "")
    assert iommu["expires_at"] is not None


def test_a_promotion_is_refused_with_what_misses_until_that_is_mended(
    operator: Caller, host: Host
) -> None:
    why = {"capability": "slices", "reason": "a test"}
    assert operator.post("/nodes/h1/actions/demote", why).json()["takes"] == "baremetal"
    rows = ReadinessEvidence.objects.filter(node=host.node, check_name="vfio")
    rows.update(verdict="fail", reason="the vfio-pci module is not loaded")
    refused = operator.post("/nodes/h1/actions/promote", why)
    assert (refused.status_code, refused.json()["code"]) == (409, "evidence_not_enough")
    assert "vfio failed: the vfio-pci module is not loaded" in refused.json()["detail"]
    assert refused.json()["facts"]["misses"][0]["check"] == "vfio"
    rows.update(verdict="pass")
    assert operator.post("/nodes/h1/actions/promote", why).json()["takes"] == "any"


def test_a_burn_in_is_handed_in_with_its_reason_and_end(operator: Caller, host: Host) -> None:
    body = {"check": "burn_in", "verdict": "pass", "reason": "24 h", "valid_s": 86_400}
    made = operator.post("/nodes/h1/evidence", body)
    assert made.status_code == 201
    burn = next(one for one in made.json()["evidence"] if one["check"] == "burn_in")
    # Nothing asks for one by the terms in force, but a failed one would suspend every shape.
    assert (burn["told_by"], burn["reason"]) == ("operator", "24 h")
    assert burn["needed_for"] == ["slices", "baremetal"]
    assert burn["expires_at"] is not None
    wrong = operator.post("/nodes/h1/evidence", body | {"version": "not hexadecimal"})
    assert wrong.json()["errors"][0]["pointer"] == "/version"
    assert operator.post("/nodes/h1/evidence", body | {"check": "iommu"}).status_code == 400


def test_errors_are_listed_in_words_and_lifted_by_an_operator(operator: Caller, host: Host) -> None:
    tell(host, 64)
    (xid,) = operator.get("/nodes/h1/xids").json()["items"]
    assert (xid["xid"], xid["policy"]) == (64, "repair")
    assert xid["meaning"] == "a memory row could not be remapped"
    (device,) = operator.get("/nodes/h1/evidence").json()["devices"]
    assert (device["classification"], device["slot_index"]) == ("unhealthy", 1)
    assert device["findings"][0]["code"] == "gpu_needs_repair"
    body = {"gpu_uuid": "GPU-h1-1", "reason": "replaced"}
    lifted = operator.post("/nodes/h1/actions/lift-health", body)
    assert lifted.json()["devices"] == []
    missing = operator.post("/nodes/h1/actions/lift-health", body | {"gpu_uuid": "GPU-none"})
    assert missing.status_code == 404
    assert XidEvent.objects.count() == 1


def test_metrics_count_nodes_by_capability_and_gpus_by_class(operator: Caller, host: Host) -> None:
    tell(host, 64)
    text = operator.get("/metrics").content.decode()
    assert 'gpuaas_node_capabilities{capability="slices",state="promoted"} 1.0' in text
    assert 'gpuaas_devices{classification="unhealthy"} 1.0' in text
    assert 'gpuaas_devices{classification="healthy"} 7.0' in text


def test_a_tenant_sees_nothing_of_a_hosts_fitness(operator: Caller, host: Host) -> None:
    caller = caller_of(a_tenant("acme"))
    assert caller.get("/nodes/h1/evidence").status_code == 403
    assert caller.get("/nodes/h1/xids").status_code == 403
