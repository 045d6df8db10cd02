"""Does each thing that rules a host or a cut slot out say so by its own code in the refusal?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from gpuaas.kernel.errors import ProductError
from placement.errors import ForbiddenByTopology, NeverFits, SkuUnavailable
from placement.models import Node
from placement.services import nodes
from placement.services.differences import slot_accept
from placement.services.observed import SILENT_AFTER_S, silence_sweep
from placement.services.terms import terms_set
from tenants.models import Sku
from tenants.services import catalogue
from tests.builders import (
    BOTH_KINDS,
    CLASS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
)
from tests.placement.test_identity import discovered, report_with

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant, and slices, nodes and parts for sale."""
    a_catalogue()
    a_parts_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    """The one host that there is."""
    return a_host(parts=BOTH_KINDS)


def refusal(world: TenantWorld, sku: str = "h100.slice", **wishes: Any) -> ProductError:
    """Why the order is refused."""
    with pytest.raises((SkuUnavailable, NeverFits, ForbiddenByTopology)) as refused:
        world.order(sku, **wishes)
    return refused.value


def removed(world: TenantWorld, sku: str = "h100.slice", **wishes: Any) -> dict[str, int]:
    """How many hosts or cut slots each constraint removed."""
    found: dict[str, int] = refusal(world, sku, **wishes).facts["removed"]
    return found


def drained(host: Host) -> None:
    nodes.node_drain(node_id=host.node.pk, reason="fans", actor=OPERATOR)


def set_apart(host: Host) -> None:
    nodes.node_quarantine(node_id=host.node.pk, reason="smoke", actor=OPERATOR)


def silent(host: Host) -> None:
    late = timedelta(seconds=SILENT_AFTER_S + 60)
    Node.objects.filter(pk=host.node.pk).update(last_seen_at=F("last_seen_at") - late)
    silence_sweep()


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (drained, "node_draining"),
        (set_apart, "node_in_service"),
        (silent, "node_silent"),
    ],
)
def test_what_a_host_is_in_keeps_new_work_away_by_name(
    acme: TenantWorld, host: Host, happens: Callable[[Host], None], code: str
) -> None:
    happens(host)
    assert removed(acme, slots=1) == {code: 1}


def test_a_host_that_lost_a_card_for_good_never_fits_what_it_once_held(
    acme: TenantWorld, host: Host
) -> None:
    discovered(host, report_with(host))
    discovered(host, report_with(host, drop=(7,)))
    slot_accept(node_id=host.node.pk, slot_index=7, reason="not replaced", actor=OPERATOR)
    error = refusal(acme, slots=8)
    assert (error.code, error.facts["removed"]) == ("never_fits", {"size_of_node": 1})


def test_a_host_that_is_meant_for_another_shape_never_fits(acme: TenantWorld, host: Host) -> None:
    Node.objects.filter(pk=host.node.pk).update(intended="baremetal", takes="baremetal")
    error = refusal(acme, slots=1)
    assert (error.code, error.facts["removed"]) == ("never_fits", {"intended_use": 1})


def test_a_host_elsewhere_is_removed_by_its_place(acme: TenantWorld, host: Host) -> None:
    Node.objects.filter(pk=host.node.pk).update(zone="a")
    with pytest.raises(ProductError) as refused:
        acme.order(slots=1, zones=("b",))
    assert refused.value.code == "forbidden_by_locality"
    assert refused.value.facts["removed"] == {"locality": 1}


def test_a_whole_node_is_not_free_while_one_slot_is_held(acme: TenantWorld, host: Host) -> None:
    acme.order(slots=1)
    assert removed(acme, "h100.node") == {"whole_node_free": 1}


def test_slots_without_a_nic_of_their_own_are_too_few(acme: TenantWorld, host: Host) -> None:
    catalogue.sku_create(
        name="h100.fast",
        title="With its own NIC",
        shape="gpu_slice",
        family="h100x8",
        resource_class=CLASS,
        hour_micro=1,
        actor=OPERATOR,
        slots_max=8,
        units_milli=1000,
        exclusive_nic=True,
    )
    catalogue.sku_publish(sku="h100.fast", actor=OPERATOR)
    error = refusal(acme, "h100.fast", slots=1)
    assert (error.code, error.facts["removed"]) == ("forbidden_by_topology", {"exclusive_nic": 1})


def test_a_host_of_its_own_is_not_one_with_a_neighbour(acme: TenantWorld, host: Host) -> None:
    a_tenant("globex").order(slots=1)
    terms_set(noun="sku", name="h100.slice", reason="sold", actor=OPERATOR, alone="node")
    assert removed(acme, slots=1) == {"node_isolation": 1}


def test_a_part_that_no_board_gives_or_that_is_larger_than_the_gpu_is_told(
    acme: TenantWorld, host: Host
) -> None:
    for sku, part in (
        ("h100.odd", {"shape": "mig", "part_profile": "1g.10gb"}),
        ("h100.huge", {"shape": "gpu_share", "part_milli": 100, "part_memory_mib": 900_000}),
    ):
        catalogue.sku_create(
            name=sku,
            title=sku,
            family="h100x8",
            resource_class=CLASS,
            hour_micro=1,
            actor=OPERATOR,
            units_milli=100,
            **part,
        )
        catalogue.sku_publish(sku=sku, actor=OPERATOR)
    # Sold of boards that its hosts had once.
    Sku.objects.filter(name="h100.odd").update(part_profile="2g.48gb")
    cut_slots(host, "mig", 0)
    assert removed(acme, "h100.odd") == {"no_such_profile": 1}
    cut_slots(host, "share", 1)
    # The slot that is cut for instances is none for shares, and the other has too little memory.
    assert removed(acme, "h100.huge") == {"cut_otherwise": 1, "memory_of_gpu": 1}
