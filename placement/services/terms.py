"""How do the terms and the weights of placement change?  With a reason, in versions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from placement.domain.stranding import Sold, serves
from placement.domain.terms import OWN, Alone, BadVersion, merged, told, version_of
from placement.models import Allocation, PlacementTerms, Pool, Scoring
from placement.services.nodes import need_reason
from placement.snapshots import outlook
from placement.snapshots.stranding import idle_hosts, sold_now
from placement.states import AllocationState
from tenants.errors import PreviewStale
from tenants.models import Sku, SlaTier, Tenant

SHOWN = 50
VERSIONS: Final = ("driver_min", "driver_below", "runtime_min")
NOUNS: dict[str, QuerySet[Any]] = {
    "sku": Sku.objects.all(),
    "tier": SlaTier.objects.all(),
    "pool": Pool.objects.all(),
}


def _version(field: str, text: str) -> list[int]:
    try:
        return list(version_of(text))
    except BadVersion as bad:
        raise errors.InvalidRequest.of(field, "bad_format", str(bad)) from bad


def about_of(noun: str, name: str) -> str:
    """What terms are about: ``sku:NAME``, ``tier:NAME`` or ``pool:NAME``. Raises InvalidRequest."""
    rows = NOUNS.get(noun)
    if rows is None:
        raise errors.InvalidRequest.of("noun", "unknown", f"one of {', '.join(NOUNS)}")
    if not rows.filter(name=name).exists():
        raise errors.InvalidRequest.of("name", "unknown", f"no {noun} of this name")
    return f"{noun}:{name}"


def _checked(
    noun: str,
    *,
    alone: str = "shares",
    own: str = "",
    driver_min: str = "",
    driver_below: str = "",
    runtime_min: str = "",
    tenants: Sequence[UUID] = (),
) -> dict[str, Any]:
    """The columns that terms as given come to. Raises InvalidRequest, naming the field."""
    levels = {level.name.lower(): level for level in Alone}
    if alone not in levels:
        raise errors.InvalidRequest.of("alone", "unknown", f"one of {', '.join(levels)}")
    if own not in OWN:
        raise errors.InvalidRequest.of("own", "unknown", "empty, with or apart")
    if tenants and noun != "pool":
        raise errors.InvalidRequest.of(
            "tenants", "not_allowed", "only a pool is dedicated to tenants"
        )
    known = set(Tenant.objects.filter(pk__in=tenants).values_list("pk", flat=True))
    if set(tenants) - known:
        raise errors.InvalidRequest.of("tenants", "unknown", "no tenant of this id")
    return {
        "alone": int(levels[alone]),
        "own": own,
        "driver_min": _version("driver_min", driver_min),
        "driver_below": _version("driver_below", driver_below),
        "runtime_min": _version("runtime_min", runtime_min),
        "tenants": sorted(map(str, tenants)),
    }


@dataclass(frozen=True, slots=True)
class TermsPreview:
    """What other terms of one noun would touch, before they are set."""

    about: str
    changes: list[tuple[str, Any, Any]]
    unrealisable: list[str]
    """Published SKUs that an approved host can realise now, and none could then."""
    ruled_out: int
    """Hosts in service that meet the terms now and would not then."""
    running: int
    """Live allocations that keep what they were promised."""
    running_names: list[str]
    shut_out: list[str]
    """Tenants that hold something in the pool, or could, and may place nothing more there."""

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def terms_preview(*, noun: str, name: str, **given: Any) -> TermsPreview:
    """What these terms would touch. Writes nothing; raises as ``terms_set`` does."""
    about = about_of(noun, name)
    said = _checked(noun, **given)
    row = PlacementTerms.objects.filter(about=about).first() or PlacementTerms(about=about)
    before = {field: getattr(row, field) for field in said}
    lost, ruled_out = _realisable(noun, name, before, said)
    live = Allocation.objects.exclude(state=AllocationState.RELEASED)
    where = {"sku": "sku__name", "tier": "tier", "pool": "node__pool__name"}[noun]
    mine = live.filter(**{where: name})
    shut = Tenant.objects.none()
    if said["tenants"]:
        shut = Tenant.objects.filter(allocations__in=mine).exclude(pk__in=said["tenants"])
    return TermsPreview(
        about=about,
        changes=[
            (field, told_term(field, before[field]), told_term(field, value))
            for field, value in said.items()
            if before[field] != value
        ],
        unrealisable=lost,
        ruled_out=ruled_out,
        running=mine.count(),
        running_names=sorted(mine.order_by("pk").values_list("name", flat=True)[:SHOWN]),
        shut_out=sorted(shut.distinct().values_list("slug", flat=True)),
    )


def _realisable(
    noun: str, name: str, before: Mapping[str, Any], then: Mapping[str, Any]
) -> tuple[list[str], int]:
    """The SKUs that no host could realise any more, and how many hosts are ruled out."""
    hosts = idle_hosts()
    lost: list[str] = []
    out: dict[tuple[str, str], int] = {}
    rows = {row["about"]: row for row in PlacementTerms.objects.values("about", *before)}
    for home, product in sold_now():
        others = [
            rows[about]
            for about in (f"sku:{product.sku}", f"pool:{home[0]}")
            if about in rows and about != f"{noun}:{name}"
        ]
        touched = noun == "tier" or name in ((product.sku,) if noun == "sku" else (home[0],))
        if not touched:
            continue
        groups = hosts.get(home, [])
        now = [g for g in groups if serves(_with(product, [*others, before]), g)]
        after = [g for g in now if serves(_with(product, [*others, then]), g)]
        out[home] = max(out.get(home, 0), sum(g.hosts for g in now) - sum(g.hosts for g in after))
        if now and not after:
            lost.append(product.sku)
    return lost, sum(out.values())


def _with(product: Sold, rows: Sequence[Mapping[str, Any]]) -> Sold:
    """The product with the terms of these rows together."""
    return replace(product, terms=merged(rows))


def told_term(field: str, value: Any) -> Any:
    """A term's stored value as people give it."""
    if field == "alone":
        return Alone(value).name.lower()
    if field in VERSIONS:
        return told(tuple(value))
    return value


@transaction.atomic
def terms_set(
    *, noun: str, name: str, reason: str, actor: Actor, seen: str | None = None, **given: Any
) -> PlacementTerms:
    """All terms of one SKU, tier or pool, from now on; what runs keeps what it was promised.

    ``alone``: shares, wiring or node. ``own``: empty, with or apart. Versions are numbers joined
    by dots. ``tenants`` dedicates a pool. ``seen`` is the digest of the preview that was looked
    at. Raises InvalidRequest naming the field, PreviewStale when it would touch something else.
    """
    why = need_reason(reason)
    about = about_of(noun, name)
    said = _checked(noun, **given)
    row = PlacementTerms.objects.select_for_update().filter(about=about).first()
    if seen is not None:
        digest = terms_preview(noun=noun, name=name, **given).digest
        if digest != seen:
            raise PreviewStale("What the terms touch has changed.", digest=digest)
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
            raise errors.InvalidRequest.of(field, "out_of_range", "0 to 1000000")
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
        if not is_taken(raced):
            raise
        raise errors.ConcurrentUpdate("Somebody else set weights at the same moment.") from raced
    transaction.on_commit(outlook.forget)
    return row
