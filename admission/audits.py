"""Does every request about a tenant's coming, going or wishes stand where its subject stands?"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, ask, register

_SIGNUPS = """
SELECT r.id AS request, r.state, t.state AS subject
  FROM admission_admissionrequest r JOIN tenants_tenant t ON t.id = r.subject_id
 WHERE r.action = 'tenant.signup'
   AND r.state <> CASE WHEN t.state = 'pending' THEN 'queued'
                       WHEN t.state <> 'rejected' THEN 'admitted'
                       WHEN r.state = 'withdrawn' THEN 'withdrawn' ELSE 'denied' END
"""
_WISHES = """
SELECT r.id AS request, r.state, q.state AS subject
  FROM admission_admissionrequest r JOIN tenants_quotaincrease q ON q.id = r.subject_id
 WHERE r.action = 'quota.increase'
   AND r.state <> CASE q.state WHEN 'asked' THEN 'queued' WHEN 'approved' THEN 'admitted'
                               WHEN 'refused' THEN 'denied' ELSE 'withdrawn' END
"""
_UNDECIDED = """
SELECT r.id AS request, r.state, r.action
  FROM admission_admissionrequest r
 WHERE r.action IN ('tenant.signup', 'tenant.delete', 'quota.increase')
   AND NOT EXISTS (SELECT FROM admission_decision d WHERE d.request_id = r.id)
"""


def changes() -> list[Finding]:
    """A tenant or a wish and its request never tell two stories, and each was decided."""
    return [
        *ask(
            "signup_differs",
            _SIGNUPS,
            subject="request {request}",
            detail="the signup is {state}, its tenant is {subject}",
        ),
        *ask(
            "wish_differs",
            _WISHES,
            subject="request {request}",
            detail="the request is {state}, its wish is {subject}",
        ),
        *ask(
            "change_undecided",
            _UNDECIDED,
            subject="request {request}",
            detail="{action} is {state} without a decision",
        ),
    ]


register("admission.changes", changes)
