"""Whose work may be on a node with this, by what a tier promises and a workload shares?"""

from __future__ import annotations

import pytest

from admission.domain.sharing import ANY_TENANT, OWN_TENANT, eligible, neighbours_of
from admission.models import AdmissionRequest
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation
from placement.services.queue import cycle_sweep
from placement.services.workloads import gpu_sharing, workload_scale
from tenants.models import SlaTier
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)


def promised(world: TenantWorld, isolation: str) -> None:
    """The tenant's tier promises this."""
    tier, _ = SlaTier.objects.get_or_create(
        name=f"keeps-{isolation}",
        defaults={
            "title": isolation,
            "priority_band": 1,
            "preemptible": False,
            "isolation": isolation,
        },
    )
    world.tenant.tier = tier
    world.tenant.save(update_fields=["tier"])


def nodes_of(world: TenantWorld) -> set[str]:
    """Where the tenant's live work is."""
    rows = Allocation.objects.filter(tenant=world.tenant).exclude(state="released")
    return set(rows.values_list("node__name", flat=True))


@pytest.mark.parametrize(
    ("mode", "tier", "shape", "neighbours"),
    [
        ("", "vm", "gpu_slice", ANY_TENANT),
        ("none", "gpu", "gpu_slice", ANY_TENANT),
        ("shared", "shared", "gpu_slice", ANY_TENANT),
        ("", "node", "gpu_slice", OWN_TENANT),
        ("node", "vm", "gpu_slice", OWN_TENANT),
        ("", "node", "baremetal", ANY_TENANT),
        ("", "cluster", "gpu_slice", ANY_TENANT),
    ],
)
def test_neighbours_follow_from_the_mode_and_the_tier(
    mode: str, tier: str, shape: str, neighbours: str
) -> None:
    assert neighbours_of(mode, tier_isolation=tier, shape=shape) == neighbours


def test_a_tier_that_promises_a_node_keeps_others_off_it() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    promised(acme, "node")
    a_host("host-1")
    a_host("host-2")
    globex.order(slots=1)
    ticket = acme.order(slots=1)
    gates = {gate["gate"]: gate for gate in ticket.decision.gates}
    assert gates["isolation"]["passed"]
    assert gates["isolation"]["facts"] == {
        "promised": "node",
        "given": "node",
        "neighbours": OWN_TENANT,
    }
    assert ticket.decision.facts["request"]["neighbours"] == OWN_TENANT
    assert nodes_of(acme).isdisjoint(nodes_of(globex))
    acme.order(slots=2)
    assert len(nodes_of(acme)) == 1
    globex.order(slots=7)
    with pytest.raises(ProductError) as refused:
        globex.order(slots=1)
    assert refused.value.code == "forbidden_by_topology"
    with pytest.raises(ProductError) as refused:
        a_stranger_that_wants_a_node_alone()
    assert refused.value.facts
    assert findings() == []


def a_stranger_that_wants_a_node_alone() -> None:
    """A third tenant of such a tier finds no node without others on it."""
    initech = a_tenant("initech")
    promised(initech, "node")
    initech.order(slots=1)


def test_a_promise_of_a_whole_cluster_is_not_met_by_a_node() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    promised(acme, "cluster")
    a_host()
    with pytest.raises(ProductError) as refused:
        acme.order(slots=1)
    assert refused.value.code == "isolation_not_offered"


def test_a_workload_that_shares_no_node_is_scaled_where_nobody_else_is() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    a_host("host-1")
    a_host("host-2")
    globex.order(slots=4)
    row = the_workload(run_it(acme))
    assert nodes_of(acme) == nodes_of(globex), "nothing is promised: the fuller node is taken"
    gpu_sharing(workload_id=row.pk, mode="node", actor=acme.actor)
    workload_scale(workload_id=row.pk, replicas=3, actor=acme.actor)
    assert nodes_of(acme) == {"host-1", "host-2"}
    shared = nodes_of(globex)
    fresh = Allocation.objects.filter(workload=row).exclude(node__name__in=shared)
    assert fresh.count() == 2
    waiting = workload_scale(workload_id=row.pk, replicas=3 + 7, wait=True, actor=acme.actor)
    assert waiting.request.state == "queued"
    assert waiting.request.spec["sharing"] == "node"
    cycle_sweep()
    assert AdmissionRequest.objects.get(pk=waiting.request_id).state == "queued"
    assert findings() == []


def test_every_mode_that_is_declared_says_what_it_gives() -> None:
    for mode in ("none", "node"):
        assert not eligible(mode, shape="gpu_slice", tier_isolation="vm", sku_isolation="vm").code
    refused = eligible("shared", shape="gpu_slice", tier_isolation="vm", sku_isolation="vm")
    assert refused.code == "sharing_not_eligible"
