"""What do operators read of customers and what is sold, and which actions do they have?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin
from django.contrib.auth.models import Group

from gpuaas.kernel.actor import Actor
from gpuaas.kernel.records import RecordAdmin, reasoned
from tenants.models import (
    ApiToken,
    Envelope,
    Member,
    Project,
    QuotaCounter,
    ResourceClass,
    Sku,
    SkuPrice,
    SlaTier,
    SshKey,
    Tenant,
    User,
)
from tenants.services import access, catalogue, tenancy
from tenants.states import SKU, TENANT

admin.site.unregister(Group)  # roles are a tenant's, and operators have one


def _suspend(row: Tenant, reason: str, actor: Actor) -> object:
    return tenancy.tenant_suspend(tenant_id=row.pk, reason=reason, actor=actor)


def _resume(row: Tenant, reason: str, actor: Actor) -> object:
    return tenancy.tenant_resume(tenant_id=row.pk, reason=reason, actor=actor)


@admin.register(Tenant)
class TenantAdmin(RecordAdmin):
    """Customers."""

    list_display: ClassVar = ["name", "slug", "state", "tier", "created_at"]
    list_filter: ClassVar = ["state", "tier"]
    search_fields: ClassVar = ["name", "slug", "=id"]
    ordering: ClassVar = ["-created_at"]
    actions_detail: ClassVar = ["suspend", "resume"]

    suspend = reasoned(
        "suspend",
        "Suspend",
        "Nothing new starts; what runs goes on.",
        _suspend,
        needs="tenants:write",
        states=TENANT.edges["suspend"].sources,
    )
    resume = reasoned(
        "resume",
        "Resume",
        "The tenant may lease again.",
        _resume,
        needs="tenants:write",
        states=TENANT.edges["resume"].sources,
    )


def _sku_retire(row: Sku, reason: str, actor: Actor) -> object:
    return catalogue.sku_retire(sku=row.name, reason=reason, actor=actor)


def _sku_publish(row: Sku, reason: str, actor: Actor) -> object:
    return catalogue.sku_publish(sku=row.name, reason=reason, actor=actor)


@admin.register(Sku)
class SkuAdmin(RecordAdmin):
    """What is sold."""

    list_display: ClassVar = [
        "name",
        "title",
        "shape",
        "part_profile",
        "part_milli",
        "family",
        "pool",
        "state",
    ]
    list_filter: ClassVar = ["state", "shape"]
    search_fields: ClassVar = ["name", "title"]
    ordering: ClassVar = ["name"]
    actions_detail: ClassVar = ["publish", "retire"]

    publish = reasoned(
        "publish",
        "Publish",
        "Every tenant with an envelope of its class can lease it from this moment on.",
        _sku_publish,
        needs="catalogue:write",
        states=SKU.edges["publish"].sources,
    )
    retire = reasoned(
        "retire",
        "Retire",
        "It is not sold any more. What runs goes on. It cannot be undone.",
        _sku_retire,
        needs="catalogue:write",
        states=SKU.edges["retire"].sources,
    )


@admin.register(SkuPrice)
class SkuPriceAdmin(RecordAdmin):
    """Prices from a moment on."""

    list_display: ClassVar = ["sku", "hour_micro", "currency", "effective_from"]
    list_filter: ClassVar = ["sku"]


@admin.register(Project)
class ProjectAdmin(RecordAdmin):
    """Divisions of tenants."""

    list_display: ClassVar = ["name", "slug", "tenant", "created_at"]
    search_fields: ClassVar = ["name", "tenant__slug"]
    list_select_related: ClassVar = ["tenant"]


@admin.register(Member)
class MemberAdmin(RecordAdmin):
    """Who may do what where."""

    list_display: ClassVar = ["user", "tenant", "role", "created_at"]
    list_filter: ClassVar = ["role"]
    search_fields: ClassVar = ["user__email", "tenant__slug"]
    list_select_related: ClassVar = ["user", "tenant"]


@admin.register(Envelope)
class EnvelopeAdmin(RecordAdmin):
    """What tenants may hold."""

    list_display: ClassVar = ["tenant", "resource_class", "nominal_milli", "version"]
    search_fields: ClassVar = ["tenant__slug"]
    list_select_related: ClassVar = ["tenant", "resource_class"]


@admin.register(QuotaCounter)
class QuotaCounterAdmin(RecordAdmin):
    """What tenants hold."""

    list_display: ClassVar = ["tenant", "resource_class", "used_milli", "limit_milli"]
    search_fields: ClassVar = ["tenant__slug"]
    list_select_related: ClassVar = ["tenant", "resource_class"]


@admin.register(ResourceClass)
class ResourceClassAdmin(RecordAdmin):
    """The dimensions of quota."""

    list_display: ClassVar = ["name", "title"]


@admin.register(SlaTier)
class SlaTierAdmin(RecordAdmin):
    """Contracts."""

    list_display: ClassVar = ["name", "title", "priority_band", "preemptible", "isolation"]


@admin.register(User)
class UserAdmin(RecordAdmin):
    """People; their passwords are nobody's to see."""

    list_display: ClassVar = [
        "email",
        "full_name",
        "is_staff",
        "operator_role",
        "is_active",
        "date_joined",
    ]
    list_filter: ClassVar = ["is_staff", "is_active"]
    search_fields: ClassVar = ["email", "full_name"]
    ordering: ClassVar = ["email"]
    secret_fields: ClassVar = ["password", "groups", "user_permissions"]


def _token_revoke(row: ApiToken, reason: str, actor: Actor) -> object:
    return access.token_revoke(token_id=row.pk, actor=actor)


@admin.register(ApiToken)
class ApiTokenAdmin(RecordAdmin):
    """Keys of programs; only their hashes are kept, and those are not shown."""

    list_display: ClassVar = ["name", "key", "user", "tenant", "expires_at", "revoked_at"]
    search_fields: ClassVar = ["=key", "user__email"]
    list_select_related: ClassVar = ["user", "tenant"]
    secret_fields: ClassVar = ["digest", "pepper"]
    actions_detail: ClassVar = ["revoke"]

    revoke = reasoned(
        "revoke",
        "Revoke",
        "The token stops working at once.",
        _token_revoke,
        needs="operators:write",
    )


@admin.register(SshKey)
class SshKeyAdmin(RecordAdmin):
    """Public keys."""

    list_display: ClassVar = ["name", "fingerprint", "user", "tenant"]
    search_fields: ClassVar = ["fingerprint", "user__email"]
    list_select_related: ClassVar = ["user", "tenant"]
