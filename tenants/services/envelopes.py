"""How does what a tenant, or one of its projects, may hold change, and from when?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from enum import Enum
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Min, QuerySet

from gpuaas.kernel import clock, errors, events, sweeping
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from tenants.errors import (
    EnvelopeBelowUse,
    ProjectQuotaBelowUse,
    TenantNotActive,
    VersionInForce,
)
from tenants.models import (
    Envelope,
    EnvelopeVersion,
    OnExcess,
    Project,
    ProjectQuota,
    ResourceClass,
    Tenant,
)
from tenants.services.quota import (
    PART,
    Excess,
    amount,
    ancestors,
    class_named,
    counter_locked,
    enforce,
    pots_locked,
    tenant_locked,
)
from tenants.states import TenantState

GONE = (TenantState.DELETING, TenantState.DELETED, TenantState.REJECTED)
DRAIN_AFTER_S = 86_400
LONGEST_DRAIN_S = 90 * 86_400


class Keep(Enum):
    """The value that leaves a field as the version before had it."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


def _policy(on_excess: str | None) -> str | None:
    if on_excess is not None and on_excess not in OnExcess.values:
        raise errors.InvalidRequest(
            f"There is no policy {on_excess!r}.",
            errors=(errors.FieldError("/on_excess", "unknown", ", ".join(OnExcess.values)),),
        )
    return on_excess


def _draft(
    tenant: Tenant,
    kind: ResourceClass,
    *,
    nominal_milli: object,
    borrow_milli: object,
    lend_milli: object,
    on_excess: str | None,
    drain_after_s: int,
    effective_from: datetime,
    reason: str,
    actor: Actor,
) -> EnvelopeVersion:
    """The next version, checked and written; not in force yet."""
    if tenant.state in GONE:
        raise TenantNotActive(f"The tenant is {tenant.state}.", state=tenant.state)
    if not 0 <= drain_after_s <= LONGEST_DRAIN_S:
        raise errors.InvalidRequest(
            f"A drain begins within {LONGEST_DRAIN_S} seconds.",
            errors=(
                errors.FieldError("/drain_after_s", "out_of_range", f"0 to {LONGEST_DRAIN_S}"),
            ),
        )
    before = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
    versions = EnvelopeVersion.objects.filter(tenant=tenant, resource_class=kind)
    last = versions.aggregate(last=Max("version"))["last"] or 0
    if borrow_milli is KEEP:
        borrow = before.borrow_milli if before else 0
    else:
        borrow = amount(borrow_milli, "/borrow_milli")
    if lend_milli is KEEP:
        lend = before.lend_milli if before else None
    else:
        lend = None if lend_milli is None else amount(lend_milli, "/lend_milli")
    return EnvelopeVersion.objects.create(
        tenant=tenant,
        resource_class=kind,
        version=max(last, before.version if before else 0) + 1,
        nominal_milli=amount(nominal_milli, "/nominal_milli"),
        borrow_milli=borrow,
        lend_milli=lend,
        on_excess=_policy(on_excess) or OnExcess.GRANDFATHER,
        drain_after_s=drain_after_s,
        effective_from=effective_from,
        reason=reason,
        actor=actor.as_json(),
    )


def _apply(version: EnvelopeVersion, tenant: Tenant, actor: Actor) -> Envelope:
    """Put a version in force; the tenant is locked."""
    kind = version.resource_class
    terms = {
        "nominal_milli": version.nominal_milli,
        "borrow_milli": version.borrow_milli,
        "lend_milli": version.lend_milli,
    }
    row = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
    before = None if row is None else {name: getattr(row, name) for name in terms}
    envelope, _ = Envelope.objects.update_or_create(
        tenant=tenant, resource_class=kind, defaults={**terms, "version": version.version}
    )
    version.applied_at = clock.db_now()
    version.save(update_fields=["applied_at"])
    counter = enforce(
        tenant, kind, actor=actor, excess=Excess(version.on_excess, version.drain_after_s)
    )
    events.record(
        kind="tenants.envelope.set",
        subject=envelope,
        actor=actor,
        before=before or {"nominal_milli": None},
        after={**terms, "resource_class": kind.name},
        reason=version.reason,
        facts={
            "version": version.version,
            "on_excess": version.on_excess,
            "grandfathered_milli": counter.grandfathered_milli,
        },
    )
    return envelope


