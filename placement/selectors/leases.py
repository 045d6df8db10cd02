"""Which running leases does a change of a tenant's tier, or of a tier's terms, touch?"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from gpuaas.kernel.scope import platform_scope
from placement.models import Allocation, Slot
from placement.states import AllocationState
from tenants.domain.tiers import Lease
from tenants.models import Sku

RUNNING = (AllocationState.PLACED, AllocationState.PROVISIONING, AllocationState.ACTIVE)
SLOT_MILLI = 1000


def _leases(rows: QuerySet[Allocation]) -> list[Lease]:
    running = rows.filter(state__in=RUNNING).select_related("sku").order_by("pk")
    return [Lease(str(row.pk), row.name, row.sku.name, row.sku.isolation) for row in running]


def leases_of_tenant(tenant_id: UUID) -> list[Lease]:
    """What the tenant runs now."""
    return _leases(Allocation.objects.filter(tenant_id=tenant_id))


def leases_of_tier(tier: str) -> list[Lease]:
    """What all tenants with this tier run now (operators)."""
    return _leases(Allocation.objects.filter(tenant__tier__name=tier))


def deliverable_milli(class_id: UUID) -> int:
    """What the approved fleet could deliver of a class, in milli-units, if nobody held anything.

    The slots of the families and pools in which SKUs of the class are sold, those of hosts
    that take part; a slot counts 1000, whatever shapes it could be sold in.
    """
    with platform_scope():
        slots = Slot.objects.filter(
            state="approved",
            node__schedulable=True,
            node__family__name__in=_families(class_id),
        )
        return slots.count() * SLOT_MILLI


def _families(class_id: UUID) -> list[str]:
    sold = Sku.objects.filter(resource_class_id=class_id, state="published")
    return list(sold.values_list("family", flat=True).distinct())
