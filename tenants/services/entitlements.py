"""Which SKUs may a tenant ask for?"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from tenants.models import Entitlement, Tenant
from tenants.services.catalogue import sku_named
from tenants.services.quota import tenant_locked

CATALOGUES = ("all", "listed")


@transaction.atomic
def entitlement_grant(
    *, tenant_id: UUID, sku: str, reason: str, actor: Actor, until: datetime | None = None
) -> Entitlement:
    """Let a tenant with a listed catalogue ask for a SKU, for ever or until a moment."""
    tenant = tenant_locked(tenant_id)
    if until is not None and until <= clock.db_now():
        raise errors.InvalidRequest(
            "The entitlement would be over already.",
            errors=(errors.FieldError("/until", "out_of_range", "a moment to come"),),
        )
    row, _ = Entitlement.objects.update_or_create(
        tenant=tenant, sku=sku_named(sku), defaults={"until": until}
    )
    events.record(
        kind="tenants.entitlement.grant",
        subject=row,
        actor=actor,
        after={"sku": sku, "until": until},
        reason=reason,
    )
    return row


@transaction.atomic
def entitlement_revoke(*, tenant_id: UUID, sku: str, reason: str, actor: Actor) -> None:
    """Take it away; what runs goes on. NotFound: the tenant does not have it."""
    tenant_locked(tenant_id)
    row = Entitlement.objects.filter(tenant_id=tenant_id, sku__name=sku).first()
    if row is None:
        raise errors.NotFound
    events.record(
        kind="tenants.entitlement.revoke",
        subject=row,
        actor=actor,
        before={"sku": sku, "until": row.until},
        reason=reason,
    )
    row.delete()


@transaction.atomic
def catalogue_choose(*, tenant_id: UUID, catalogue: str, reason: str, actor: Actor) -> Tenant:
    """``all``: every published SKU may be asked for; ``listed``: only what was granted."""
    if catalogue not in CATALOGUES:
        raise errors.InvalidRequest(
            f"There is no catalogue {catalogue!r}.",
            errors=(errors.FieldError("/catalogue", "unknown", ", ".join(CATALOGUES)),),
        )
    tenant = tenant_locked(tenant_id)
    before, tenant.catalogue = tenant.catalogue, catalogue
    if before == catalogue:
        return tenant
    tenant.save(update_fields=["catalogue"])
    events.record(
        kind="tenants.tenant.catalogue",
        subject=tenant,
        actor=actor,
        before={"catalogue": before},
        after={"catalogue": catalogue},
        reason=reason,
    )
    return tenant
