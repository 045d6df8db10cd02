"""Who is told that a tenant's month will cost more than its soft cap, and when?

At once by the placement that passes it, and by a sweep: a new month begins with what runs on,
and two placements beside each other see only their own part. A tenant is told once a month.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from django.db import connection

from gpuaas.kernel import sweeping
from gpuaas.kernel.actor import Actor, system
from placement.services.bundle import Item
from tenants.domain.caps import committed_micro, soft_passed
from tenants.services.caps import spend_warn

PART: Final = system("spending")

_COMMITTED: Final = """
SELECT cap.tenant_id,
       coalesce(sum(a.price_hour_micro * extract(epoch FROM
           coalesce(a.released_at, statement_timestamp())
           - greatest(a.created_at, date_trunc('month', statement_timestamp())))
           / 3600), 0)::bigint,
       coalesce(sum(a.price_hour_micro) FILTER (WHERE a.state <> 'released'), 0)::bigint,
       extract(epoch FROM date_trunc('month', statement_timestamp()) + interval '1 month'
               - statement_timestamp())::bigint
  FROM tenants_tenantcaps cap
  LEFT JOIN placement_allocation a ON a.tenant_id = cap.tenant_id
   AND coalesce(a.released_at, statement_timestamp())
       > date_trunc('month', statement_timestamp())
 WHERE cap.spend_soft_micro IS NOT NULL
 GROUP BY cap.tenant_id
"""


def spend_told(item: Item, actor: Actor) -> bool:
    """After an item was placed: warn if the month's commitment passes the soft cap with it."""
    holding = item.facts.holding
    if holding is None or not soft_passed(holding.caps, holding.committed_micro):
        return False
    return spend_warn(
        tenant_id=item.authority.tenant_id,
        committed_micro=holding.committed_micro,
        actor=actor,
    )


def spend_sweep() -> int:
    """Warn every tenant whose running leases commit more than its soft cap; how many were told."""
    rows: dict[UUID, tuple[int, int, int]] = {}

    def find(resting: Collection[UUID]) -> list[UUID]:
        with connection.cursor() as cursor:
            cursor.execute(_COMMITTED)
            rows.update({row[0]: row[1:] for row in cursor.fetchall()})
        return [tenant_id for tenant_id in rows if tenant_id not in set(resting)]

    def tell(tenant_id: UUID) -> bool:
        accrued, hour, left = rows[tenant_id]
        spend = committed_micro(accrued_micro=accrued, hour_micro=hour, seconds_left=left)
        return spend_warn(tenant_id=tenant_id, committed_micro=spend, actor=PART)

    return sweeping.each("placement.spending", find, tell)
