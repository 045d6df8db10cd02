"""Is a request beyond one of the tenant's caps refused over the API, with the code of that cap?"""

from __future__ import annotations

from typing import Any

import pytest

from placement.models import Allocation
from tenants.services.caps import caps_set
from tests.api.client import Caller, caller_of, order_body
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db
LEASE = "/projects/default/allocations"
RUN = "/projects/default/workloads"
JOB: dict[str, Any] = {"kind": "job", "name": "train", "sku": "h100.slice", "slots": 1}


@pytest.fixture
def world() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture(autouse=True)
def host(world: TenantWorld) -> Host:
    return a_host()


@pytest.fixture
def acme(world: TenantWorld) -> Caller:
    return caller_of(world)


def limited(world: TenantWorld, **caps: Any) -> None:
    """An operator has set these caps."""
    caps_set(tenant_id=world.tenant.pk, changes=caps, reason="agreed", actor=OPERATOR)


@pytest.mark.parametrize(
    ("caps", "address", "asked", "code"),
    [
        ({"shapes": ["baremetal"]}, LEASE, order_body(), "shape_not_allowed"),
        ({"slots_per_request": 2}, LEASE, order_body(slots=3), "request_too_large"),
        ({"spend_hard_micro": 5}, LEASE, order_body(), "spend_cap_exceeded"),
        ({"zones": ["a"]}, RUN, {**JOB, "zones": ["b"]}, "zone_not_allowed"),
    ],
)
def test_what_a_cap_leaves_out_is_refused_with_the_code_of_that_cap(
    world: TenantWorld,
    acme: Caller,
    caps: dict[str, Any],
    address: str,
    asked: dict[str, Any],
    code: str,
) -> None:
    limited(world, **caps)
    answer = acme.post(address, asked)
    assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert Allocation.objects.count() == 0


def test_one_allocation_too_many_is_refused_and_fits_again_when_one_was_given_back(
    world: TenantWorld, acme: Caller, host: Host
) -> None:
    limited(world, allocations=1)
    assert acme.post(LEASE, order_body()).status_code == 202
    answer = acme.post(LEASE, order_body())
    assert (answer.status_code, answer.json()["code"]) == (403, "too_many_allocations")
    host.work()
    (held,) = acme.get("/allocations").json()["items"]
    acme.post(f"/allocations/{held['id']}/actions/release")
    host.work()
    assert acme.post(LEASE, order_body()).status_code == 202
