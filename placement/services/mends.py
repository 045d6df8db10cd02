"""Which parts of GPUs do not say all that they have in use, and how do they come to say it?

Code from before media engines were known may run beside the present code for a while, and writes
what a part takes without them. The present code would then give an engine away twice. What a part
takes follows from its board, profile and place, so it is set right by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.db import connection

from gpuaas.kernel import events, sweeping
from gpuaas.kernel.actor import system
from placement.domain.mig import BOARDS, Placement, bits
from placement.services.nodes import locked, recount
from placement.states import LIVE

MENDS: Final = system("mends")
_TAKEN: Final = """
  FROM placement_cutslot k
  JOIN placement_claim c ON c.node_num = k.node_num AND c.slot_index = k.slot_index
  JOIN unnest(%(boards)s::text[], %(profiles)s::text[], %(starts)s::int[], %(bits)s::int[])
       AS taken(board, profile, start, bits)
       ON taken.board = k.board AND taken.profile = c.part ->> 'profile'
      AND taken.start = (c.part ->> 'start')::int
 WHERE k.cut = 'mig' AND k.board = ANY (%(boards)s::text[]) AND c.state = ANY (%(live)s)
   AND (c.part ->> 'bits')::int IS DISTINCT FROM taken.bits
"""
_WRONG: Final = (
    "SELECT DISTINCT k.node_id" + _TAKEN + " AND k.node_id <> ALL (%(resting)s::uuid[]) LIMIT 200"
)
_MEND: Final = (
    "WITH wrong AS (SELECT c.id, taken.bits" + _TAKEN + " AND k.node_id = %(node)s)"
    " UPDATE placement_claim c SET part = jsonb_set(c.part, '{bits}', to_jsonb(wrong.bits))"
    " FROM wrong WHERE c.id = wrong.id RETURNING c.slot_index"
)


@lru_cache(maxsize=1)
def _known() -> dict[str, list[Any]]:
    """What each instance takes, of the boards whose slices have engines."""
    rows = [
        (board.name, row.name, start, bits(board, Placement(start, row.size, row.name)))
        for board in BOARDS
        if any(row.engines for row in board.profiles)
        for row in board.profiles
        for start in row.starts
    ]
    columns = map(list, zip(*rows, strict=True))
    return dict(zip(("boards", "profiles", "starts", "bits"), columns, strict=True))


def parts_sweep() -> int:
    """Hosts whose parts were written with less than they take; how many were set right."""
    return sweeping.each("placement.parts", _wrong, _mend)


def _wrong(resting: Collection[UUID]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_WRONG, {**_known(), "live": list(LIVE), "resting": list(resting)})
        return [node_id for (node_id,) in cursor.fetchall()]


def _mend(node_id: UUID) -> bool:
    node = locked(node_id)
    with connection.cursor() as cursor:
        cursor.execute(_MEND, {**_known(), "live": list(LIVE), "node": node_id})
        slots = sorted({index for (index,) in cursor.fetchall()})
    if not slots:
        return False
    recount(node)
    events.record(
        kind="placement.node.parts_mended", subject=node, actor=MENDS, facts={"slots": slots}
    )
    return True
