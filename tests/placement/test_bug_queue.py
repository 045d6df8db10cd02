"""Does one request that cannot even be read stop those behind it?"""

from __future__ import annotations

import logging

import pytest

from admission.models import AdmissionRequest
from placement.services.queue import cycle_sweep
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def state(world: TenantWorld, name: str) -> str:
    """The state of the request with this name."""
    rows = AdmissionRequest.objects.filter(tenant=world.tenant)
    return next(str(row.state) for row in rows if row.spec["name"] == name)


def test_a_request_that_breaks_the_cycle_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host("host-1")
    acme.order(slots=8)
    for name in ("first", "broken", "last"):
        acme.order(slots=2, name=name, wait=True)
    for row in AdmissionRequest.objects.filter(state="queued"):
        if row.spec["name"] == "broken":
            row.spec = {**row.spec, "ssh_keys": ["not an id"]}
            row.save(update_fields=["spec"])
    a_host("host-2")
    with caplog.at_level(logging.CRITICAL):
        assert cycle_sweep() == 2
    assert [state(acme, name) for name in ("first", "broken", "last")] == [
        "admitted",
        "queued",
        "admitted",
    ]
