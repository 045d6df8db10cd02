"""Does an operator come from an empty platform to a tenant's lease over the API alone?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.transitions import advance
from placement.models import Node
from placement.services import slots
from tests.api.client import caller_of, operator_caller
from tests.builders import BOOT, OPERATOR, Host, a_report, a_tenant

pytestmark = pytest.mark.django_db

SKU = {
    "name": "l40s.slice",
    "title": "L40S slots",
    "shape": "gpu_slice",
    "family": "l40s-10",
    "pool": "west",
    "resource_class": "l40s-slot",
    "slots_max": 10,
    "hour_micro": 1_250_000,
}
LEASE = {"sku": "l40s.slice", "slots": 10}
WHY = {"reason": "opening"}


def test_everything_between_an_empty_platform_and_a_lease_is_named_over_the_api() -> None:
    operator, world = operator_caller(), a_tenant("acme")
    tenant = caller_of(world)
    path = f"/projects/{world.project.slug}/allocations"
    unknown = tenant.post(path, LEASE)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "sku_unknown")
    for noun, body in (
        ("pools", {"name": "west"}),
        ("families", {"name": "l40s-10", "slots": 10, "gpu_model": "NVIDIA L40S"}),
        ("skus", SKU),
        ("nodes", {"name": "l40s-01", "pool": "west"}),
    ):
        assert operator.post(f"/{noun}", body).status_code == 201, noun
    assert operator.post("/skus/l40s.slice/actions/publish", WHY).status_code == 200
    envelope = {"nominal_milli": 10_000, **WHY}
    granted = operator.call("PUT", "/tenants/acme/envelopes/l40s-slot", envelope)
    assert granted.status_code == 200
    # The host joins and tells what it is made of.
    node = Node.objects.get(name="l40s-01")
    Node.objects.filter(pk=node.pk).update(boot_id=BOOT)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots.slots_take(node, a_report("l40s-01", 10, per_numa=5), actor=OPERATOR)
    approve = "/nodes/l40s-01/actions/approve"
    strange = operator.post(approve, {**WHY, "family": "l40s-8"})
    assert strange.json()["errors"][0]["pointer"] == "/family"
    assert operator.post(approve, {**WHY, "family": "l40s-10"}).status_code == 200
    Host(node).report()
    refused = tenant.post(path, LEASE)
    assert (refused.status_code, refused.json()["code"]) == (400, "image_unknown")
    image = {"name": "ubuntu-24.04-cuda", "shapes": ["gpu_slice"], **WHY}
    assert operator.post("/images", image).status_code == 201
    assert tenant.post(path, LEASE).status_code == 202
    counted = {row["name"]: row["nodes"] for row in operator.get("/families").json()["items"]}
    assert counted == {"l40s-10": 1}
    assert {row["name"]: row["nodes"] for row in operator.get("/pools").json()["items"]} == {
        "default": 0,
        "west": 1,
    }
    assert operator.post("/images/ubuntu-24.04-cuda/actions/retire", WHY).status_code == 200
    assert tenant.get("/images").json()["items"] == []
    again = operator.post("/families", {"name": "l40s-10", "slots": 10})
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")
