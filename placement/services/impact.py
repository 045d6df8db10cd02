"""Whom and what would a change of quota touch?  Told before it is made.

The same arithmetic that decides is asked twice, on the counters as they are read now: as it
is, and as it would be. What commits is computed again under locks; ``digest`` lets a
confirmation say that the reader saw these very numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from placement.models import Claim
from placement.states import LIVE
from tenants.domain import cohorts
from tenants.domain.cohorts import Pot, Share, Tree, available
from tenants.errors import PreviewStale
from tenants.models import (
    Cohort,
    CohortCounter,
    Envelope,
    EnvelopeVersion,
    QuotaCounter,
    ResourceClass,
    Tenant,
)
from tenants.services.envelopes import KEEP, Keep
from tenants.services.quota import agreed
from tenants.snapshots import pot_of, share_of

Change = Callable[[Tree], Tree]
PART_DIGITS = 12
"""Of the hash of each part: five of them and their dots are 64 characters."""


@dataclass(frozen=True, slots=True)
class Touched:
    """One tenant or cohort whose numbers change, in milli-units.

    ``free`` is what it could take at once, ``excess`` what it holds beyond its limits. A
    cohort has no ``free`` of its own.
    """

    name: str
    cohort: bool
    free: tuple[int, int] | None
    excess: tuple[int, int]

    @property
    def worse(self) -> bool:
        """Whether it could take less, or holds more than it may."""
        less = self.free is not None and self.free[1] < self.free[0]
        return less or self.excess[1] > self.excess[0]


@dataclass(frozen=True, slots=True)
class Term:
    """One number of an envelope before and after, in milli-units; None is all, or none yet."""

    name: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change touches, for one class."""

    resource_class: str
    touched: tuple[Touched, ...]
    terms: tuple[Term, ...] = ()
    burst_milli: int = 0
    """What open bursts let it borrow beyond these terms."""
    used_milli: int = 0
    excess_milli: int = 0
    allocations: int = 0
    later: tuple[str, ...] = ()
    """Versions that are to come into force already and would follow this one."""

    def parts(self) -> tuple[list[str], ...]:
        """What it says, one number a line, in milli-units; the parts of its digest."""
        held = [f"held: {self.used_milli} in {self.allocations}", f"excess: {self.excess_milli}"]
        return (
            [f"{self.resource_class} {t.name}: {t.before} to {t.after}" for t in self.terms],
            held,
            [f"{t.name}: free {t.free}, excess {t.excess}" for t in self.touched],
            [f"bursts: {self.burst_milli}"],
            [f"later: {', '.join(self.later)}"],
        )

    def lines(self) -> list[str]:
        """All that it says."""
        return [line for part in self.parts() for line in part]

    @property
    def digest(self) -> str:
        """What a confirmation names, so that nothing else is confirmed.

        A short hash of each part, so that a confirmation of something else can be told which.
        """
        return ".".join(
            hashlib.sha256("\n".join(part).encode()).hexdigest()[:PART_DIGITS]
            for part in self.parts()
        )


def stale(shown: Impact, now: Impact) -> PreviewStale | None:
    """The refusal of a confirmation of what was shown, with the lines that differ by now."""
    if shown.digest == now.digest:
        return None
    before = set(shown.lines())
    changed = [line for line in now.lines() if line not in before]
    return PreviewStale(f"Meanwhile it would be another: {'; '.join(changed)}.", changed=changed)


def stale_digest(seen: str, now: Impact) -> PreviewStale | None:
    """As ``stale`` where only the digest of what was shown is known: the parts that differ."""
    if seen == now.digest:
        return None
    told = seen.split(".")
    parts = now.parts()
    if len(told) != len(parts):
        told = [""] * len(parts)
    marks = now.digest.split(".")
    changed = [
        line
        for part, mark, before in zip(parts, marks, told, strict=True)
        if mark != before
        for line in part
    ]
    return PreviewStale(
        f"Meanwhile it would be another: {'; '.join(changed)}.", changed=changed, digest=now.digest
    )


def tree_now(kind: ResourceClass, *also: Tenant) -> tuple[Tree, dict[str, str]]:
    """Everything that shares in a class, and ``also`` those named; with their names by id."""
    names: dict[str, str] = {}
    shares: dict[str, Share] = {}
    for counter in QuotaCounter.objects.filter(resource_class=kind).select_related("tenant"):
        names[str(counter.tenant_id)] = counter.tenant.name
        shares[str(counter.tenant_id)] = share_of(counter)
    for tenant in also:
        cohort = str(tenant.cohort_id) if tenant.cohort_id else None
        names[str(tenant.pk)] = tenant.name
        shares.setdefault(str(tenant.pk), Share(nominal=0, cohort=cohort))
    rows = {row.cohort_id: row for row in CohortCounter.objects.filter(resource_class=kind)}
    pots: dict[str, Pot] = {}
    for each in Cohort.objects.all():
        names[str(each.pk)] = each.title or each.name
        pots[str(each.pk)] = pot_of(each, rows.get(each.pk))
    return Tree(shares, pots), names


