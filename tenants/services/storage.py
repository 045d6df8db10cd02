"""Which storage is offered, who declared it, and which version holds?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.db import connection, transaction
from django.db.models import Max

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from tenants.models import Storage
from tenants.services.datasets import clean_places
from tenants.services.tenancy import checked_name

_KIND = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LOCK = 0x67706162


def _operators_only(actor: Actor) -> None:
    if not actor.operator:
        raise errors.PermissionDenied("Only an operator says which storage is offered.")


def _one_at_a_time() -> None:
    """Versions of a name are counted under one lock, for the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


@transaction.atomic
def storage_declare(
    *, name: str, kind: str, actor: Actor, reason: str = "", zones: Sequence[str] = ()
) -> Storage:
    """Offer storage, as the next version of its name; without zones it is reached from all.

    A data set may name it, a request may need its kind. Raises InvalidRequest naming the field.
    """
    _operators_only(actor)
    kept = checked_name(name)
    if not _KIND.fullmatch(kind):
        raise errors.InvalidRequest(
            "The kind of storage is refused.",
            errors=(
                errors.FieldError(
                    "/kind", "invalid", "lower-case letters, digits and hyphens, at most 40"
                ),
            ),
        )
    places = clean_places(zones, "/zones")
    _one_at_a_time()
    last = Storage.objects.filter(name=kept).aggregate(last=Max("version"))["last"] or 0
    row = Storage.objects.create(
        name=kept, kind=kind, version=last + 1, zones=places, declared_by=actor.as_json()
    )
    events.record(
        kind="tenants.storage.declare",
        subject=row,
        actor=actor,
        after={"name": kept, "kind": kind, "version": row.version, "zones": places},
        reason=reason,
    )
    return row


@transaction.atomic
def storage_retire(*, name: str, reason: str, actor: Actor) -> int:
    """Offer it no more; what runs goes on. Returns how many versions there were."""
    _operators_only(actor)
    _one_at_a_time()
    rows = list(Storage.objects.filter(name=name, retired_at__isnull=True).order_by("version"))
    if not rows:
        raise errors.NotFound
    Storage.objects.filter(pk__in=[row.pk for row in rows]).update(retired_at=clock.db_now())
    events.record(
        kind="tenants.storage.retire",
        subject=rows[-1],
        actor=actor,
        before={"name": name, "version": rows[-1].version},
        reason=reason,
    )
    return len(rows)
