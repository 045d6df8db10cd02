"""Is something working on whatever is on its way, and was every move recorded?"""

from __future__ import annotations

from gpuaas.kernel.audits import Finding, ask

GRACE_S = 60
"""How long a thing may stand between two workers before nobody is working on it."""

_UNATTENDED = """
SELECT a.id AS allocation, a.state, a.run_id AS run, r.kind, r.state AS run_state
  FROM placement_allocation a LEFT JOIN kernel_workflowrun r ON r.id = a.run_id
 WHERE a.state IN ('placed', 'provisioning', 'preempting', 'releasing')
   AND (r.id IS NULL OR r.ended_at < clock_timestamp() - make_interval(secs => %(grace)s))
"""
_IDLE_TASKS = """
SELECT t.id AS task, t.kind, t.state, a.state AS allocation_state
  FROM placement_nodetask t JOIN placement_allocation a ON a.id = t.allocation_id
 WHERE t.state IN ('pending', 'leased')
   AND (a.state = 'released' OR (a.state = 'active' AND t.kind LIKE '%provision'))
"""


def runs() -> list[Finding]:
    """Whatever is on its way has a run that has not ended, and every task has a purpose."""
    return [
        *ask(
            "nobody_works_on_it",
            _UNATTENDED,
            subject="allocation {allocation}",
            detail="it is {state}; its run {run} is {run_state}",
            params={"grace": GRACE_S},
        ),
        *ask(
            "task_without_purpose",
            _IDLE_TASKS,
            subject="task {task}",
            detail="{kind} is {state}, for an allocation that is {allocation_state}",
        ),
    ]


_LIFECYCLES = """
SELECT 'placement.allocation' AS noun, id, state, 'placed' AS initial FROM placement_allocation
UNION ALL SELECT 'placement.claim', id, state, 'reserved' FROM placement_claim
UNION ALL SELECT 'placement.slot', id, state, 'candidate' FROM placement_slot
UNION ALL SELECT 'placement.slotresidue', id, state, 'found' FROM placement_slotresidue
UNION ALL SELECT 'placement.node', id, state, 'enrolling' FROM placement_node
UNION ALL SELECT 'placement.nodetask', id, state, 'pending' FROM placement_nodetask
UNION ALL SELECT 'admission.admissionrequest', id, state, 'received' FROM admission_admissionrequest
"""
_MOVES = """
SELECT e.id, e.subject_kind, e.subject_id, e.kind, e.before ->> 'state' AS came_from,
       e.after ->> 'state' AS went_to,
       lag(e.after ->> 'state') OVER (PARTITION BY e.subject_kind, e.subject_id ORDER BY e.id)
           AS stood_at
  FROM kernel_event e
 WHERE e.after ? 'state' AND e.subject_id IS NOT NULL
"""
_UNRECORDED = f"""
SELECT l.noun, l.id, l.state, coalesce(last.went_to, l.initial) AS recorded
  FROM ({_LIFECYCLES}) l
  LEFT JOIN (SELECT DISTINCT ON (subject_kind, subject_id) subject_kind, subject_id, went_to
               FROM ({_MOVES}) moves ORDER BY subject_kind, subject_id, id DESC) last
    ON last.subject_kind = l.noun AND last.subject_id = l.id
 WHERE l.state <> coalesce(last.went_to, l.initial)
"""
_JUMPED = f"""
SELECT m.subject_kind AS noun, m.subject_id AS id, m.kind, m.came_from, m.stood_at
  FROM ({_MOVES}) m
 WHERE m.came_from IS NOT NULL AND m.stood_at IS NOT NULL AND m.came_from <> m.stood_at
"""


def transitions() -> list[Finding]:
    """I-10: the recorded moves of each thing lead without a gap to the state it is in."""
    return [
        *ask(
            "state_not_recorded",
            _UNRECORDED,
            subject="{noun} {id}",
            detail="it is {state}; the last recorded move led to {recorded}",
        ),
        *ask(
            "move_missing",
            _JUMPED,
            subject="{noun} {id}",
            detail="{kind} went from {came_from}; the move before had led to {stood_at}",
        ),
    ]
