"""How is what was named for people renamed, and how does it end?

A name is a key: hosts, SKUs, metrics and the past know a thing by it, so that what changes is
the title beside it. What nothing ever used is removed; what has a past is retired, and kept for
it. Each of these takes the row's lock, which whoever refers to it by name takes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection, models, transaction
from django.db.models.deletion import Collector

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from placement.errors import StockInUse
from placement.models import NodeFamily, Pool
from placement.selectors.uses import Uses, family_uses, in_words, pool_uses, sku_uses
from tenants.models import Sku
from tenants.services import catalogue
from tenants.states import SkuState


def pool_locked(name: str) -> Pool:
    """The pool of this name, which nobody can refer to anew meanwhile. Raises NotFound."""
    row = Pool.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    return row


def family_locked(name: str) -> NodeFamily:
    """The kind of hosts of this name, likewise. Raises NotFound."""
    row = NodeFamily.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    return row


def _changed(row: Pool | NodeFamily, given: dict[str, str | None], actor: Actor, why: str) -> None:
    """Write what is otherwise, with its event; nothing where nothing is."""
    after = {
        field: value
        for field, value in given.items()
        if value is not None and value != getattr(row, field)
    }
    if not after:
        return
    before = {field: getattr(row, field) for field in after}
    for field, value in after.items():
        setattr(row, field, value)
    row.save(update_fields=list(after))
    events.record(
        kind=f"placement.{row._meta.model_name}.rename",
        subject=row,
        actor=actor,
        reason=why,
        before=before,
        after=dict(after),
    )


@transaction.atomic
def pool_rename(*, name: str, title: str, actor: Actor, reason: str = "") -> Pool:
    """Give a pool another title; an empty one is its name. Raises NotFound."""
    row = pool_locked(name)
    _changed(row, {"title": title or name}, actor, reason)
    return row


@transaction.atomic
def family_rename(
    *, name: str, title: str, actor: Actor, gpu_model: str | None = None, reason: str = ""
) -> NodeFamily:
    """Give a kind of hosts another title, and say otherwise what its GPU is (for people).

    Raises NotFound.
    """
    row = family_locked(name)
    _changed(row, {"title": title or name, "gpu_model": gpu_model}, actor, reason)
    return row


def _retired(
    row: Pool | NodeFamily, uses: Callable[[Any], Uses], actor: Actor, reason: str
) -> None:
    if row.retired_at is not None:
        return
    now: dict[str, Any] = dict(uses(row).now)
    if now:
        raise StockInUse(f"{row.name} is in use: {in_words(now)}.", name=row.name, **now)
    row.retired_at = clock.db_now()
    row.save(update_fields=["retired_at"])
    events.record(
        kind=f"placement.{row._meta.model_name}.retire", subject=row, actor=actor, reason=reason
    )


@transaction.atomic
def pool_retire(*, name: str, actor: Actor, reason: str) -> Pool:
    """No host comes into it and no SKU is made of it any more; what was stays known.

    Repeating it changes nothing. Raises NotFound, and StockInUse with what has to end first.
    """
    row = pool_locked(name)
    _retired(row, pool_uses, actor, reason)
    return row


@transaction.atomic
def family_retire(*, name: str, actor: Actor, reason: str) -> NodeFamily:
    """No host is approved as it and no SKU is made of it any more; what was stays known.

    Repeating it changes nothing. Raises NotFound, and StockInUse with what has to end first.
    """
    row = family_locked(name)
    _retired(row, family_uses, actor, reason)
    return row


def _never_used_or_refuse(name: str, uses: Uses) -> None:
    ever: dict[str, Any] = dict(uses.ever)
    if ever:
        raise StockInUse(f"{name} has a past: {in_words(ever)}.", name=name, **ever)


def _removed(row: Pool | NodeFamily, uses: Uses, actor: Actor, reason: str) -> None:
    _never_used_or_refuse(row.name, uses)
    for gone in _with(row):
        events.record(
            kind=f"placement.{gone._meta.model_name}.remove",
            subject=gone,
            actor=actor,
            reason=reason,
            before={
                field.attname: field.value_from_object(gone) for field in gone._meta.concrete_fields
            },
            facts={"with": row.name},
        )
    events.record(
        kind=f"placement.{row._meta.model_name}.remove",
        subject=row,
        actor=actor,
        reason=reason,
        before={"name": row.name, "title": row.title},
    )
    row.delete()


def _with(row: Pool | NodeFamily) -> Iterator[models.Model]:
    """What goes with it: the terms and limits that are for it alone."""
    found = Collector(using=connection.alias)
    found.collect([row])
    for rows in (*found.fast_deletes, *found.data.values()):
        yield from (one for one in rows if one != row)


@transaction.atomic
def pool_remove(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take away a pool that nothing ever used; its name is free again.

    Raises NotFound, and StockInUse with what used it.
    """
    row = pool_locked(name)
    _removed(row, pool_uses(row), actor, reason)


@transaction.atomic
def family_remove(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take away a kind of hosts that nothing ever used; its name is free again.

    Raises NotFound, and StockInUse with what used it.
    """
    row = family_locked(name)
    _removed(row, family_uses(row), actor, reason)


@transaction.atomic
def sku_remove(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take away a SKU that nothing ever used, with its prices; its name is free again.

    One that is sold is retired first, so that nobody asks for it meanwhile. Raises NotFound,
    and StockInUse with what used it.
    """
    row = Sku.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    if row.state == SkuState.PUBLISHED:
        raise StockInUse(f"{name} is sold. Retire it first.", name=name, state=row.state)
    _never_used_or_refuse(name, sku_uses(row))
    catalogue.sku_remove(sku=row, actor=actor, reason=reason)
