"""Which tenants are never placed on one host, and which of them share one now?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Max, QuerySet

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
_SHARED: Final = """
SELECT shared.id, count(*)
  FROM (
    SELECT s.id, c.node_num
      FROM placement_separation s
     CROSS JOIN LATERAL jsonb_array_elements_text(s.tenants) AS member (id)
      JOIN placement_claim c ON c.tenant_id = member.id::uuid
     WHERE s.id = ANY (%s)
       AND c.state IN ('reserved', 'active', 'releasing', 'cleanup_blocked')
     GROUP BY s.id, c.node_num HAVING count(DISTINCT c.tenant_id) > 1
  ) AS shared
 GROUP BY shared.id
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
    return separations_shown([row])[0]


def separations_shown(rows: Sequence[Separation]) -> list[SeparationShown]:
    """The same of many, in three statements."""
    everybody = {pk for row in rows for pk in row.tenants}
    slugs = {
        str(pk): slug
        for pk, slug in Tenant.objects.filter(pk__in=everybody).values_list("pk", "slug")
    }
    ids = [row.pk for row in rows]
    sets = Event.objects.filter(kind="placement.separation.set", subject_id__in=ids)
    last = dict(sets.values_list("subject_id").annotate(last=Max("at")))
    with connection.cursor() as cursor:
        cursor.execute(_SHARED, [ids])
        shared = dict(cursor.fetchall())
    return [
        SeparationShown(
            name=row.name,
            tenants=[(pk, slugs.get(pk, pk)) for pk in row.tenants],
            reason=row.reason,
            version=row.version,
            updated_at=last.get(row.pk, row.created_at),
            together=shared.get(row.pk, 0),
        )
        for row in rows
    ]


def together_now(tenants: Sequence[UUID]) -> list[tuple[str, list[str]]]:
    """Hosts that several of these tenants share now, with who they are, by name."""
    with connection.cursor() as cursor:
        cursor.execute(_TOGETHER, [list(tenants)])
        return [(name, list(slugs)) for name, slugs in cursor.fetchall()]
