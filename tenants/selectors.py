"""What is so, about tenants, what is sold and how much is theirs?"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from gpuaas.kernel import clock
from tenants.models import (
    ApiToken,
    Envelope,
    Member,
    Project,
    QuotaCounter,
    Sku,
    SkuPrice,
    SshKey,
    Tenant,
    User,
)


def tenant_list() -> QuerySet[Tenant]:
    """Every tenant, newest first (operators)."""
    return Tenant.objects.select_related("tier").order_by("-created_at")


def tenants_of(user: User) -> QuerySet[Tenant]:
    """The tenants a person is a member of."""
    return Tenant.objects.filter(members__user=user).select_related("tier").order_by("name")


def project_list(tenant_id: UUID) -> QuerySet[Project]:
    """The tenant's projects by name."""
    return Project.objects.filter(tenant_id=tenant_id).order_by("name")


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
