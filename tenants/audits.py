"""Is every counter, of a tenant, a cohort or a project, what was agreed and what is held?"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, ask, register

_AGREED = """
SELECT q.id, t.id AS tenant_id, t.slug AS tenant, t.cohort_id AS belongs, rc.name AS class,
       coalesce(e.nominal_milli, 0) AS nominal,
       CASE WHEN t.cohort_id IS NULL THEN 0
            ELSE coalesce(e.borrow_milli, 0) + coalesce((
                SELECT sum(b.extra_milli) FROM tenants_burstrule b
                 WHERE b.tenant_id = t.id AND b.resource_class_id = rc.id
                   AND b.state = 'open'), 0) END AS borrow,
       CASE WHEN t.cohort_id IS NULL THEN coalesce(e.nominal_milli, 0)
            WHEN e.lend_milli IS NULL THEN 0
            ELSE greatest(0, e.nominal_milli - e.lend_milli) END AS guaranteed,
       q.limit_milli, q.borrow_milli, q.guaranteed_milli, q.used_milli, q.grandfathered_milli,
       q.cohort_id
  FROM tenants_tenant t
  JOIN tenants_resourceclass rc ON true
  LEFT JOIN tenants_envelope e ON e.tenant_id = t.id AND e.resource_class_id = rc.id
  LEFT JOIN tenants_quotacounter q ON q.tenant_id = t.id AND q.resource_class_id = rc.id
 WHERE e.id IS NOT NULL OR q.id IS NOT NULL
"""
_LIMITS = f"""
SELECT tenant, class, nominal, borrow, guaranteed, limit_milli AS "limit"
  FROM ({_AGREED}) AS a
 WHERE limit_milli IS DISTINCT FROM nominal
"""
_TERMS = f"""
SELECT tenant, class, borrow, guaranteed, borrow_milli, guaranteed_milli
  FROM ({_AGREED}) AS a
 WHERE id IS NOT NULL AND (borrow_milli <> borrow OR guaranteed_milli <> guaranteed
       OR cohort_id IS DISTINCT FROM belongs)
"""
_OVER = """
SELECT t.slug AS tenant, rc.name AS class, q.used_milli AS used, q.limit_milli AS "limit",
       q.borrow_milli AS borrow, q.grandfathered_milli AS grandfathered
  FROM tenants_quotacounter q
  JOIN tenants_tenant t ON t.id = q.tenant_id
  JOIN tenants_resourceclass rc ON rc.id = q.resource_class_id
 WHERE q.used_milli < 0
    OR q.grandfathered_milli <> greatest(0, q.used_milli - q.limit_milli - q.borrow_milli)
"""
_COHORTS = """
SELECT * FROM (
    SELECT h.name AS cohort, rc.name AS class, c.quota_milli AS quota, c.used_milli AS used,
           c.guaranteed_milli AS guaranteed, c.grandfathered_milli AS grandfathered,
           h.parent_id, c.borrow_milli,
           CASE WHEN h.parent_id IS NULL THEN c.quota_milli
                WHEN c.lend_milli IS NULL THEN 0
                ELSE greatest(0, c.quota_milli - c.lend_milli) END AS keeps,
           coalesce((SELECT sum(q.limit_milli - q.guaranteed_milli) FROM tenants_quotacounter q
                      WHERE q.cohort_id = h.id AND q.resource_class_id = rc.id), 0)
           + coalesce((SELECT sum(k.quota_milli - k.guaranteed_milli)
                         FROM tenants_cohortcounter k JOIN tenants_cohort kh ON kh.id = k.cohort_id
                        WHERE kh.parent_id = h.id AND k.resource_class_id = rc.id), 0) AS lent,
           coalesce((SELECT sum(greatest(0, q.used_milli - q.guaranteed_milli))
                       FROM tenants_quotacounter q
                      WHERE q.cohort_id = h.id AND q.resource_class_id = rc.id), 0)
           + coalesce((SELECT sum(greatest(0, k.used_milli - k.guaranteed_milli))
                         FROM tenants_cohortcounter k JOIN tenants_cohort kh ON kh.id = k.cohort_id
                        WHERE kh.parent_id = h.id AND k.resource_class_id = rc.id), 0) AS held
      FROM tenants_cohortcounter c
      JOIN tenants_cohort h ON h.id = c.cohort_id
      JOIN tenants_resourceclass rc ON rc.id = c.resource_class_id) AS counted
 WHERE quota <> lent OR used <> held OR guaranteed <> keeps
    OR grandfathered <> CASE WHEN parent_id IS NULL THEN greatest(0, used - quota)
                             WHEN borrow_milli IS NULL THEN 0
                             ELSE greatest(0, used - quota - borrow_milli) END
"""
_PROJECTS = """
SELECT p.slug AS project, t.slug AS tenant, rc.name AS class, q.used_milli AS used,
       q.limit_milli AS "limit", q.grandfathered_milli AS grandfathered,
       p.deleted_at IS NOT NULL AS deleted
  FROM tenants_projectquota q
  JOIN tenants_project p ON p.id = q.project_id
  JOIN tenants_tenant t ON t.id = p.tenant_id
  JOIN tenants_resourceclass rc ON rc.id = q.resource_class_id
 WHERE q.grandfathered_milli <> greatest(0, coalesce(q.used_milli - q.limit_milli, 0))
    OR (p.deleted_at IS NOT NULL AND q.used_milli > 0) OR q.tenant_id <> p.tenant_id
"""
_SUMS = """
SELECT * FROM (
    SELECT t.slug AS tenant, rc.name AS class, q.used_milli AS used,
           coalesce((SELECT sum(p.used_milli) FROM tenants_projectquota p
                      WHERE p.tenant_id = t.id AND p.resource_class_id = rc.id), 0) AS projects
      FROM tenants_quotacounter q
      JOIN tenants_tenant t ON t.id = q.tenant_id
      JOIN tenants_resourceclass rc ON rc.id = q.resource_class_id) AS summed
 WHERE used <> projects
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
            "terms_differ",
            _TERMS,
            subject="tenant {tenant}",
            detail="of {class} it may borrow {borrow} and keeps {guaranteed}; its counter says "
            "{borrow_milli} and {guaranteed_milli}, or another cohort",
        ),
        *ask(
            "over_the_limit",
            _OVER,
            subject="tenant {tenant}",
            detail="{used} of {class} is used; {limit}, {borrow} borrowed and {grandfathered} "
            "grandfathered may be",
        ),
        *ask(
            "door_differs",
            _DOORS,
            subject="tenant {tenant}",
            detail="it is {state}; its counter of {class} admits: {admitting}",
        ),
    ]


def cohorts() -> list[Finding]:
    """I-15, from the cohort's side: every counter is the sum of what is below it."""
    return ask(
        "cohort_wrong",
        _COHORTS,
        subject="cohort {cohort}",
        detail="of {class} it counts {used} of {quota}, keeps {guaranteed}, {grandfathered} "
        "grandfathered; its members lend {lent} and hold {held}",
    )


def projects() -> list[Finding]:
    """What projects hold is within their limits, and is all that their tenants hold."""
    return [
        *ask(
            "project_wrong",
            _PROJECTS,
            subject="project {project} of {tenant}",
            detail="{used} of {class} is used of {limit}, {grandfathered} grandfathered; "
            "deleted: {deleted}",
        ),
        *ask(
            "projects_differ",
            _SUMS,
            subject="tenant {tenant}",
            detail="{used} of {class} is charged to it, {projects} to its projects",
        ),
    ]


register("tenants.envelopes", envelopes)
register("tenants.cohorts", cohorts)
register("tenants.projects", projects)
