"""Which tenants are never placed on one host, and which of them share one now?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from gpuaas.kernel.models import Event
from placement.models import Separation
from tenants.models import Tenant

_TOGETHER: Final = """
SELECT n.name, array_agg(DISTINCT t.slug ORDER BY t.slug)
  FROM placement_claim c
  JOIN placement_node n ON n.num = c.node_num
  JOIN tenants_tenant t ON t.id = c.tenant_id
 WHERE c.tenant_id = ANY (%s)
   AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
 GROUP BY n.name HAVING count(DISTINCT c.tenant_id) > 1
 ORDER BY n.name
"""


@dataclass(frozen=True, slots=True)
class SeparationShown:
    """A set as people see it; ``together`` is how many hosts members share now."""

    name: str
    tenants: list[tuple[str, str]]
    reason: str
    version: int
    updated_at: datetime
    together: int


def separations() -> QuerySet[Separation]:
    """All sets, by name."""
    return Separation.objects.order_by("name")


def separation_shown(row: Separation) -> SeparationShown:
    """One set with its members' names; a tenant that is gone has its id for a name."""
    slugs = {
        str(pk): slug
        for pk, slug in Tenant.objects.filter(pk__in=row.tenants).values_list("pk", "slug")
    }
    last = Event.objects.filter(kind="placement.separation.set", subject_id=row.pk)
    at = last.order_by("-id").values_list("at", flat=True).first()
    return SeparationShown(
        name=row.name,
        tenants=[(pk, slugs.get(pk, pk)) for pk in row.tenants],
        reason=row.reason,
        version=row.version,
        updated_at=at or row.created_at,
        together=len(together_now([UUID(pk) for pk in row.tenants])),
    )


def together_now(tenants: Sequence[UUID]) -> list[tuple[str, list[str]]]:
    """Hosts that several of these tenants share now, with who they are, by name."""
    with connection.cursor() as cursor:
        cursor.execute(_TOGETHER, [list(tenants)])
        return [(name, list(slugs)) for name, slugs in cursor.fetchall()]
