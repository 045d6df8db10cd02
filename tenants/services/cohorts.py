"""How do tenants come to share what they do not use?"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from tenants.domain import cohorts as arithmetic
from tenants.domain.names import slug_of
from tenants.errors import CohortNotEmpty, NameTaken, TenantNotActive
from tenants.models import Cohort, CohortCounter, QuotaCounter, ResourceClass, Tenant
from tenants.services.quota import (
    amount,
    ancestors,
    class_named,
    enforce,
    pots_locked,
    pots_save,
    tenant_locked,
    tree_of,
)
from tenants.states import TenantState

DEEPEST = 8


def cohort_named(name: str, *, pointer: str = "") -> Cohort:
    """The cohort of this name.

    Raises InvalidRequest naming the field at ``pointer``, or NotFound where the cohort is part
    of the address.
    """
    cohort = Cohort.objects.filter(name=name).first()
    if cohort is not None:
        return cohort
    detail = f"There is no cohort {name!r}."
    if not pointer:
        raise errors.NotFound(detail)
    raise errors.InvalidRequest(
        detail, errors=(errors.FieldError(pointer, "unknown", "no cohort of this name"),)
    )


@transaction.atomic
def cohort_create(*, name: str, actor: Actor, title: str = "", parent: str | None = None) -> Cohort:
    """A cohort without members; its parent is chosen once and for all."""
    if name != slug_of(name, limit=60) or not name:
        raise errors.InvalidRequest(
            "A cohort's name is a slug: a to z, digits, hyphens.",
            errors=(errors.FieldError("/name", "name_refused", "a slug is needed"),),
        )
    above = cohort_named(parent, pointer="/parent") if parent else None
    depth = above.depth + 1 if above else 0
    if depth >= DEEPEST:
        raise errors.InvalidRequest(
            f"Cohorts are nested {DEEPEST} deep at most.",
            errors=(errors.FieldError("/parent", "out_of_range", f"{DEEPEST} levels"),),
        )
    try:
        with transaction.atomic():
            cohort = Cohort.objects.create(name=name, title=title, parent=above, depth=depth)
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            f"A cohort {name!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a cohort has this name"),),
        ) from taken
    events.record(
        kind="tenants.cohort.create",
        subject=cohort,
        actor=actor,
        after={"name": name, "parent": parent},
    )
    return cohort


@transaction.atomic
def cohort_limits_set(
    *,
    cohort: str,
    resource_class: str,
    borrow_milli: int | None,
    lend_milli: int | None,
    reason: str,
    actor: Actor,
) -> CohortCounter:
    """What a cohort may borrow from its parent (None: no own limit) and lends to it (None: all).

    What its members hold beyond a lowered limit is grandfathered in the cohort's own column.
    """
    row = cohort_named(cohort)
    kind = class_named(resource_class)
    borrow = None if borrow_milli is None else amount(borrow_milli, "/borrow_milli")
    lend = None if lend_milli is None else amount(lend_milli, "/lend_milli")
    chain = ancestors(row.pk)
    locked = pots_locked(chain, kind)
    mine = locked[str(row.pk)]
    before = {"borrow_milli": mine.borrow_milli, "lend_milli": mine.lend_milli}
    tree = arithmetic.bound(tree_of(chain, locked, {}), str(row.pk), borrow=borrow, lend=lend)
    pots_save(tree, locked)
    events.record(
        kind="tenants.cohort.change",
        subject=row,
        actor=actor,
        before=before,
        after={
            "resource_class": resource_class,
            "borrow_milli": borrow,
            "lend_milli": lend,
        },
        reason=reason,
        facts={"grandfathered_milli": mine.grandfathered_milli},
    )
    return mine


@transaction.atomic
def tenant_cohort_set(*, tenant_id: UUID, cohort: str | None, reason: str, actor: Actor) -> Tenant:
    """Put a tenant into a cohort, into another one, or into none.

    Every class moves with it in one transaction: what it lends and what it holds leaves the
    counters of the old cohorts and joins the new ones.
    """
    tenant = tenant_locked(tenant_id)
    if tenant.state in (TenantState.DELETED, TenantState.REJECTED):
        raise TenantNotActive(f"The tenant is {tenant.state}.", state=tenant.state)
    return cohort_move(
        tenant, cohort_named(cohort, pointer="/cohort") if cohort else None, reason, actor
    )


def cohort_move(tenant: Tenant, cohort: Cohort | None, reason: str, actor: Actor) -> Tenant:
    """The same for a tenant that is locked already."""
    before = tenant.cohort
    if before == cohort:
        return tenant
    tenant.cohort = cohort
    tenant.save(update_fields=["cohort"])
    kinds = ResourceClass.objects.filter(
        pk__in=QuotaCounter.objects.filter(tenant=tenant).values("resource_class_id")
    )
    for kind in kinds.order_by("pk"):
        enforce(tenant, kind, actor=actor)
    events.record(
        kind="tenants.tenant.cohort",
        subject=tenant,
        actor=actor,
        before={"cohort": before.name if before else None},
        after={"cohort": cohort.name if cohort else None},
        reason=reason,
    )
    return tenant


@transaction.atomic
def cohort_delete(*, cohort: str, actor: Actor, reason: str = "") -> None:
    """Remove a cohort that has no members. Raises CohortNotEmpty."""
    row = Cohort.objects.select_for_update().filter(name=cohort).first()
    if row is None:
        raise errors.NotFound
    tenants, children = row.tenants.count(), row.children.count()
    if tenants or children:
        raise CohortNotEmpty(
            f"{cohort} has {tenants} tenants and {children} cohorts in it.",
            tenants=tenants,
            cohorts=children,
        )
    events.record(
        kind="tenants.cohort.delete",
        subject=row,
        actor=actor,
        before={"name": row.name},
        reason=reason,
    )
    row.delete()