def compared(before: Tree, change: Change, names: dict[str, str]) -> tuple[Touched, ...]:
    """Everybody whose numbers differ after the change, tenants first, by name."""
    after = change(before)
    found = []
    for key, share in before.shares.items():
        then = after.shares[key]
        free = (available(before, key), available(after, key))
        excess = (share.grandfathered, then.grandfathered)
        if free[0] != free[1] or excess[0] != excess[1]:
            found.append(Touched(names[key], False, free, excess))
    for key, pot in before.pots.items():
        excess = (pot.grandfathered, after.pots[key].grandfathered)
        if excess[0] != excess[1]:
            found.append(Touched(names[key], True, None, excess))
    return tuple(sorted(found, key=lambda one: (one.cohort, one.name)))


def envelope_impact(
    tenant: Tenant,
    kind: ResourceClass,
    *,
    nominal_milli: int,
    borrow_milli: int | Keep,
    lend_milli: int | Keep | None,
    start: datetime | None,
) -> Impact:
    """What another envelope of a class would touch; ``start`` None is now."""
    row = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
    kept_borrow, kept_lend = (row.borrow_milli, row.lend_milli) if row else (0, None)
    borrow = kept_borrow if borrow_milli is KEEP else borrow_milli
    lend = kept_lend if lend_milli is KEEP else lend_milli
    burst = agreed(tenant, kind)[1] - kept_borrow
    tree, names = tree_now(kind, tenant)
    key = str(tenant.pk)
    reach = borrow + burst

    def change(before: Tree) -> Tree:
        return cohorts.change(before, key, nominal=nominal_milli, borrow=reach, lend=lend)

    claims = Claim.objects.filter(
        allocation__tenant=tenant, resource_class=kind, holder="tenant", state__in=LIVE
    )
    later = EnvelopeVersion.objects.filter(
        tenant=tenant, resource_class=kind, applied_at=None, cancelled_at=None
    )
    if start is not None:
        later = later.filter(effective_from__gte=start)
    return Impact(
        resource_class=kind.name,
        touched=compared(tree, change, names),
        terms=(
            Term("nominal", row.nominal_milli if row else None, nominal_milli),
            Term("may borrow beyond it", row.borrow_milli if row else None, borrow),
            Term("lends when unused", row.lend_milli if row else None, lend),
        ),
        burst_milli=burst if tenant.cohort_id else 0,
        used_milli=tree.shares[key].used,
        excess_milli=change(tree).shares[key].grandfathered,
        allocations=claims.values("allocation_id").distinct().count(),
        later=tuple(f"v{v.version}" for v in later.order_by("effective_from")),
    )


def move_impact(tenant: Tenant, cohort: Cohort | None) -> list[Impact]:
    """What moving a tenant into a cohort, or out of all, touches, class by class."""
    held = QuotaCounter.objects.filter(tenant=tenant).values("resource_class_id")
    key, target = str(tenant.pk), str(cohort.pk) if cohort else None
    found = []
    for kind in ResourceClass.objects.filter(pk__in=held).order_by("name"):
        nominal, borrow, lend = agreed(tenant, kind)

        def change(
            before: Tree, terms: tuple[int, int, int | None] = (nominal, borrow, lend)
        ) -> Tree:
            moved = cohorts.move(before, key, target)
            return cohorts.change(moved, key, nominal=terms[0], borrow=terms[1], lend=terms[2])

        tree, names = tree_now(kind, tenant)
        found.append(Impact(kind.name, compared(tree, change, names)))
    return [impact for impact in found if impact.touched]


def bound_impact(
    cohort: Cohort, kind: ResourceClass, *, borrow_milli: int | None, lend_milli: int | None
) -> Impact:
    """What other limits of a cohort touch."""
    tree, names = tree_now(kind)
    touched = compared(
        tree,
        lambda now: cohorts.bound(now, str(cohort.pk), borrow=borrow_milli, lend=lend_milli),
        names,
    )
    return Impact(kind.name, touched)


def digest_of(impacts: list[Impact]) -> str:
    """What a confirmation of several classes at once names."""
    return hashlib.sha256(repr(impacts).encode()).hexdigest()
