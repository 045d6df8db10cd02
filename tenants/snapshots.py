"""How much does a tenant hold, borrow and lend of a class, and how much more could it take?

The snapshot from which decisions and quota bars are made; what commits is the counter itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import F, Sum
from django.db.models.functions import Greatest

from gpuaas.kernel.scope import platform_scope
from tenants.domain.cohorts import Pot, Share, Tree, available
from tenants.models import Cohort, CohortCounter, ProjectQuota, QuotaCounter


@dataclass(frozen=True, slots=True)
class QuotaState:
    """One class of one tenant, in milli-units.

    ``free_milli`` is what could be taken now: the tenant's own limit, every cohort above it
    and the project are in it. ``borrowed_milli`` is what it holds beyond its nominal,
    ``lendable_milli`` what of its nominal others could use now, and ``lent_milli`` what they do:
    all that is borrowed in its tree of cohorts, divided over those who have something unused to
    lend, in proportion to it, since a pot does not know whose unit it was.
    """

    resource_class: str
    limit_milli: int
    borrow_milli: int
    used_milli: int
    grandfathered_milli: int
    guaranteed_milli: int
    free_milli: int
    lent_milli: int
    lendable_milli: int
    borrowed_milli: int
    cohort: str
    cohort_free_milli: int | None
    project_limit_milli: int | None
    project_used_milli: int
    admitting: bool


@dataclass(frozen=True, slots=True)
class CohortNode:
    """One cohort and class for the operator's page, in milli-units."""

    name: str
    title: str
    parent: str
    depth: int
    tenants: int
    resource_class: str
    quota_milli: int
    used_milli: int
    guaranteed_milli: int
    borrow_milli: int | None
    lend_milli: int | None
    grandfathered_milli: int


def share_of(counter: QuotaCounter) -> Share:
    """A tenant's counter as the pure arithmetic takes it."""
    return Share(
        nominal=counter.limit_milli,
        borrow=counter.borrow_milli,
        lend=counter.limit_milli - counter.guaranteed_milli,
        used=counter.used_milli,
        cohort=str(counter.cohort_id) if counter.cohort_id else None,
        grandfathered=counter.grandfathered_milli,
    )


def pot_of(cohort: Cohort, row: CohortCounter | None) -> Pot:
    """A cohort's counter of a class as the pure arithmetic takes it; empty without a row."""
    return Pot(
        parent=str(cohort.parent_id) if cohort.parent_id else None,
        quota=row.quota_milli if row else 0,
        used=row.used_milli if row else 0,
        borrow=row.borrow_milli if row else None,
        lend=row.lend_milli if row else None,
        grandfathered=row.grandfathered_milli if row else 0,
    )


def _parents() -> dict[UUID, Cohort]:
    return {cohort.pk: cohort for cohort in Cohort.objects.all()}


def quota_states(tenant_id: UUID, project_id: UUID | None = None) -> list[QuotaState]:
    """The tenant's classes by name. Read in a few statements: for people and for decisions."""
    mine = QuotaCounter.objects.filter(tenant_id=tenant_id).select_related("resource_class")
    counters = list(mine.order_by("resource_class__name"))
    with platform_scope():
        above = _parents() if any(counter.cohort_id for counter in counters) else {}
        pots: dict[tuple[UUID, UUID], CohortCounter] = {
            (pot.cohort_id, pot.resource_class_id): pot
            for pot in CohortCounter.objects.filter(cohort__in=list(above))
        }
        traded = _traded({c.cohort_id for c in counters if c.cohort_id}, above)
        projects = {
            row.resource_class_id: row
            for row in ProjectQuota.objects.filter(tenant_id=tenant_id)
            if row.project_id == project_id
        }
    return [
        _state(counter, above, pots, projects.get(counter.resource_class_id), traded)
        for counter in counters
    ]


def _root(cohort_id: UUID, above: dict[UUID, Cohort]) -> UUID:
    while (parent := above[cohort_id].parent_id) is not None:
        cohort_id = parent
    return cohort_id


