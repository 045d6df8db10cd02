"""What was a tenant told about its allocations, and what has nobody read yet?"""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from placement.models import Notice


def notice_list(
    tenant_id: UUID | None = None, *, unread: bool = False, allocation_id: UUID | None = None
) -> QuerySet[Notice]:
    """Notices, newest first; without a tenant for operators."""
    rows = Notice.objects.select_related("allocation").order_by("-created_at", "-id")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    if allocation_id is not None:
        rows = rows.filter(allocation_id=allocation_id)
    return rows.filter(acknowledged_at__isnull=True) if unread else rows
