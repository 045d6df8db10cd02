"""Where has data been committed, who said so, and which version holds?"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from tenants.domain.names import BadName, clean_name
from tenants.models import DataSet, Storage
from tenants.services.quota import tenant_locked
from tenants.services.tenancy import checked_name

MOST_PLACES = 256


def clean_places(given: Sequence[str], pointer: str) -> list[str]:
    """The names of places, cleaned, once each. Raises InvalidRequest naming the field."""
    if len(given) > MOST_PLACES:
        raise errors.InvalidRequest(
            f"{len(given)} places named; {MOST_PLACES} may be.",
            errors=(errors.FieldError(pointer, "out_of_range", f"at most {MOST_PLACES}"),),
        )
    try:
        return sorted({clean_name(place, limit=120) for place in given})
    except BadName as bad:
        raise errors.InvalidRequest(
            f"A place's name is refused: {bad}.",
            errors=(errors.FieldError(pointer, "name_refused", str(bad)),),
        ) from bad


def _offered(names: Sequence[str]) -> None:
    """Every storage that is named is one the platform offers. Raises InvalidRequest."""
    known = Storage.objects.filter(name__in=names, retired_at__isnull=True)
    unknown = sorted(set(names) - set(known.values_list("name", flat=True)))
    if unknown:
        raise errors.InvalidRequest(
            f"There is no storage {unknown[0]!r}.",
            errors=(errors.FieldError("/storage", "unknown", "no storage of this name"),),
        )


@transaction.atomic
def dataset_declare(
    *,
    tenant_id: UUID,
    name: str,
    actor: Actor,
    zones: Sequence[str] = (),
    racks: Sequence[str] = (),
    nodes: Sequence[str] = (),
    storage: Sequence[str] = (),
    required: bool = True,
) -> DataSet:
    """Say where a set of data lies, as its next version; requests that name it stay near it.

    ``required``: only there; otherwise there if possible. Data on ``storage`` lies wherever
    one of those storages is reached from. Without any place it says nothing, which is refused.
    """
    kept = checked_name(name)
    places = {
        "zones": clean_places(zones, "/zones"),
        "racks": clean_places(racks, "/racks"),
        "nodes": clean_places(nodes, "/nodes"),
        "storage": clean_places(storage, "/storage"),
    }
    if not any(places.values()):
        raise errors.InvalidRequest(
            "Say where the data lies: zones, racks, nodes or storage.",
            errors=(errors.FieldError("/zones", "required", "name a place"),),
        )
    with platform_scope():
        _offered(places["storage"])
        tenant = tenant_locked(tenant_id)
        last = DataSet.objects.filter(tenant=tenant, name=kept).aggregate(last=Max("version"))
        row = DataSet.objects.create(
            tenant=tenant,
            name=kept,
            version=(last["last"] or 0) + 1,
            required=required,
            declared_by=actor.as_json(),
            **places,
        )
        events.record(
            kind="tenants.dataset.declare",
            subject=row,
            actor=actor,
            after={"name": kept, "version": row.version, "required": required, **places},
        )
    return row


@transaction.atomic
def dataset_retire(*, tenant_id: UUID, name: str, actor: Actor) -> int:
    """No version of it may be named any more; returns how many there were."""
    with platform_scope():
        tenant_locked(tenant_id)
        rows = list(DataSet.objects.filter(tenant_id=tenant_id, name=name, retired_at__isnull=True))
        if not rows:
            raise errors.NotFound
        DataSet.objects.filter(pk__in=[row.pk for row in rows]).update(retired_at=clock.db_now())
        events.record(kind="tenants.dataset.retire", subject=rows[-1], actor=actor)
    return len(rows)
