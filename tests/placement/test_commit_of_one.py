"""Does one placement by itself write the very rows that it writes in a batch of one?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.db import models, transaction

from admission.models import AdmissionRequest, Decision
from gpuaas.kernel import ids
from gpuaas.kernel.idempotency import Carried
from gpuaas.kernel.models import IdempotencyKey
from placement.domain import fit
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Node
from placement.services import bundle, engine
from placement.services.bundle import Item
from placement.services.engine import Placed, Result, Unplaced
from placement.services.requests import item_of
from placement.snapshots.orders import Ask, look
from tenants.models import QuotaCounter
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.releasing import rows

pytestmark = pytest.mark.django_db

ORDERS: dict[str, AllocationOrder] = {
    "a slot": AllocationOrder(sku="h100.slice", slots=1),
    "three slots": AllocationOrder(sku="h100.slice", slots=3, name="three"),
    "a whole node": AllocationOrder(sku="h100.node"),
}
MORE: tuple[type[models.Model], ...] = (AdmissionRequest, Decision, IdempotencyKey)
LEFT_OUT = ("BinaryField", "DateTimeField")
"""What has the database's own time in it."""
Written = tuple[Result | None, dict[str, list[dict[str, Any]]]]


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    world = a_tenant("acme")
    a_host("host-1")
    a_host("host-2")
    return world


def counted() -> Iterator[UUID]:
    """Ids that are the same in each way of writing."""
    number = 0
    while True:
        number += 1
        yield UUID(int=(7 << 76) | (2 << 62) | number)


def an_item(acme: TenantWorld, name: str) -> Item:
    """An order that has met everything but a place."""
    ask = Ask(acme.tenant.pk, acme.project.pk, ORDERS[name])
    return item_of(ask, look(ask), actor=acme.actor)


def written(item: Item, *, batch: bool, key: bool) -> Written:
    """What an item comes to and every row after it, which is then undone."""
    given = counted()
    with transaction.atomic(), mock.patch.object(ids, "new_id", side_effect=given):
        carried = Carried("user:1", "k", "f" * 64, 202, {"Location": "/x"}, '{"at":"@at@"}')
        with mock.patch.object(bundle, "_alone", return_value=not batch):
            result = engine.place_carrying(item, carried) if key else engine.place_one(item)
        left = rows()
        for table in MORE:
            fields = [
                f for f in table._meta.concrete_fields if f.get_internal_type() not in LEFT_OUT
            ]
            left[table.__name__] = [
                {f.name: getattr(row, f.attname) for f in fields}
                for row in table._default_manager.order_by("pk")
            ]
        for row in (one for found in left.values() for one in found):
            if isinstance(row.get("id"), int):
                del row["id"]  # the database counts by itself
        transaction.set_rollback(True)
    if isinstance(result, Placed):
        return Placed(result.node_num, result.mask, mock.ANY, result.options), left
    return result, left


@pytest.mark.parametrize("key", [False, True], ids=["no key", "a key"])
@pytest.mark.parametrize("order", ORDERS)
def test_one_by_itself_and_a_batch_of_one_write_the_same_rows(
    acme: TenantWorld, order: str, key: bool
) -> None:
    item = an_item(acme, order)
    by_itself = written(item, batch=False, key=key)
    in_batch = written(item, batch=True, key=key)
    assert isinstance(by_itself[0], Placed)
    assert by_itself[0] == in_batch[0]
    for table, found in by_itself[1].items():
        assert found == in_batch[1][table], table
    assert len(by_itself[1]["Allocation"]) == 1


@pytest.mark.parametrize("key", [False, True], ids=["no key", "a key"])
def test_a_host_of_a_domain_that_spans_hosts_is_looked_at_in_both(
    acme: TenantWorld, key: bool
) -> None:
    Node.objects.update(fabric="nvl72-a")
    item = an_item(acme, "a slot")
    by_itself = written(item, batch=False, key=key)
    assert isinstance(by_itself[0], Placed)
    assert by_itself == written(item, batch=True, key=key)


def test_what_the_counter_refuses_at_the_moment_of_placing_writes_nothing_in_both(
    acme: TenantWorld,
) -> None:
    real, item = bundle.commit, an_item(acme, "a slot")

    def lowered(*args: Any, **kwargs: Any) -> Any:
        QuotaCounter.objects.update(limit_milli=0)
        return real(*args, **kwargs)

    with mock.patch.object(engine, "commit", lowered):
        found = [written(item, batch=batch, key=False) for batch in (False, True)]
    for result, left in found:
        assert isinstance(result, Unplaced)
        assert result.error.code == "envelope_exceeded"
        assert left["Allocation"] == left["Decision"] == []
    assert found[0][1] == found[1][1]


def test_a_node_that_changed_meanwhile_is_passed_over_by_both(acme: TenantWorld) -> None:
    real, item = fit.rank, an_item(acme, "a whole node")

    def outdated(*args: Any, **kwargs: Any) -> Any:
        options = real(*args, **kwargs)
        Node.objects.filter(num=options[0].num).update(generation=models.F("generation") + 1)
        return options

    found = []
    for batch in (False, True):
        with mock.patch.object(engine, "rank", outdated):
            found.append(written(item, batch=batch, key=True))
    for result, left in found:
        assert isinstance(result, Placed)
        assert len(left["Allocation"]) == 1
    assert found[0] == found[1]
    assert not Allocation.objects.exists()
