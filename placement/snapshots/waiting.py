"""Who waits in a pool's queue, and in which order?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from gpuaas.kernel import prepared

_WAITING: Final = """
SELECT r.id, r.tenant_id, r.project_id, s.name, r.slots, r.spec, r.run_id, r.code, r.detail,
       r.action, r.replicas, r.workload_id, r.subject_id, r.band, r.queued_at
  FROM admission_admissionrequest r
  JOIN tenants_sku s ON s.id = r.sku_id
  JOIN kernel_workflowrun w ON w.id = r.run_id
 WHERE r.state = 'queued' AND r.pool"""
_HEADS: Final = (
    _WAITING
    + """ = %s
   AND (r.band, r.queued_at, r.id) > (%s::int, %s::timestamptz, %s::uuid)
 ORDER BY r.band, r.queued_at, r.id LIMIT %s
"""
)
_NAMED: Final = _WAITING + " <> '' AND r.id = %s"
_LOCK: Final = " FOR NO KEY UPDATE OF r, w SKIP LOCKED"

After = tuple[int, datetime, UUID]
FIRST: Final[After] = (-1, datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


class Waiting(NamedTuple):
    """A request that waits for room, as it was read."""

    id: UUID
    tenant_id: UUID
    project_id: UUID
    sku: str
    slots: int
    spec: dict[str, Any]
    run_id: UUID
    code: str
    detail: str
    action: str
    replicas: int
    workload_id: UUID | None
    subject_id: UUID | None
    band: int
    queued_at: datetime

    @property
    def place(self) -> After:
        """Where the queue goes on after this one."""
        return (self.band, self.queued_at, self.id)


def heads(pool: str, limit: int, *, lock: bool, after: After = FIRST) -> list[Waiting]:
    """Who goes first; with ``lock``, without those somebody else has in hand.

    The run is locked with its request: whoever withdraws or ends a run locks it first. However
    long the queue is, a page of its index is read.
    """
    sql = _HEADS + _LOCK if lock else _HEADS
    return [_waiting(row) for row in prepared.rows_in_index_order(sql, [pool, *after, limit])]


def named(request_id: UUID, *, lock: bool = False) -> list[Waiting]:
    """One request that waits for room; nothing where it does not, or somebody else has it."""
    sql = _NAMED + _LOCK if lock else _NAMED
    return [_waiting(row) for row in prepared.rows(sql, [request_id])]


def _waiting(row: Sequence[Any]) -> Waiting:
    return Waiting._make((*row[:5], json.loads(row[5]), *row[6:]))
