"""Do a tenant's feed and timeline keep quiet about the hosts beneath?"""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from gpuaas.api.views.events import event_shown
from gpuaas.kernel.models import EventSeal
from placement.services.allocations import allocation_release
from tests.api.client import caller_of, order_body
from tests.builders import a_catalogue, a_host, a_tenant
from tests.kernel.factories import all_sealed

pytestmark = pytest.mark.django_db(transaction=True)
INSIDE = ("host-1", "node_num", "slot_index")


def test_a_tenant_reads_nothing_about_hosts_in_its_feed_or_timeline() -> None:
    a_catalogue()
    world = a_tenant("acme")
    host = a_host("host-1")
    acme = caller_of(world)
    answer = acme.post("/projects/default/allocations", order_body(slots=2))
    assert answer.status_code == 202
    host.work()
    (item,) = acme.get("/allocations").json()["items"]
    allocation_release(allocation_id=UUID(item["id"]), reason="done", actor=world.actor)
    host.work(skip=("gpu_scrubbed",))
    all_sealed()
    for path in ("/events?limit=1000", f"/allocations/{item['id']}/timeline"):
        text = json.dumps(acme.get(path).json())
        assert "placement.allocation.place" in text
        assert [word for word in INSIDE if word in text] == [], path
    rows = EventSeal.objects.filter(chain=world.tenant.pk).select_related("event")
    told = json.dumps([event_shown(row, operator=True) for row in rows], default=str)
    assert "node_num" in told
