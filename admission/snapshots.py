"""Which facts does a decision look at?  Read in one statement, frozen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from admission.domain.facts import Quota
from tenants.domain.caps import Caps
from tenants.domain.cohorts import Pot

AUTHORITY: Final = """
SELECT ask.i, t.id AS tenant_id, t.state AS tenant_state, t.slug, tier.id AS tier_id,
       tier.name AS tier, tier.priority_band, tier.isolation AS tier_isolation,
       EXISTS (SELECT FROM tenants_project p WHERE p.id = ask.project AND p.tenant_id = t.id
                  AND p.deleted_at IS NULL)
           AS project_known,
       s.id AS sku_id, s.name AS sku, s.state AS sku_state, s.shape, s.family, s.pool,
       s.units_milli, s.slots_min, s.slots_max, s.exclusive_nic, s.isolation AS sku_isolation,
       s.part_profile, s.part_milli, s.part_memory_mib,
       rc.id AS class_id, rc.name AS resource_class,
       coalesce(price.hour_micro, 0) AS hour_micro, coalesce(price.currency, 'USD') AS currency,
       t.catalogue = 'all' OR EXISTS (
            SELECT FROM tenants_entitlement n
             WHERE n.tenant_id = t.id AND n.sku_id = s.id
               AND (n.until IS NULL OR n.until > statement_timestamp())) AS entitled,
       tier.preemption,
       coalesce((SELECT string_agg(r.id::text, ' ' ORDER BY r.name)
                   FROM admission_policyrule r WHERE r.state = 'active'), '') AS policy_stamp,
       to_char(statement_timestamp() AT TIME ZONE 'UTC', 'HH24')::int AS hour,
       extract(isodow FROM statement_timestamp() AT TIME ZONE 'UTC')::int AS weekday,
       CASE WHEN cap.id IS NOT NULL THEN jsonb_build_object(
            'allocations', cap.allocations, 'slots_per_request', cap.slots_per_request,
            'waiting', cap.waiting, 'best_band', cap.best_band, 'shapes', cap.shapes,
            'zones', cap.zones, 'spend_soft_micro', cap.spend_soft_micro,
            'spend_hard_micro', cap.spend_hard_micro)::text END AS caps,
       e.version, c.limit_milli, c.used_milli, c.grandfathered_milli, c.admitting,
       c.borrow_milli, c.guaranteed_milli,
       CASE WHEN pq.limit_milli IS NOT NULL
            THEN ARRAY[pq.limit_milli, pq.used_milli, pq.grandfathered_milli] END,
       CASE WHEN c.cohort_id IS NOT NULL THEN (
            WITH RECURSIVE up AS (
                SELECT h.id, h.name, h.parent_id, h.depth FROM tenants_cohort h
                 WHERE h.id = c.cohort_id
                 UNION ALL
                SELECT h.id, h.name, h.parent_id, h.depth
                  FROM tenants_cohort h JOIN up ON up.parent_id = h.id)
            SELECT jsonb_agg(jsonb_build_array(
                       up.name, coalesce(k.quota_milli, 0), coalesce(k.used_milli, 0),
                       k.borrow_milli, k.lend_milli, coalesce(k.grandfathered_milli, 0))
                       ORDER BY up.depth DESC)::text
              FROM up LEFT JOIN tenants_cohortcounter k
                ON k.cohort_id = up.id AND k.resource_class_id = rc.id) END
  FROM ask
  JOIN tenants_tenant t ON t.id = ask.tenant
  JOIN tenants_slatier tier ON tier.id = t.tier_id
  JOIN tenants_sku s ON s.name = ask.sku
  JOIN tenants_resourceclass rc ON rc.id = s.resource_class_id
  LEFT JOIN tenants_envelope e ON e.tenant_id = t.id AND e.resource_class_id = rc.id
  LEFT JOIN tenants_quotacounter c ON c.tenant_id = t.id AND c.resource_class_id = rc.id
  LEFT JOIN tenants_projectquota pq
    ON pq.project_id = ask.project AND pq.resource_class_id = rc.id
  LEFT JOIN tenants_tenantcaps cap ON cap.tenant_id = t.id
  LEFT JOIN LATERAL (
       SELECT pr.hour_micro, pr.currency FROM tenants_skuprice pr
        WHERE pr.sku_id = s.id AND pr.effective_from <= statement_timestamp()
        ORDER BY pr.effective_from DESC LIMIT 1) price ON true
"""
"""The facts of each row of ``ask(i, tenant, project, sku)``, for a statement to stand on.

Rows whose tenant or SKU does not exist are absent. Whoever places asks for its own facts in
the same statement: one snapshot, one round trip.
"""
WIDTH: Final = 42
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
    band: int | None
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
    part_profile: str
    part_milli: int | None
    part_memory_mib: int | None
    class_id: UUID
    resource_class: str
    hour_micro: int
    currency: str
    entitled: bool
    preemption: str
    policy_stamp: str
    hour: int
    weekday: int
    caps: Caps | None


def authority_from(row: Sequence[Any]) -> Authority:
    """The facts of one row of AUTHORITY."""
    caps = row[32]
    parts = [_quota(row[33:WIDTH]), *row[1:32], _caps(caps) if caps else None]
    return Authority(*parts)


def _caps(text: str) -> Caps:
    kept = json.loads(text)
    return Caps(**{**kept, "shapes": tuple(kept["shapes"]), "zones": tuple(kept["zones"])})


def _quota(row: Sequence[Any]) -> Quota | None:
    version, limit, used, grandfathered, admitting, borrow, guaranteed, project, cohorts = row
    if version is None or limit is None:
        return None
    if project is None and cohorts is None:
        return Quota(limit, used, grandfathered, admitting, version, borrow, guaranteed)
    above = json.loads(cohorts) if cohorts else []
    parents = [str(level) for level in range(1, len(above))]
    return Quota(
        limit,
        used,
        grandfathered,
        admitting,
        version,
        borrow,
        guaranteed,
        cohort=above[0][0] if above else "",
        pots=tuple(
            Pot(parent, *numbers)
            for parent, (_, *numbers) in zip([*parents, None], above, strict=True)
        )
        if above
        else (),
        project=tuple(project) if project else None,
    )
