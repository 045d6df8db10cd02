"""What follows from an error of which the driver did not say the GPU?"""

from __future__ import annotations

import pytest

from placement.domain import xids
from placement.domain.health import Told, judge_host
from placement.domain.xids import CATALOGUE, xid_of
from placement.errors import SkuUnavailable
from placement.models import DeviceHealth, GpuDevice
from placement.selectors import posture_of
from placement.selectors.health import device_classes, health_of
from placement.services import health as service
from placement.services.breaker import breaker_set
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.test_health import FOLLOWS, NOW, facts, observe, seen, slot, tell_of

pg = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    """A ready host."""
    a_catalogue()
    return a_host("h1")


@pytest.fixture
def acme(host: Host) -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


@pytest.mark.parametrize("number", [*sorted(CATALOGUE), 999])
def test_an_error_of_no_gpu_closes_the_host_where_it_would_have_closed_a_gpu(number: int) -> None:
    found = judge_host(facts(seen(number), conditions=[Told("gpu_lost")]), NOW)
    closes = {"prevent_slot", "prevent_node"} & set(FOLLOWS[xid_of(number).policy][1])
    assert found.consequences == (("prevent_node",) if closes else ())
    assert [one.numbers["xid"] for one in found.findings] == ([number] if closes else [])
    for one in found.findings:
        assert (one.code, "`host`" in one.unblock) == ("gpu_error_unnamed", True)
        assert ("Or reboot" in one.unblock) is (xid_of(number).policy != xids.REPAIR)


@pg
def test_an_error_of_no_gpu_closes_the_host_until_somebody_has_looked(
    host: Host, acme: TenantWorld
) -> None:
    tell_of(host, None, 92)
    assert (host.fresh().schedulable, host.fresh().conditions) == (True, [])
    tell_of(host, None, 48, seq=2)
    node = host.fresh()
    assert [(one["code"], one.get("device")) for one in node.conditions] == [
        ("gpu_error_unnamed", None)
    ]
    assert (posture_of(node), slot(host).state) == ("unavailable", "approved")
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(slots=1)
    assert refused.value.facts["removed"] == {"device_health": 1}
    (judged,) = health_of(node)
    assert (judged.gpu_uuid, judged.slot_index) == ("host", None)
    assert "“Lift it” on the node's page (its GPU is `host`)" in judged.findings[0]["unblock"]
    assert device_classes() == {"healthy": 8}
    observe(host)
    assert not host.fresh().schedulable
    service.health_lift(node_id=node.pk, gpu_uuid="host", reason="looked at", actor=OPERATOR)
    assert (host.fresh().schedulable, host.fresh().conditions) == (True, [])
    tell_of(host, None, 48, seq=3)
    assert not host.fresh().schedulable


@pg
def test_a_reboot_after_which_every_gpu_is_seen_ends_an_error_of_no_gpu(host: Host) -> None:
    tell_of(host, None, 79)
    host.boot = "boot-00000002"
    host.lease()
    observe(host, unseen=3)
    assert not host.fresh().schedulable
    observe(host)
    assert host.fresh().schedulable
    tell_of(host, None, 64, seq=2)
    host.boot = "boot-00000003"
    host.lease()
    observe(host)
    assert not host.fresh().schedulable


@pg
def test_a_gpu_that_its_driver_could_only_name_by_its_place_is_judged_by_it(host: Host) -> None:
    GpuDevice.objects.filter(uuid="GPU-h1-3").update(pci="0000:65:00.0")
    tell_of(host, "0000:65:00.0", 48)
    assert (slot(host, 3).state, host.fresh().schedulable) == ("blocked", True)
    tell_of(host, "0000:66:00.0", 48, seq=2)
    assert [one["code"] for one in host.fresh().conditions] == ["gpu_error_unnamed"]


@pg
def test_the_breaker_holds_what_an_error_of_no_gpu_would_take_as_well(host: Host) -> None:
    breaker_set(pool="default", percent=0, floor=0, window_s=3600, reason="careful", actor=OPERATOR)
    tell_of(host, None, 48)
    assert (host.fresh().schedulable, DeviceHealth.objects.get().consequences) == (True, [])
