"""Is every counter under the envelope that it enforces?"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, ask, register

_LIMITS = """
SELECT t.slug AS tenant, rc.name AS class, e.nominal_milli AS nominal,
       q.limit_milli AS "limit"
  FROM tenants_envelope e
  JOIN tenants_tenant t ON t.id = e.tenant_id
  JOIN tenants_resourceclass rc ON rc.id = e.resource_class_id
  LEFT JOIN tenants_quotacounter q
    ON q.tenant_id = e.tenant_id AND q.resource_class_id = e.resource_class_id
 WHERE q.limit_milli IS DISTINCT FROM e.nominal_milli
"""
_OVER = """
SELECT t.slug AS tenant, rc.name AS class, q.used_milli AS used, q.limit_milli AS "limit",
       q.grandfathered_milli AS grandfathered
  FROM tenants_quotacounter q
  JOIN tenants_tenant t ON t.id = q.tenant_id
  JOIN tenants_resourceclass rc ON rc.id = q.resource_class_id
 WHERE q.used_milli < 0 OR q.used_milli > q.limit_milli + q.grandfathered_milli
"""
_DOORS = """
SELECT t.slug AS tenant, t.state, rc.name AS class, q.admitting
  FROM tenants_quotacounter q
  JOIN tenants_tenant t ON t.id = q.tenant_id
  JOIN tenants_resourceclass rc ON rc.id = q.resource_class_id
 WHERE q.admitting <> (t.state = 'active')
"""


def envelopes() -> list[Finding]:
    """I-15, from the tenant's side: limit, use and door of every counter."""
    return [
        *ask(
            "limit_differs",
            _LIMITS,
            subject="tenant {tenant}",
            detail="the envelope of {class} is {nominal}, its counter enforces {limit}",
        ),
        *ask(
            "over_the_limit",
            _OVER,
            subject="tenant {tenant}",
            detail="{used} of {class} is used; {limit} and {grandfathered} grandfathered may be",
        ),
        *ask(
            "door_differs",
            _DOORS,
            subject="tenant {tenant}",
            detail="it is {state}; its counter of {class} admits: {admitting}",
        ),
    ]


register("tenants.envelopes", envelopes)