@transaction.atomic
def envelope_set(
    *,
    tenant_id: UUID,
    resource_class: str,
    nominal_milli: int,
    reason: str,
    actor: Actor,
    borrow_milli: int | Keep = KEEP,
    lend_milli: int | Keep | None = KEEP,
    on_excess: str | None = None,
    drain_after_s: int = DRAIN_AFTER_S,
    confirm: Callable[[], None] | None = None,
) -> Envelope:
    """Set what the tenant may hold of a class, from now on, as a new version.

    ``confirm`` is asked under the locks of the tenant's counter and of the cohorts above it,
    through which every charge beside it goes: it raises when what would happen is no more
    what was shown.

    ``lend_milli`` None lends all of the nominal. Below what is held needs a policy for the
    excess (``grandfather`` or ``drain`` after a delay); without one it is refused with
    EnvelopeBelowUse. Raises InvalidRequest naming the field for an amount out of range.
    """
    tenant = tenant_locked(tenant_id)
    kind = class_named(resource_class)
    if confirm is not None:
        counter_locked(tenant, kind)
        pots_locked(ancestors(tenant.cohort_id), kind)
        confirm()
    version = _draft(
        tenant,
        kind,
        nominal_milli=nominal_milli,
        borrow_milli=borrow_milli,
        lend_milli=lend_milli,
        on_excess=on_excess,
        drain_after_s=drain_after_s,
        effective_from=clock.db_now(),
        reason=reason,
        actor=actor,
    )
    used = counter_locked(tenant, kind).used_milli
    most = version.nominal_milli + (version.borrow_milli if tenant.cohort_id else 0)
    if used > most and on_excess is None:
        raise EnvelopeBelowUse(
            f"The tenant holds {used} of {resource_class}; {most} would be less.",
            used_milli=used,
            asked_milli=most,
        )
    return _apply(version, tenant, actor)


@transaction.atomic
def envelope_schedule(
    *,
    tenant_id: UUID,
    resource_class: str,
    nominal_milli: int,
    effective_from: datetime,
    reason: str,
    actor: Actor,
    borrow_milli: int | Keep = KEEP,
    lend_milli: int | Keep | None = KEEP,
    on_excess: str = OnExcess.GRANDFATHER,
    drain_after_s: int = DRAIN_AFTER_S,
    confirm: Callable[[], None] | None = None,
) -> EnvelopeVersion:
    """A version from a moment on; one that lies in the past is in force at once.

    ``confirm`` as of ``envelope_set``.
    """
    tenant = tenant_locked(tenant_id)
    kind = class_named(resource_class)
    if confirm is not None:
        counter_locked(tenant, kind)
        pots_locked(ancestors(tenant.cohort_id), kind)
        confirm()
    version = _draft(
        tenant,
        kind,
        nominal_milli=nominal_milli,
        borrow_milli=borrow_milli,
        lend_milli=lend_milli,
        on_excess=on_excess,
        drain_after_s=drain_after_s,
        effective_from=effective_from,
        reason=reason,
        actor=actor,
    )
    events.record(
        kind="tenants.envelopeversion.schedule",
        subject=version,
        actor=actor,
        after={"nominal_milli": version.nominal_milli, "effective_from": effective_from},
        reason=reason,
    )
    if effective_from <= clock.db_now():
        _apply(version, tenant, actor)
    return version


