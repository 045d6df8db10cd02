"""Does a request for several allocations get them as close as it asks, or none?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from gpuaas.kernel.scope import platform_scope
from placement.domain.fit import Option
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Claim, Node
from placement.services import engine, requests
from placement.services.bundle import Item, commit
from placement.services.engine import Placed, Result, Unplaced, place_group
from placement.snapshots import Ask, look
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


def racks(*names: str) -> None:
    """A host of eight slots in each rack named, all in one block."""
    a_catalogue()
    for k, rack in enumerate(names):
        a_host(f"host-{k}")
        Node.objects.filter(name=f"host-{k}").update(zone="z", block="b", rack=rack)


def asked(world: TenantWorld, replicas: int, slots: int, **close: object) -> Result:
    """Place a group in the caller's transaction."""
    order = AllocationOrder(sku="h100.slice", slots=slots, **close)  # type: ignore[arg-type]  # free
    ask = Ask(world.tenant.pk, world.project.pk, order, replicas=replicas)
    with platform_scope():
        item = requests.item_of(ask, look(ask), actor=world.actor)
        return place_group(requests.group_of(item))


def used_racks() -> list[str]:
    """The rack of each live allocation."""
    return sorted(Allocation.objects.values_list("node__rack", flat=True))


def test_a_group_goes_into_the_one_rack_that_holds_all_of_it() -> None:
    racks("r1", "r2", "r2", "r3")
    assert isinstance(asked(a_tenant("acme"), 3, 4, together="rack"), Placed)
    assert used_racks() == ["r2"] * 3


def test_a_group_that_no_rack_holds_gets_nothing_and_is_told_how_many_would_fit() -> None:
    racks("r1", "r2", "r2", "r3")
    refused = asked(a_tenant("acme"), 5, 4, together="rack")
    assert isinstance(refused, Unplaced)
    assert refused.error.facts["replicas_fitting"] == 4
    assert refused.error.facts["together"] == "rack"
    assert not Claim.objects.exists()


def test_a_preferred_rack_is_kept_to_while_it_holds_them_and_given_up_after() -> None:
    racks("r1", "r2", "r2")
    acme = a_tenant("acme")
    assert isinstance(asked(acme, 2, 4, close="rack"), Placed)
    assert used_racks() == ["r1", "r1"]
    assert isinstance(asked(acme, 2, 7, close="rack"), Placed)
    assert used_racks() == ["r1", "r1", "r2", "r2"]
    assert isinstance(asked(acme, 2, 1, close="rack", together="block"), Placed)


def test_a_group_takes_its_nodes_by_their_numbers_whichever_is_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    racks("r1", "r1")
    acme = a_tenant("acme")
    first, second = Node.objects.order_by("num")
    # Half of the second one is held, so that it is the better one for four.
    Node.objects.filter(pk=first.pk).update(schedulable=False)
    assert isinstance(asked(acme, 1, 4), Placed)
    Node.objects.filter(pk=first.pk).update(schedulable=True)
    taken: list[list[int]] = []

    def seen(
        planned: Sequence[tuple[Item, Sequence[Option]]], *, skip_locked: bool
    ) -> dict[int, tuple[int, int, datetime]]:
        taken.append([options[0].num for _, options in planned])
        return commit(planned, skip_locked=skip_locked)

    monkeypatch.setattr(engine, "commit", seen)
    assert isinstance(asked(acme, 3, 4), Placed)
    assert taken == [[first.num, first.num, second.num]]


def test_members_that_are_to_be_apart_are_on_different_nodes() -> None:
    racks("r1", "r1", "r2")
    assert isinstance(asked(a_tenant("acme"), 3, 1, apart=True), Placed)
    assert Allocation.objects.values("node").distinct().count() == 3
    assert isinstance(asked(a_tenant("globex"), 4, 1, apart=True), Unplaced)
    assert Claim.objects.count() == 3
