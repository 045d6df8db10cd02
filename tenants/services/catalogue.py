"""How does a product come onto the shelf and off it?"""

from __future__ import annotations

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from tenants.errors import NameTaken, SkuUnknown
from tenants.models import ResourceClass, Shape, Sku, SkuPrice


def sku_named(name: str) -> Sku:
    """The SKU of this name. Raises SkuUnknown."""
    sku = Sku.objects.select_related("resource_class").filter(name=name).first()
    if sku is None:
        raise SkuUnknown(f"There is no SKU {name!r}.")
    return sku


@transaction.atomic
def sku_create(
    *,
    name: str,
    title: str,
    shape: str,
    family: str,
    resource_class: str,
    hour_micro: int,
    actor: Actor,
    pool: str = "default",
    slots_min: int = 1,
    slots_max: int = 1,
    units_milli: int = 1000,
    exclusive_nic: bool = False,
    description: str = "",
) -> Sku:
    """A draft SKU with its price per unit and hour, in millionths."""
    kind, _ = ResourceClass.objects.get_or_create(
        name=resource_class, defaults={"title": resource_class}
    )
    try:
        with transaction.atomic():
            sku = Sku.objects.create(
                name=name,
                title=title,
                description=description,
                shape=Shape(shape),
                family=family,
                pool=pool,
                resource_class=kind,
                units_milli=units_milli,
                slots_min=slots_min,
                slots_max=slots_max,
                exclusive_nic=exclusive_nic,
            )
    except IntegrityError as taken:
        raise NameTaken(f"A SKU {name!r} exists already.") from taken
    SkuPrice.objects.create(sku=sku, hour_micro=hour_micro)
    events.record(
        kind="tenants.sku.create",
        subject=sku,
        actor=actor,
        after={"name": name, "shape": shape, "family": family, "hour_micro": hour_micro},
    )
    return sku


def sku_publish(*, sku: str, actor: Actor, reason: str = "") -> Sku:
    """draft → published."""
    return advance(sku_named(sku), "publish", actor=actor, reason=reason)


def sku_retire(*, sku: str, reason: str, actor: Actor) -> Sku:
    """→ retired: nothing new is sold; what runs goes on."""
    return advance(sku_named(sku), "retire", actor=actor, reason=reason)


@transaction.atomic
def price_set(*, sku: str, hour_micro: int, actor: Actor) -> SkuPrice:
    """A new price from now on; leases keep the price they were made at."""
    if hour_micro < 0:
        raise errors.InvalidRequest(
            "A price is not negative.",
            errors=(errors.FieldError("/hour_micro", "out_of_range", "0 or more"),),
        )
    row = SkuPrice.objects.create(sku=sku_named(sku), hour_micro=hour_micro)
    events.record(
        kind="tenants.skuprice.set", subject=row, actor=actor, after={"hour_micro": hour_micro}
    )
    return row