@transaction.atomic
def envelope_version_cancel(*, version_id: UUID, reason: str, actor: Actor) -> EnvelopeVersion:
    """Call off a version that is not in force yet. Raises VersionInForce for any other."""
    found = EnvelopeVersion.objects.filter(pk=version_id).first()
    if found is None:
        raise errors.NotFound
    tenant_locked(found.tenant_id)
    version = EnvelopeVersion.objects.get(pk=version_id)
    if version.applied_at is not None or version.cancelled_at is not None:
        raise VersionInForce(f"Version {version.version} cannot be called off.")
    version.cancelled_at = clock.db_now()
    version.save(update_fields=["cancelled_at"])
    events.record(
        kind="tenants.envelopeversion.cancel", subject=version, actor=actor, reason=reason
    )
    return version


def envelopes_apply_due() -> int:
    """Put the versions in force whose time has come; returns how many.

    Those of one tenant in their order: one that breaks stops its own tenant's, and no other's.
    """

    def steps(tenant_id: UUID) -> Iterable[int]:
        due = _due().filter(tenant=tenant_id).order_by("effective_from", "version")
        return map(_apply_due, list(due.values_list("pk", flat=True)))

    return sweeping.in_order("tenants.envelopes", _tenants_due, steps)


def _due() -> QuerySet[EnvelopeVersion]:
    return EnvelopeVersion.objects.filter(
        applied_at__isnull=True, cancelled_at__isnull=True, effective_from__lte=clock.db_now()
    )


def _tenants_due(resting: Collection[UUID]) -> list[UUID]:
    """Tenants with versions whose time has come, the longest due first."""
    rows = _due().exclude(tenant__in=resting).values("tenant")
    rows = rows.annotate(first=Min("effective_from")).order_by("first", "tenant")
    return [row["tenant"] for row in rows]


@transaction.atomic
def _apply_due(version_id: UUID) -> int:
    found = EnvelopeVersion.objects.get(pk=version_id)
    tenant = tenant_locked(found.tenant_id)
    version = EnvelopeVersion.objects.select_related("resource_class").get(pk=version_id)
    if version.applied_at is not None or version.cancelled_at is not None:
        return 0
    if tenant.state in GONE:
        version.cancelled_at = clock.db_now()
        version.save(update_fields=["cancelled_at"])
        return 0
    _apply(version, tenant, PART)
    return 1


def project_row_locked(project: Project, kind: ResourceClass) -> ProjectQuota:
    """The project's row of the class under its lock, made if there is none."""
    ProjectQuota.objects.bulk_create(
        [ProjectQuota(tenant_id=project.tenant_id, project=project, resource_class=kind)],
        ignore_conflicts=True,
    )
    return ProjectQuota.objects.select_for_update(no_key=True).get(
        project=project, resource_class=kind
    )


@transaction.atomic
def project_quota_set(
    *,
    project_id: UUID,
    resource_class: str,
    limit_milli: int | None,
    reason: str,
    actor: Actor,
    on_excess: str | None = None,
) -> ProjectQuota:
    """Limit what a project may hold of a class inside the tenant's envelope; None: no limit.

    Below what it holds is refused unless the excess is grandfathered.
    """
    project = Project.objects.filter(pk=project_id, deleted_at__isnull=True).first()
    if project is None:
        raise errors.NotFound
    kind = class_named(resource_class)
    limit = None if limit_milli is None else amount(limit_milli, "/limit_milli")
    with platform_scope():
        row = project_row_locked(project, kind)
        excess = 0 if limit is None else max(0, row.used_milli - limit)
        if excess and _policy(on_excess) != OnExcess.GRANDFATHER:
            raise ProjectQuotaBelowUse(
                f"The project holds {row.used_milli} of {resource_class}; {limit} would be less.",
                used_milli=row.used_milli,
                asked_milli=limit,
            )
        before, row.limit_milli, row.grandfathered_milli = row.limit_milli, limit, excess
        row.save(update_fields=["limit_milli", "grandfathered_milli"])
        events.record(
            kind="tenants.projectquota.set",
            subject=project,
            actor=actor,
            before={"limit_milli": before},
            after={"limit_milli": limit, "resource_class": resource_class},
            reason=reason,
            facts={"grandfathered_milli": excess},
        )
    return row
