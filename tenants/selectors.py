"""What is so, about tenants, what is sold and how much is theirs?"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from gpuaas.kernel import clock, errors
from tenants.models import (
    ApiToken,
    BurstRule,
    DataSet,
    Envelope,
    EnvelopeVersion,
    Member,
    Project,
    QuotaCounter,
    QuotaIncrease,
    Sku,
    SkuPrice,
    SshKey,
    Storage,
    Tenant,
    User,
)
from tenants.states import TenantState


def tenant_list() -> QuerySet[Tenant]:
    """Every tenant, newest first (operators)."""
    return Tenant.objects.select_related("tier").order_by("-created_at")


def tenants_of(user: User) -> QuerySet[Tenant]:
    """The tenants a person is a member of."""
    return Tenant.objects.filter(members__user=user).select_related("tier").order_by("name")


def tenants_called(words: Sequence[str]) -> list[UUID]:
    """The tenants of these slugs or ids, in their order (operators).

    Raises InvalidRequest naming /tenants for the first that there is not.
    """
    ids = {word: found for word in words if (found := _id_of(word)) is not None}
    rows = Tenant.objects.filter(Q(slug__in=words) | Q(pk__in=ids.values()))
    known: dict[object, UUID] = {}
    for pk, slug in rows.values_list("pk", "slug"):
        known[pk] = known[slug] = pk
    for word in words:
        if ids.get(word, word) not in known:
            fault = errors.FieldError("/tenants", "unknown", f"no tenant {word}")
            raise errors.InvalidRequest(f"There is no tenant {word}.", errors=(fault,))
    return [known[ids.get(word, word)] for word in words]


def _id_of(word: str) -> UUID | None:
    try:
        return UUID(word)
    except ValueError:
        return None


def project_list(tenant_id: UUID) -> QuerySet[Project]:
    """The tenant's projects by name, without those that were deleted."""
    return Project.objects.filter(tenant_id=tenant_id, deleted_at__isnull=True).order_by("name")


def member_list(tenant_id: UUID) -> QuerySet[Member]:
    """The tenant's members with their accounts."""
    return Member.objects.filter(tenant_id=tenant_id).select_related("user").order_by("created_at")


def token_list(tenant_id: UUID | None, user_id: UUID) -> QuerySet[ApiToken]:
    """A person's tokens in a tenant that have not been revoked."""
    mine = ApiToken.objects.filter(user_id=user_id, revoked_at__isnull=True)
    if tenant_id is None:
        mine = mine.filter(tenant__isnull=True)
    else:
        mine = mine.filter(tenant_id=tenant_id)
    return mine.order_by("-created_at")


def ssh_key_list(tenant_id: UUID) -> QuerySet[SshKey]:
    """The tenant's public keys."""
    return SshKey.objects.filter(tenant_id=tenant_id).order_by("-created_at")


def envelope_list(tenant_id: UUID) -> QuerySet[Envelope]:
    """What the tenant may hold, by class."""
    return (
        Envelope.objects.filter(tenant_id=tenant_id)
        .select_related("resource_class")
        .order_by("resource_class__name")
    )


def counter_list(tenant_id: UUID) -> QuerySet[QuotaCounter]:
    """What the tenant holds, by class."""
    return (
        QuotaCounter.objects.filter(tenant_id=tenant_id)
        .select_related("resource_class")
        .order_by("resource_class__name")
    )


def sku_list(*, drafts: bool = False) -> QuerySet[Sku]:
    """What is sold; ``drafts`` adds what is not (operators)."""
    skus = Sku.objects.select_related("resource_class").order_by("name")
    return skus if drafts else skus.filter(state="published")


def price_now(sku: Sku) -> tuple[int, str]:
    """The price in force: millionths per unit and hour, and the currency."""
    row = (
        SkuPrice.objects.filter(sku=sku, effective_from__lte=clock.db_now())
        .order_by("-effective_from")
        .first()
    )
    return (row.hour_micro, row.currency) if row else (0, "USD")


def granted_milli(class_id: UUID) -> int:
    """What is promised of a class to all tenants that may hold anything, in milli-units."""
    gone = (TenantState.DELETED, TenantState.REJECTED)
    envelopes = Envelope.objects.filter(resource_class_id=class_id).exclude(tenant__state__in=gone)
    total: int | None = envelopes.aggregate(total=Sum("nominal_milli"))["total"]
    return total or 0


def envelope_versions(tenant_id: UUID) -> QuerySet[EnvelopeVersion]:
    """Every version of the tenant's envelopes, the latest first."""
    return (
        EnvelopeVersion.objects.filter(tenant_id=tenant_id)
        .select_related("resource_class")
        .order_by("resource_class__name", "-version")
    )


def burst_list(tenant_id: UUID) -> QuerySet[BurstRule]:
    """The tenant's burst rules, those to come first."""
    return (
        BurstRule.objects.filter(tenant_id=tenant_id)
        .select_related("resource_class")
        .order_by("-closes_at")
    )


def increase_list(
    tenant_id: UUID | None = None, state: str | None = None
) -> QuerySet[QuotaIncrease]:
    """Wishes for more, the oldest first: of one tenant or of all, in one state or any."""
    rows = QuotaIncrease.objects.select_related("tenant", "resource_class").order_by("created_at")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    return rows if state is None else rows.filter(state=state)


def dataset_list(tenant_id: UUID) -> QuerySet[DataSet]:
    """The tenant's data sets in the version that holds, by name."""
    return (
        DataSet.objects.filter(tenant_id=tenant_id, retired_at__isnull=True)
        .order_by("name", "-version")
        .distinct("name")
    )


def storage_list() -> QuerySet[Storage]:
    """What storage is offered, in the version that holds, by name."""
    return (
        Storage.objects.filter(retired_at__isnull=True)
        .order_by("name", "-version")
        .distinct("name")
    )
