"""What is in force for a tenant's quota of a class, and how is it brought there?

Everything that changes a limit comes through ``enforce``: it locks the tenant's counter and
then its cohorts' from the deepest to the root, as a charge does, and writes what the pure
arithmetic says. A placement beside it sees all of the old limits or all of the new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet, Sum

from gpuaas.kernel import clock, errors, events, sweeping
from gpuaas.kernel.actor import Actor, system
from gpuaas.kernel.scope import platform_scope
from tenants.domain import cohorts
from tenants.domain.amounts import BadAmount, clean_amount
from tenants.domain.cohorts import Share, Tree
from tenants.models import (
    BurstRule,
    Cohort,
    CohortCounter,
    Envelope,
    OnExcess,
    QuotaCounter,
    ResourceClass,
    Tenant,
)
from tenants.snapshots import pot_of, share_of
from tenants.states import BurstState, TenantState

DRAIN_AGAIN_S = 300
"""How long an announced drain may take before it is announced again."""
PART = system("quota")


@dataclass(frozen=True, slots=True)
class Excess:
    """What is to happen with what is held beyond a lowered limit."""

    policy: str
    after_s: int = 0


def amount(value: object, pointer: str, *, least: int = 0) -> int:
    """The checked integer. Raises InvalidRequest naming the field."""
    try:
        return clean_amount(value, least=least)
    except BadAmount as bad:
        raise errors.InvalidRequest(
            f"The amount is refused: {bad}.",
            errors=(errors.FieldError(pointer, "out_of_range", str(bad)),),
        ) from bad


def class_named(name: str, *, pointer: str = "") -> ResourceClass:
    """The resource class of this name.

    Raises InvalidRequest naming the field at ``pointer``, or NotFound where the class is
    part of the address.
    """
    kind = ResourceClass.objects.filter(name=name).first()
    if kind is not None:
        return kind
    detail = f"There is no resource class {name!r}."
    if not pointer:
        raise errors.NotFound(detail)
    known = "no class of this name; quota and offers name them"
    raise errors.InvalidRequest(detail, errors=(errors.FieldError(pointer, "unknown", known),))


def tenant_locked(tenant_id: UUID) -> Tenant:
    """The tenant under its lock, which everything that changes its quota takes first."""
    tenant = Tenant.objects.select_for_update(no_key=True).filter(pk=tenant_id).first()
    if tenant is None:
        raise errors.NotFound
    return tenant


def counter_locked(tenant: Tenant, kind: ResourceClass) -> QuotaCounter:
    """The tenant's counter of the class under its lock, made if there is none.

    The tenant's row is locked, so that its state cannot change before the counter is made.
    """
    QuotaCounter.objects.bulk_create(
        [
            QuotaCounter(
                tenant=tenant,
                resource_class=kind,
                cohort_id=tenant.cohort_id,
                admitting=tenant.state == TenantState.ACTIVE,
            )
        ],
        ignore_conflicts=True,
    )
    return QuotaCounter.objects.select_for_update(no_key=True).get(
        tenant=tenant, resource_class=kind
    )


def ancestors(cohort_id: UUID | None) -> list[Cohort]:
    """A cohort and those above it, up to the root."""
    out: list[Cohort] = []
    while cohort_id is not None:
        cohort = Cohort.objects.get(pk=cohort_id)
        out.append(cohort)
        cohort_id = cohort.parent_id
    return out


def pots_locked(chain: list[Cohort], kind: ResourceClass) -> dict[str, CohortCounter]:
    """The cohorts' counters of the class under their locks, by cohort id, made if missing.

    Locked from the deepest to the root: the order in which charges go.
    """
    ordered = sorted({c.pk: c for c in chain}.values(), key=lambda c: (-c.depth, c.pk))
    CohortCounter.objects.bulk_create(
        [CohortCounter(cohort=cohort, resource_class=kind) for cohort in ordered],
        ignore_conflicts=True,
    )
    locked = {}
    for cohort in ordered:
        locked[str(cohort.pk)] = CohortCounter.objects.select_for_update(no_key=True).get(
            cohort=cohort, resource_class=kind
        )
    return locked


def tree_of(
    chain: list[Cohort], locked: dict[str, CohortCounter], shares: dict[str, Share]
) -> Tree:
    """The locked counters as the pure arithmetic takes them."""
    known = {str(cohort.pk): cohort for cohort in chain}
    return Tree(shares, {name: pot_of(known[name], row) for name, row in locked.items()})


def pots_save(tree: Tree, locked: dict[str, CohortCounter]) -> None:
    """Write what the arithmetic says into the locked counters."""
    for name, row in locked.items():
        pot = tree.pots[name]
        row.quota_milli, row.used_milli = pot.quota, pot.used
        row.borrow_milli, row.lend_milli = pot.borrow, pot.lend
        row.guaranteed_milli, row.grandfathered_milli = pot.guaranteed, pot.grandfathered
        row.save()


def agreed(tenant: Tenant, kind: ResourceClass) -> tuple[int, int, int | None]:
    """Nominal, borrowing limit with what open bursts add, and lending limit."""
    envelope = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
    extra = BurstRule.objects.filter(
        tenant=tenant, resource_class=kind, state=BurstState.OPEN
    ).aggregate(total=Sum("extra_milli"))["total"]
    if envelope is None:
        return 0, 0, None
    return envelope.nominal_milli, envelope.borrow_milli + (extra or 0), envelope.lend_milli


def enforce(
    tenant: Tenant, kind: ResourceClass, *, actor: Actor, excess: Excess | None = None
) -> QuotaCounter:
    """Bring the counter, and its cohorts', to what has been agreed; the tenant is locked.

    What is held beyond the new limit is grandfathered and, under a drain, released later.
    """
    nominal, borrow, lend = agreed(tenant, kind)
    counter = counter_locked(tenant, kind)
    old = str(counter.cohort_id) if counter.cohort_id else None
    new = str(tenant.cohort_id) if tenant.cohort_id else None
    chain = ancestors(counter.cohort_id)
    if new != old:
        chain += ancestors(tenant.cohort_id)
    locked = pots_locked(chain, kind)
    name = str(tenant.pk)
    share = share_of(counter)
    tree = tree_of(chain, locked, {name: share})
    if new != old:
        tree = cohorts.move(tree, name, new)
    tree = cohorts.change(tree, name, nominal=nominal, borrow=borrow, lend=lend)
    pots_save(tree, locked)
    after = tree.shares[name]
    counter.limit_milli, counter.borrow_milli = after.nominal, after.borrowing
    counter.guaranteed_milli, counter.grandfathered_milli = after.guaranteed, after.grandfathered
    counter.cohort_id = tenant.cohort_id
    _plan_drain(counter, excess)
    counter.save()
    if after.grandfathered > share.grandfathered:
        _tell_excess(tenant, kind, counter, actor)
    return counter


def _plan_drain(counter: QuotaCounter, excess: Excess | None) -> None:
    if counter.grandfathered_milli == 0:
        counter.drain_at = None
    elif excess is not None:
        drains = excess.policy == OnExcess.DRAIN
        after = timedelta(seconds=excess.after_s)
        counter.drain_at = clock.db_now() + after if drains else None


def _tell_excess(tenant: Tenant, kind: ResourceClass, counter: QuotaCounter, actor: Actor) -> None:
    """The tenant hears at once that it holds more than it may, and what will happen."""
    events.record(
        kind="tenants.quota.excess",
        subject=tenant,
        actor=actor,
        facts={
            "resource_class": kind.name,
            "excess_milli": counter.grandfathered_milli,
            "limit_milli": counter.limit_milli,
            "drain_at": counter.drain_at,
        },
    )


def quota_return(
    *, tenant_id: UUID, amounts: dict[UUID, int], project_id: UUID | None = None
) -> None:
    """Give back what ended claims took, in the transaction that ends them.

    ``amounts`` maps resource class id to milli-units. Counters are locked in one order,
    last in the transaction, because they are the hottest rows.
    """
    with platform_scope(), connection.cursor() as cursor:
        for class_id in sorted(amounts):
            cursor.execute(
                "SELECT tenants_give_back(%s, %s, %s, %s)",
                [tenant_id, project_id, class_id, amounts[class_id]],
            )


def drains_announce() -> int:
    """Say for each counter whose drain is due how much has to go; returns how many.

    Whoever hears it releases the newest allocations. It is said again while an excess stays.
    """

    def steps(tenant_id: UUID) -> Iterable[int]:
        rows = _to_announce().filter(tenant=tenant_id)
        return map(_drain_announce, list(rows.values_list("pk", flat=True)))

    return sweeping.in_order("tenants.drains", _tenants_to_tell, steps)


def draining() -> QuerySet[QuotaCounter]:
    """Counters whose excess is to be released now, the longest due first."""
    return QuotaCounter.objects.filter(drain_at__lte=clock.db_now()).order_by("drain_at", "pk")


def _to_announce() -> QuerySet[QuotaCounter]:
    """Those of them of which nobody was told, or not lately."""
    again = clock.db_now() - timedelta(seconds=DRAIN_AGAIN_S)
    return draining().filter(
        Q(drain_told_at__isnull=True)
        | Q(drain_told_at__lt=F("drain_at"))
        | Q(drain_told_at__lte=again)
    )


def _tenants_to_tell(resting: Collection[UUID]) -> list[UUID]:
    due = _to_announce().exclude(tenant__in=resting).values_list("tenant", flat=True)
    return list(dict.fromkeys(due))


@transaction.atomic
def _drain_announce(counter_id: int) -> int:
    counter = (
        _to_announce()
        .select_for_update(no_key=True, skip_locked=True, of=("self",))
        .select_related("tenant", "resource_class")
        .filter(pk=counter_id)
        .first()
    )
    if counter is None:
        return 0
    counter.drain_told_at = clock.db_now()
    counter.save(update_fields=["drain_told_at"])
    events.record(
        kind="tenants.quota.drain",
        subject=counter.tenant,
        actor=PART,
        reason="envelope_exceeded",
        facts={
            "resource_class": counter.resource_class.name,
            "class_id": str(counter.resource_class_id),
            "excess_milli": counter.grandfathered_milli,
        },
    )
    return 1