def _traded(mine: set[UUID], above: dict[UUID, Cohort]) -> dict[UUID, tuple[int, int]]:
    """By class: what is borrowed in the trees of these cohorts, and what is unused to lend."""
    roots = {_root(cohort, above) for cohort in mine}
    rows = (
        QuotaCounter.objects.filter(cohort__in=[c for c in above if _root(c, above) in roots])
        .values_list("resource_class_id")
        .annotate(
            borrowed=Sum(Greatest(F("used_milli") - F("limit_milli"), 0)),
            unused=Sum(Greatest(F("limit_milli") - Greatest("used_milli", "guaranteed_milli"), 0)),
        )
    )
    return {kind: (borrowed, unused) for kind, borrowed, unused in rows} if roots else {}


def _state(
    counter: QuotaCounter,
    above: dict[UUID, Cohort],
    pots: dict[tuple[UUID, UUID], CohortCounter],
    project: ProjectQuota | None,
    traded: dict[UUID, tuple[int, int]],
) -> QuotaState:
    known: dict[str, Pot] = {}
    cohort_id = counter.cohort_id
    while cohort_id is not None:
        cohort = above[cohort_id]
        row = pots.get((cohort_id, counter.resource_class_id))
        known[str(cohort_id)] = pot_of(cohort, row)
        cohort_id = cohort.parent_id
    share = share_of(counter)
    name = "tenant"
    free = available(Tree({name: share}, known), name)
    roomy = Share(nominal=2**62, lend=None, used=share.used, cohort=share.cohort)
    cohort_free = available(Tree({name: roomy}, known), name) if share.cohort else None
    limit = project.limit_milli if project else None
    if project is not None and limit is not None:
        free = max(0, min(free, limit + project.grandfathered_milli - project.used_milli))
    kept = max(share.used, share.guaranteed)
    lendable = max(0, counter.limit_milli - kept) if share.cohort else 0
    borrowed, unused = traded.get(counter.resource_class_id, (0, 0))
    return QuotaState(
        resource_class=counter.resource_class.name,
        limit_milli=counter.limit_milli,
        borrow_milli=counter.borrow_milli,
        used_milli=counter.used_milli,
        grandfathered_milli=counter.grandfathered_milli,
        guaranteed_milli=counter.guaranteed_milli,
        free_milli=free,
        lent_milli=min(lendable, borrowed * lendable // unused) if unused else 0,
        lendable_milli=lendable,
        borrowed_milli=max(0, share.used - share.nominal),
        cohort=above[counter.cohort_id].name if counter.cohort_id else "",
        cohort_free_milli=cohort_free,
        project_limit_milli=limit,
        project_used_milli=project.used_milli if project else 0,
        admitting=counter.admitting,
    )


def quota_state(
    tenant_id: UUID, resource_class: str, project_id: UUID | None = None
) -> QuotaState | None:
    """One class of the tenant's; None when it has no counter of it."""
    states = quota_states(tenant_id, project_id)
    return next((state for state in states if state.resource_class == resource_class), None)


def cohort_tree() -> list[CohortNode]:
    """Every cohort and class, parents before children (operators)."""
    members = {c.pk: c.tenants.count() for c in Cohort.objects.prefetch_related("tenants")}
    rows = CohortCounter.objects.select_related("cohort__parent", "resource_class")
    counted = [
        CohortNode(
            name=row.cohort.name,
            title=row.cohort.title,
            parent=row.cohort.parent.name if row.cohort.parent else "",
            depth=row.cohort.depth,
            tenants=members[row.cohort_id],
            resource_class=row.resource_class.name,
            quota_milli=row.quota_milli,
            used_milli=row.used_milli,
            guaranteed_milli=row.guaranteed_milli,
            borrow_milli=row.borrow_milli,
            lend_milli=row.lend_milli,
            grandfathered_milli=row.grandfathered_milli,
        )
        for row in rows
    ]
    return sorted(counted, key=lambda node: (node.resource_class, node.depth, node.name))
