"""How does a product come onto the shelf and off it?"""

from __future__ import annotations

import re
from typing import Any, Final

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.transitions import advance
from tenants.domain.names import SHELF_NAME, SHELF_RULE
from tenants.errors import NameTaken, SkuUnknown
from tenants.models import PARTS, ResourceClass, Shape, Sku, SkuPrice
from tenants.shelf import there_or_refuse


def sku_named(name: str) -> Sku:
    """The SKU of this name. Raises SkuUnknown."""
    sku = Sku.objects.select_related("resource_class").filter(name=name).first()
    if sku is None:
        raise SkuUnknown(f"There is no SKU {name!r}.")
    return sku


PART_ISOLATION: Final = {"mig": "mig", "gpu_share": "shared"}
"""What a part isolates from those beside it on its GPU."""
MOST_MIB: Final = 2**31 - 1
_REFERENCE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,58}[A-Za-z0-9])?")


def _part_or_refuse(shape: str, given: dict[str, Any]) -> None:
    """Each shape has its own fields: all of them, and none of another's."""
    wrong = []
    if (shape == Shape.MIG) != bool(given["part_profile"]):
        wrong.append(("/part_profile", "a MIG profile such as 1g.10gb for the shape mig alone"))
    for field, most in (("part_milli", 1000), ("part_memory_mib", MOST_MIB)):
        value = given[field]
        if (shape == Shape.GPU_SHARE) != (value is not None) or (
            value is not None and not 1 <= value <= most
        ):
            wrong.append((f"/{field}", f"1 to {most} for the shape gpu_share alone"))
    if shape in PARTS and given["slots_max"] != 1:
        wrong.append(("/slots_max", "a part is leased by itself: 1"))
    if shape in PARTS and given["exclusive_nic"]:
        wrong.append(("/exclusive_nic", "a part has no NIC of its own"))
    if wrong:
        raise errors.InvalidRequest(
            f"{wrong[0][0][1:]}: {wrong[0][1]}.",
            errors=tuple(errors.FieldError(at, "not_allowed", why) for at, why in wrong),
        )


def _named_or_refuse(
    slots_min: int, slots_max: int, *, name: str, resource_class: str, **references: str
) -> None:
    """Names that are made here are strict; those that are referred to may be older."""
    made = {"name": name}
    if not ResourceClass.objects.filter(name=resource_class).exists():
        made["resource_class"] = resource_class
    for field, given in (made | references).items():
        pattern = SHELF_NAME if field in made else _REFERENCE
        if not pattern.fullmatch(given):
            raise errors.InvalidRequest(
                f"{field}: {SHELF_RULE}.",
                errors=(errors.FieldError(f"/{field}", "bad_format", SHELF_RULE),),
            )
    if slots_max < slots_min:
        raise errors.InvalidRequest(
            "slots_max: not less than slots_min.",
            errors=(errors.FieldError("/slots_max", "out_of_range", "not less than slots_min"),),
        )


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
    part_profile: str = "",
    part_milli: int | None = None,
    part_memory_mib: int | None = None,
) -> Sku:
    """A draft SKU with its price per unit and hour, in millionths.

    A ``mig`` SKU names a profile; a ``gpu_share`` thousandths of a GPU and MiB of its memory.
    Raises InvalidRequest naming what of this is missing, or does not belong to the shape, and the
    family and the pool that are not there (tenants.shelf).
    """
    there_or_refuse(family, pool, part_profile)
    _named_or_refuse(
        slots_min, slots_max, name=name, family=family, pool=pool, resource_class=resource_class
    )
    _part_or_refuse(
        shape,
        {
            "part_profile": part_profile,
            "part_milli": part_milli,
            "part_memory_mib": part_memory_mib,
            "slots_max": slots_max,
            "exclusive_nic": exclusive_nic,
        },
    )
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
                isolation=PART_ISOLATION.get(shape, "vm"),
                part_profile=part_profile,
                part_milli=part_milli,
                part_memory_mib=part_memory_mib,
            )
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            f"A SKU {name!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a SKU has this name"),),
        ) from taken
    SkuPrice.objects.create(sku=sku, hour_micro=hour_micro)
    events.record(
        kind="tenants.sku.create",
        subject=sku,
        actor=actor,
        after={"name": name, "shape": shape, "family": family, "hour_micro": hour_micro},
    )
    return sku


@transaction.atomic
def sku_rename(
    *, sku: str, title: str, actor: Actor, description: str | None = None, reason: str = ""
) -> Sku:
    """Give a SKU another title and description; its name is for good. Raises SkuUnknown."""
    row = Sku.objects.select_for_update(no_key=True).filter(pk=sku_named(sku).pk).get()
    given = {"title": title or row.name, "description": description}
    after = {
        field: value
        for field, value in given.items()
        if value is not None and value != getattr(row, field)
    }
    if after:
        before = {field: getattr(row, field) for field in after}
        for field, value in after.items():
            setattr(row, field, value)
        row.version += 1
        row.save(update_fields=[*after, "version"])
        events.record(
            kind="tenants.sku.rename",
            subject=row,
            actor=actor,
            reason=reason,
            before=before,
            after=dict(after),
        )
    return row


def sku_remove(*, sku: Sku, actor: Actor, reason: str) -> None:
    """Take away a locked SKU of which it is known that nothing ever used it."""
    events.record(
        kind="tenants.sku.remove",
        subject=sku,
        actor=actor,
        reason=reason,
        before={"name": sku.name, "title": sku.title, "state": sku.state},
    )
    sku.delete()


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
