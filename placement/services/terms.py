"""How do the terms and the weights of placement change?  With a reason, in versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from placement.domain.terms import OWN, Alone, BadVersion, version_of
from placement.models import PlacementTerms, Pool, Scoring
from placement.services.nodes import need_reason
from placement.snapshots import outlook
from tenants.models import Sku, SlaTier, Tenant

NOUNS: dict[str, QuerySet[Any]] = {
    "sku": Sku.objects.all(),
    "tier": SlaTier.objects.all(),
    "pool": Pool.objects.all(),
}


def _refuse(field: str, code: str, text: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(
        f"{field}: {text}.", errors=(errors.FieldError(f"/{field}", code, text),)
    )


def _version(field: str, text: str) -> list[int]:
    try:
        return list(version_of(text))
    except BadVersion as bad:
        raise _refuse(field, "bad_format", str(bad)) from bad


def _about(noun: str, name: str) -> str:
    rows = NOUNS.get(noun)
    if rows is None:
        raise _refuse("noun", "unknown", f"one of {', '.join(NOUNS)}")
    if not rows.filter(name=name).exists():
        raise _refuse("name", "unknown", f"no {noun} of this name")
    return f"{noun}:{name}"


@transaction.atomic
def terms_set(
    *,
    noun: str,
    name: str,
    reason: str,
    actor: Actor,
    alone: str = "shares",
    own: str = "",
    driver_min: str = "",
    driver_below: str = "",
    runtime_min: str = "",
    tenants: Sequence[UUID] = (),
) -> PlacementTerms:
    """All terms of one SKU, tier or pool, from now on; what runs keeps what it was promised.

    ``alone``: shares, wiring or node. ``own``: empty, with or apart. Versions are numbers joined
    by dots. ``tenants`` dedicates a pool. Raises InvalidRequest, naming the field.
    """
    why = need_reason(reason)
    about = _about(noun, name)
    levels = {level.name.lower(): level for level in Alone}
    if alone not in levels:
        raise _refuse("alone", "unknown", f"one of {', '.join(levels)}")
    if own not in OWN:
        raise _refuse("own", "unknown", "empty, with or apart")
    if tenants and noun != "pool":
        raise _refuse("tenants", "not_allowed", "only a pool is dedicated to tenants")
    known = set(Tenant.objects.filter(pk__in=tenants).values_list("pk", flat=True))
    if set(tenants) - known:
        raise _refuse("tenants", "unknown", "no tenant of this id")
    said: dict[str, Any] = {
        "alone": int(levels[alone]),
        "own": own,
        "driver_min": _version("driver_min", driver_min),
        "driver_below": _version("driver_below", driver_below),
        "runtime_min": _version("runtime_min", runtime_min),
        "tenants": sorted(map(str, tenants)),
    }
    row = PlacementTerms.objects.select_for_update().filter(about=about).first()
    before = None if row is None else {field: getattr(row, field) for field in said}
    if row is None:
        row = PlacementTerms(about=about, version=0)
    for field, value in said.items():
        setattr(row, field, value)
    row.version += 1
    row.save()
    events.record(
        kind="placement.terms.set",
        subject=row,
        actor=actor,
        before=before,
        after={"about": about, **said},
        reason=why,
    )
    return row


def scoring_set(
    *, gap: int, fragment: int, stranded: int, broken: int, reason: str, actor: Actor
) -> Scoring:
    """New weights in thousandths, from the next look on (at most half a minute later).

    Raises InvalidRequest for a weight outside 0 to 1 000 000.
    """
    why = need_reason(reason)
    weights = {"gap": gap, "fragment": fragment, "stranded": stranded, "broken": broken}
    for field, value in weights.items():
        if not 0 <= value <= 1_000_000:
            raise _refuse(field, "out_of_range", "0 to 1000000")
    try:
        with transaction.atomic():
            last = Scoring.objects.aggregate(last=Max("number"))["last"] or 0
            row = Scoring.objects.create(
                number=last + 1, reason=why, set_by=actor.as_json(), **weights
            )
            events.record(
                kind="placement.scoring.set",
                subject=row,
                actor=actor,
                after={"number": row.number, **weights},
                reason=why,
            )
    except IntegrityError as raced:
        raise errors.ConcurrentUpdate("Somebody else set weights at the same moment.") from raced
    transaction.on_commit(outlook.forget)
    return row
