"""How long may an allocation last, and what ends one whose time is over?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from django.db import connection

from gpuaas.kernel import sweeping
from gpuaas.kernel.actor import system
from gpuaas.kernel.errors import FieldError, InvalidRequest
from placement.domain.order import AllocationOrder
from placement.errors import DURATION_OVER
from placement.services.intents import STANDING
from placement.services.releases import BATCH as TOGETHER
from placement.services.releases import Leaving, releases_begin
from placement.states import Outcome

LEAST_S, MOST_S = 60, 10 * 366 * 86_400
BATCH: Final = 200
PART = system("durations")
_OVER: Final = """
SELECT a.id FROM admission_admissionrequest r
  JOIN placement_allocation a ON a.request_id = r.id
  JOIN placement_node n ON n.id = a.node_id
 WHERE r.spec ? 'max_duration_s' AND a.state <> 'released' AND a.state = ANY (%s)
   AND a.id <> ALL (%s::uuid[])
   AND a.created_at + make_interval(secs => (r.spec ->> 'max_duration_s')::int)
       <= statement_timestamp()
 ORDER BY n.num, a.id LIMIT %s
"""


def lasts_of(order: AllocationOrder) -> int | None:
    """The most seconds that it lasts, None without an end. Raises InvalidRequest naming the field.

    Counted from when it is placed: what is reserved for a tenant is the tenant's from then on.
    """
    asked = order.max_duration_s
    if asked is not None and not LEAST_S <= asked <= MOST_S:
        raise InvalidRequest(
            f"max_duration_s: {LEAST_S} to {MOST_S} seconds.",
            errors=(FieldError("/max_duration_s", "out_of_range", f"{LEAST_S} to {MOST_S}"),),
        )
    return asked


def durations_sweep() -> int:
    """Begin the release of what has lasted as long as was asked for; how many began.

    Its outcome is ``expired``. What has been released meanwhile is passed over.
    """
    return sweeping.many("placement.durations", _over, _expire, size=TOGETHER)


def _over(resting: Collection[UUID]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_OVER, [[str(state) for state in STANDING], list(resting), BATCH])
        return [row[0] for row in cursor.fetchall()]


def _expire(allocation_ids: Sequence[UUID]) -> int:
    over = [
        Leaving(
            allocation_id,
            PART,
            code=DURATION_OVER.code,
            detail="the time that was asked for is over",
            outcome=Outcome.EXPIRED,
            cancel=DURATION_OVER.code,
        )
        for allocation_id in allocation_ids
    ]
    return sum(left.begun for left in releases_begin(over))
