"""Which facts does a decision look at?  Read in one statement, frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from admission.domain.decide import Quota

AUTHORITY: Final = """
SELECT ask.i, t.id AS tenant_id, t.state AS tenant_state, t.slug, tier.id AS tier_id,
       tier.name AS tier, tier.priority_band, tier.isolation AS tier_isolation,
       EXISTS (SELECT FROM tenants_project p WHERE p.id = ask.project AND p.tenant_id = t.id)
           AS project_known,
       s.id AS sku_id, s.name AS sku, s.state AS sku_state, s.shape, s.family, s.pool,
       s.units_milli, s.slots_min, s.slots_max, s.exclusive_nic, s.isolation AS sku_isolation,
       rc.id AS class_id, rc.name AS resource_class,
       coalesce(price.hour_micro, 0) AS hour_micro, coalesce(price.currency, 'USD') AS currency,
       e.version, c.limit_milli, c.used_milli, c.grandfathered_milli, c.admitting
  FROM ask
  JOIN tenants_tenant t ON t.id = ask.tenant
  JOIN tenants_slatier tier ON tier.id = t.tier_id
  JOIN tenants_sku s ON s.name = ask.sku
  JOIN tenants_resourceclass rc ON rc.id = s.resource_class_id
  LEFT JOIN tenants_envelope e ON e.tenant_id = t.id AND e.resource_class_id = rc.id
  LEFT JOIN tenants_quotacounter c ON c.tenant_id = t.id AND c.resource_class_id = rc.id
  LEFT JOIN LATERAL (
       SELECT pr.hour_micro, pr.currency FROM tenants_skuprice pr
        WHERE pr.sku_id = s.id AND pr.effective_from <= statement_timestamp()
        ORDER BY pr.effective_from DESC LIMIT 1) price ON true
"""
"""The facts of each row of ``ask(i, tenant, project, sku)``, for a statement to stand on.

Rows whose tenant or SKU does not exist are absent. Whoever places asks for its own facts in
the same statement: one snapshot, one round trip.
"""
WIDTH: Final = 29
"""How many columns AUTHORITY gives."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A tenant beside a SKU: what is sold, and how much of it is theirs."""

    quota: Quota | None
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
    hour_micro: int
    currency: str


def authority_from(row: Sequence[Any]) -> Authority:
    """The facts of one row of AUTHORITY."""
    version, limit, used, grandfathered, admitting = row[24:WIDTH]
    quota = None
    if version is not None and limit is not None:
        quota = Quota(limit, used, grandfathered, admitting, version)
    return Authority(quota, *row[1:24])
