"""Is what was named renamed without a trace in the past, and ended only when nothing needs it?"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from gpuaas.kernel.errors import InvalidRequest, NotFound
from gpuaas.kernel.models import Event
from placement.errors import StockInUse
from placement.models import (
    Allocation,
    BreakerRule,
    DefragPolicy,
    GpuDevice,
    Node,
    NodeFamily,
    Pool,
    ReadinessTerms,
)
from placement.services import allocations, nodes, stock, stock_ends
from tenants.models import Sku, SkuPrice
from tenants.services import catalogue
from tests.builders import CLASS, OPERATOR, a_catalogue, a_host, a_tenant, state_of
from tests.tenants.test_races import race

pytestmark = pytest.mark.django_db

ROUNDS = int(os.environ.get("RACE_ROUNDS", "4"))


def a_draft(name: str, *, family: str = "h100x8", pool: str = "default") -> Sku:
    """A SKU that is not sold yet."""
    return catalogue.sku_create(
        name=name,
        title=name,
        shape="gpu_slice",
        family=family,
        pool=pool,
        resource_class=CLASS,
        hour_micro=1,
        actor=OPERATOR,
    )


def in_use(act: Callable[[], object]) -> StockInUse:
    """The refusal."""
    with pytest.raises(StockInUse) as refused:
        act()
    return refused.value


def pointers(act: Callable[[], object]) -> list[tuple[str, str]]:
    """The fields that are refused, and by which code."""
    with pytest.raises(InvalidRequest) as refused:
        act()
    return [(fault.pointer, fault.code) for fault in refused.value.errors]


def test_a_sku_of_a_family_and_a_pool_that_are_not_there_names_both_fields() -> None:
    a_catalogue()
    assert pointers(lambda: a_draft("new", family="b200x8", pool="west")) == [
        ("/pool", "unknown"),
        ("/family", "unknown"),
    ]
    assert pointers(lambda: a_draft("new", family="b200x8")) == [("/family", "unknown")]
    assert not Sku.objects.filter(name="new").exists()
    assert a_draft("new").state == "draft"


def a_part(name: str, profile: str, family: str = "h100x8") -> Sku:
    """A draft of a part of a GPU."""
    return catalogue.sku_create(
        name=name,
        title=name,
        shape="mig",
        family=family,
        resource_class=CLASS,
        hour_micro=1,
        part_profile=profile,
        actor=OPERATOR,
    )


def test_a_sku_below_every_surface_is_refused_as_well() -> None:
    """The service of the app that knows no hosts asks the one that does."""
    assert pointers(lambda: a_draft("new", pool="west")) == [
        ("/pool", "unknown"),
        ("/family", "unknown"),
    ]
    assert not Sku.objects.exists()


def test_a_part_is_sold_only_of_a_profile_that_the_familys_boards_have() -> None:
    a_catalogue()
    stock.family_create(name="rtx", slots=4, actor=OPERATOR)
    for k, (known, family) in enumerate(
        (("1g.24gb+gfx", "rtx"), ("2g.48gb-me", "rtx"), ("1g.10gb+me", "h100x8"))
    ):
        assert a_part(f"part-{k}", known, family).part_profile == known
    assert pointers(lambda: a_part("x", "1g.10gb+gfx", "rtx")) == [("/part_profile", "unknown")]
    a_host()
    with pytest.raises(InvalidRequest) as refused:
        a_part("x", "1g.24gb+gfx")
    assert refused.value.detail == "part_profile: no board of h100x8 has 1g.24gb+gfx."
    [fault] = refused.value.errors
    assert fault.detail == (
        "h100-80 has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
    )
    assert a_part("fine", "1g.10gb").state == "draft"


def test_no_part_is_sold_of_gpus_that_cannot_be_cut() -> None:
    a_catalogue()
    a_host()
    GpuDevice.objects.update(model="NVIDIA L40S", memory_bytes=48 << 30)
    assert pointers(lambda: a_part("x", "1g.10gb")) == [("/part_profile", "unknown")]


def test_a_rename_changes_the_title_and_nothing_that_refers_to_the_name() -> None:
    a_catalogue()
    host, world = a_host(), a_tenant("acme")
    held = world.order(slots=1, name="train")
    stock_ends.pool_rename(name="default", title="Hall west", actor=OPERATOR, reason="moved")
    stock_ends.family_rename(
        name="h100x8", title="Eight H100", gpu_model="NVIDIA H100 80GB", actor=OPERATOR
    )
    catalogue.sku_rename(
        sku="h100.slice", title="H100 slots", description="One to eight", actor=OPERATOR
    )
    assert Pool.objects.get(name="default").title == "Hall west"
    assert NodeFamily.objects.get(name="h100x8").gpu_model == "NVIDIA H100 80GB"
    sku = Sku.objects.get(name="h100.slice")
    assert (sku.title, sku.description, sku.version) == ("H100 slots", "One to eight", 3)
    assert (sku.family, sku.pool) == ("h100x8", "default")
    host.work()
    assert held.allocation_id is not None
    assert state_of(held.allocation_id) == "active"
    assert Allocation.objects.get(pk=held.allocation_id).sku.name == "h100.slice"
    assert world.order(slots=1).allocation_id is not None, "it is sold on under its name"
    told = Event.objects.get(kind="placement.pool.rename")
    assert (told.after, told.reason) == ({"title": "Hall west"}, "moved")
    assert Event.objects.filter(kind="tenants.sku.rename").count() == 1


def test_a_rename_to_what_it_is_called_already_is_no_event() -> None:
    a_catalogue()
    for _ in range(2):
        stock_ends.family_rename(name="h100x8", title="Eight", actor=OPERATOR)
        catalogue.sku_rename(sku="h100.slice", title="", actor=OPERATOR)
    assert Event.objects.filter(kind="placement.nodefamily.rename").count() == 1
    assert not Event.objects.filter(kind="tenants.sku.rename").exists()
    with pytest.raises(NotFound):
        stock_ends.pool_rename(name="west", title="x", actor=OPERATOR)


def test_a_pool_and_a_family_in_use_are_kept_and_the_refusal_counts_what_uses_them() -> None:
    a_catalogue()
    a_host("host-1")
    a_host("host-2")
    a_tenant("acme").order(slots=1)
    refused = in_use(lambda: stock_ends.pool_retire(name="default", actor=OPERATOR, reason="end"))
    assert refused.detail == "default is in use: 2 hosts, 2 SKUs."
    assert refused.facts == {"name": "default", "hosts": 2, "skus": 2}
    refused = in_use(lambda: stock_ends.family_retire(name="h100x8", actor=OPERATOR, reason="end"))
    assert refused.facts == {"name": "h100x8", "hosts": 2, "skus": 2}
    refused = in_use(lambda: stock_ends.pool_remove(name="default", actor=OPERATOR))
    assert refused.facts == {"name": "default", "hosts": 2, "skus": 2, "requests": 1}
    assert refused.detail == "default has a past: 2 hosts, 2 SKUs, 1 request."
    assert Pool.objects.get(name="default").retired_at is None


def test_what_has_a_past_only_is_retired_and_nothing_new_comes_to_it() -> None:
    a_catalogue()
    host = a_host()
    world = a_tenant("acme")
    held = world.order(slots=1)
    host.work()
    assert held.allocation_id is not None
    allocations.allocation_release(
        allocation_id=held.allocation_id, reason="done", actor=world.actor
    )
    host.work()
    for sku in ("h100.slice", "h100.node"):
        catalogue.sku_retire(sku=sku, reason="old", actor=OPERATOR)
    nodes.node_retire(node_id=host.node.pk, reason="sold", actor=OPERATOR)
    for _ in range(2):
        stock_ends.pool_retire(name="default", actor=OPERATOR, reason="closed")
        stock_ends.family_retire(name="h100x8", actor=OPERATOR, reason="old")
    assert Event.objects.filter(kind="placement.pool.retire").count() == 1
    assert Event.objects.filter(kind="placement.nodefamily.retire").count() == 1
    assert pointers(lambda: nodes.node_create(name="host-9", actor=OPERATOR)) == [
        ("/pool", "retired")
    ]
    assert pointers(lambda: a_draft("new")) == [("/pool", "retired"), ("/family", "retired")]
    assert (
        in_use(lambda: stock_ends.pool_remove(name="default", actor=OPERATOR)).facts["hosts"] == 1
    )
    assert in_use(lambda: stock_ends.sku_remove(name="h100.slice", actor=OPERATOR)).facts == {
        "name": "h100.slice",
        "leases": 1,
        "requests": 1,
    }
    assert Allocation.objects.get(pk=held.allocation_id).sku.name == "h100.slice"


def test_what_nothing_ever_used_is_removed_and_its_name_is_free_again() -> None:
    a_catalogue()
    stock.pool_create(name="west", actor=OPERATOR)
    stock.family_create(name="l40s", slots=4, actor=OPERATOR)
    a_draft("l40s.slice", family="l40s", pool="west")
    assert in_use(lambda: stock_ends.pool_remove(name="west", actor=OPERATOR)).facts["skus"] == 1
    assert in_use(lambda: stock_ends.family_remove(name="l40s", actor=OPERATOR)).facts["skus"] == 1
    catalogue.sku_publish(sku="l40s.slice", actor=OPERATOR)
    sold = in_use(lambda: stock_ends.sku_remove(name="l40s.slice", actor=OPERATOR))
    assert sold.facts == {"name": "l40s.slice", "state": "published"}
    catalogue.sku_retire(sku="l40s.slice", reason="by mistake", actor=OPERATOR)
    stock_ends.sku_remove(name="l40s.slice", actor=OPERATOR, reason="by mistake")
    stock_ends.family_remove(name="l40s", actor=OPERATOR)
    stock_ends.pool_remove(name="west", actor=OPERATOR)
    assert not SkuPrice.objects.filter(sku__name="l40s.slice").exists()
    for kind in ("tenants.sku", "placement.nodefamily", "placement.pool"):
        told = Event.objects.get(kind=f"{kind}.remove").before
        assert told is not None
        assert told["name"]
    with pytest.raises(NotFound):
        stock_ends.pool_remove(name="west", actor=OPERATOR)
    stock.pool_create(name="west", actor=OPERATOR)
    stock.family_create(name="l40s", slots=4, actor=OPERATOR)
    assert a_draft("l40s.slice", family="l40s", pool="west").state == "draft"


def test_what_goes_with_a_pool_or_a_family_is_told_of_by_itself() -> None:
    a_catalogue()
    west = stock.pool_create(name="west", actor=OPERATOR)
    l40s = stock.family_create(name="l40s", slots=4, actor=OPERATOR)
    BreakerRule.objects.create(pool=west, percent=20)
    DefragPolicy.objects.create(pool=west, enabled=True)
    ReadinessTerms.objects.create(family=l40s, required={})
    stock_ends.pool_remove(name="west", actor=OPERATOR, reason="by mistake")
    stock_ends.family_remove(name="l40s", actor=OPERATOR, reason="by mistake")
    gone = Event.objects.filter(kind__startswith="placement.", kind__endswith=".remove")
    said = {event.kind.split(".")[1]: event for event in gone}
    assert set(said) == {"breakerrule", "defragpolicy", "readinessterms", "pool", "nodefamily"}
    assert {event.reason for event in said.values()} == {"by mistake"}
    assert said["breakerrule"].before is not None
    assert said["breakerrule"].before["percent"] == 20
    assert said["defragpolicy"].facts == {"with": "west"}
    assert said["readinessterms"].facts == {"with": "l40s"}


@pytest.mark.django_db(transaction=True)
def test_an_end_and_a_new_use_of_one_moment_are_in_one_order_or_the_other() -> None:
    a_catalogue()
    for n in range(ROUNDS):
        stock.pool_create(name=f"west-{n}", actor=OPERATOR)
        stock.family_create(name=f"l40s-{n}", slots=4, actor=OPERATOR)
        codes = race(
            partial(stock_ends.pool_remove, name=f"west-{n}", actor=OPERATOR),
            partial(nodes.node_create, name=f"host-{n}", pool=f"west-{n}", actor=OPERATOR),
        )
        assert codes in (["stock_in_use", ""], ["", "invalid_request"])
        assert Node.objects.filter(name=f"host-{n}").exists() == (codes[1] == "")
        codes = race(
            partial(stock_ends.family_retire, name=f"l40s-{n}", actor=OPERATOR, reason="old"),
            partial(a_draft, f"l40s.slice-{n}", family=f"l40s-{n}"),
        )
        assert codes in (["stock_in_use", ""], ["", "invalid_request"])
        family = NodeFamily.objects.get(name=f"l40s-{n}")
        assert (family.retired_at is None) == (codes[1] == "")
