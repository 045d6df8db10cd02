"""Does a report say nothing new?  Then it costs three statements at most, and no judgement.

A thousand hosts report four times a minute each, nearly always the same. Such a report only proves
that the host is alive and as it was; every so many it is taken in full all the same, so that
whatever depends on the time, or was missed, is judged again.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from placement.models import Allocation, Node
from placement.models.allocation import Observed
from placement.node_tasks import ObservedReport

IN_FULL_EVERY: Final = 8
"""Reports: at the agents' four a minute, each host is judged anew at least every two minutes."""

# Who is well, was so before, and says the same as before but for its number and time. What was
# stored keeps its number and time; those of this report are in columns of their own.
_SAME: Final = """
UPDATE placement_node n
   SET observed_at = %(now)s, observed_seq = %(seq)s, last_seen_at = %(now)s
 WHERE n.id = %(id)s AND n.boot_id = %(boot)s AND n.observed_seq < %(seq)s
   AND n.health = 'ok' AND n.conditions = '[]'::jsonb
   AND n.observed - 'seq' - 'at' = %(said)s::jsonb - 'seq' - 'at'
   AND NOT EXISTS (SELECT FROM placement_slotresidue r
                    WHERE r.node_id = n.id AND r.state IN ('found', 'overridden'))
   AND NOT EXISTS (SELECT FROM placement_devicehealth h
                    WHERE h.node_id = n.id AND h.classification <> 'healthy')
"""
_HELD: Final = """
SELECT id, observed FROM placement_allocation WHERE node_id = %s AND state = ANY (%s)
"""


def report_quiet(
    node: Node, message: ObservedReport, now: datetime, holding: Collection[str]
) -> bool:
    """Take a report that says nothing new; False where it has to be taken in full.

    ``holding``: the states in which an allocation has something on its host.
    """
    if message.conditions or message.seq % IN_FULL_EVERY == 0:
        return False
    given: dict[str, Any] = {
        "now": now,
        "id": node.pk,
        "boot": message.boot_id,
        "seq": message.seq,
        "said": json.dumps(message.to_json()),
    }
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_SAME, given)
            same = cursor.rowcount == 1
        same = same and _as_held(node, message, now, holding)
        if not same:
            transaction.set_rollback(True)
    return same


def _as_held(node: Node, message: ObservedReport, now: datetime, holding: Collection[str]) -> bool:
    """Whether the host has what is held on it and nothing else, as it had; that is noted."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [node.pk, list(holding)])
        held: dict[UUID, str] = dict(cursor.fetchall())
    there = [vm.claim_ref for vm in message.vms]
    if sorted(map(str, held)) != sorted(str(ref or "") for ref in there):
        return False
    if any(observed != Observed.PRESENT for observed in held.values()):
        return False
    if held:
        Allocation.objects.filter(pk__in=list(held)).update(observed_at=now)
    return True
