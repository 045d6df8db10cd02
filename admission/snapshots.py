"""Which facts does a decision look at?  Read in one statement, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from admission.domain.decide import Quota

_AUTHORITY = """
SELECT t.state, t.slug, tier.id, tier.name, tier.priority_band, tier.isolation,
       EXISTS (SELECT FROM tenants_project p WHERE p.id = %(project)s AND p.tenant_id = t.id),
       s.id, s.name, s.state, s.shape, s.family, s.pool, s.units_milli, s.slots_min, s.slots_max,
       s.exclusive_nic, s.isolation, rc.id, rc.name,
       e.version, c.limit_milli, c.used_milli, c.grandfathered_milli, c.admitting,
       (SELECT hour_micro FROM tenants_skuprice pr
         WHERE pr.sku_id = s.id AND pr.effective_from <= clock_timestamp()
         ORDER BY pr.effective_from DESC LIMIT 1),
       (SELECT currency FROM tenants_skuprice pr
         WHERE pr.sku_id = s.id AND pr.effective_from <= clock_timestamp()
         ORDER BY pr.effective_from DESC LIMIT 1),
       EXISTS (SELECT FROM admission_admissionrequest q
                WHERE q.state = 'queued' AND q.pool = s.pool)
  FROM tenants_tenant t
  JOIN tenants_slatier tier ON tier.id = t.tier_id
  JOIN tenants_sku s ON s.name = %(sku)s
  JOIN tenants_resourceclass rc ON rc.id = s.resource_class_id
  LEFT JOIN tenants_envelope e ON e.tenant_id = t.id AND e.resource_class_id = rc.id
  LEFT JOIN tenants_quotacounter c ON c.tenant_id = t.id AND c.resource_class_id = rc.id
 WHERE t.id = %(tenant)s
"""


@dataclass(frozen=True, slots=True)
class Authority:
    """A tenant beside a SKU: what is sold, and how much of it is theirs."""

    tenant_id: UUID
    tenant_state: str
    tenant_slug: str
    tier_id: UUID
    tier: str
    band: int
    tier_isolation: str
    project_known: bool
    sku_id: UUID
    sku: str
    sku_state: str
    shape: str
    family: str
    pool: str
    units_milli: int
    slots_min: int
    slots_max: int
    exclusive_nic: bool
    sku_isolation: str
    class_id: UUID
    resource_class: str
    quota: Quota | None
    hour_micro: int
    currency: str
    queue_waits: bool


def authority(*, tenant_id: UUID, project_id: UUID, sku: str) -> Authority | None:
    """The facts for one tenant and SKU, or None when either does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(_AUTHORITY, {"tenant": tenant_id, "project": project_id, "sku": sku})
        row = cursor.fetchone()
    if row is None:
        return None
    quota = None
    if row[20] is not None and row[21] is not None:
        quota = Quota(
            limit_milli=row[21],
            used_milli=row[22],
            grandfathered_milli=row[23],
            admitting=row[24],
            version=row[20],
        )
    values: tuple[Any, ...] = (*row[:20], quota, row[25] or 0, row[26] or "USD", row[27])
    return Authority(tenant_id, *values)
