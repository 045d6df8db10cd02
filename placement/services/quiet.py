"""Does a report say nothing new?  Then one statement takes it, unread: number, time and all.

A thousand hosts report four times a minute each, nearly always the same. Such a report only proves
that the host is alive and as it was. Its bytes after number and time are those of the report that
was last read and taken in full, which their digest says; so nothing of them is read again. Every so
many it is asked whether the time alone could lead to another judgement: where it could, the report
is taken in full. And once in a long while one is taken in full whatever is known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from psycopg.types.numeric import Int8

from gpuaas.kernel import clock
from placement.domain.seen import from_report
from placement.models import Node
from placement.models.allocation import Observed
from placement.services.evidence import FRESH
from placement.services.health import LOOKED_BACK
from placement.services.signatures import KNOWN, TAKEN, Signed, host_of, number_take

JUDGED_EVERY: Final = 8
"""Reports: at the agents' four a minute, each host of whose GPUs an error is known, or whose
evidence gets old, is judged anew every two minutes."""
IN_FULL_EVERY: Final = 8 * JUDGED_EVERY
"""Reports: each host is looked at in full at least every sixteen minutes."""
DIGEST: Final = "digest"
"""The member beside what was reported that tells which bytes said it."""
# As agents write it: what changes from report to report stands first.
_HEAD: Final = re.compile(
    rb'\{"boot_id": ?"(?P<boot>[A-Za-z0-9-]{8,64})", ?"seq": ?(?P<seq>[1-9][0-9]{0,17}), ?'
    rb'"at": ?(?:0|[1-9][0-9]{0,11}), ?(?=")'
)

# Whether all that is held there was said to be there, and nothing else was; by what was stored,
# since the bytes are the same. Traces and unwell GPUs are judged by every report; what is judged by
# the age of an error or of what a report proves, by every so many. Any report may be lost, or be
# refused: so it is the first that is answered with a number beyond the next so many, which the
# number of the report that was last taken tells; and the same for a look in full. That nothing
# asked for is released is said in words too: the states come as a value, and the index of what
# stands is found by words only; without it every lease that ever was would be read.
_HELD: Final = """
held AS MATERIALIZED (
    SELECT known.id, n.observed_seq, n.generation,
           n.observed->>'digest' = %(digest)s
           AND %(seq)s::bigint / %(in_full)s = n.observed_seq / %(in_full)s
           AND n.observed->'conditions' = '[]'::jsonb
           AND ARRAY(SELECT a.id::text FROM placement_allocation a
                  WHERE a.node_id = n.id AND a.state = ANY (%(holding)s)
                       AND a.state <> 'released' ORDER BY 1)
           = ARRAY(SELECT coalesce(v->>'claim_ref', '')
                     FROM jsonb_array_elements(n.observed->'vms') v ORDER BY 1)
           AND NOT EXISTS (SELECT FROM placement_allocation a
                            WHERE a.node_id = n.id AND a.state = ANY (%(holding)s)
                              AND a.state <> 'released' AND a.observed <> %(present)s)
           AND NOT EXISTS (SELECT FROM placement_slotresidue r
                            WHERE r.node_id = n.id AND r.state IN ('found', 'overridden'))
           AND NOT EXISTS (SELECT FROM placement_devicehealth h
                            WHERE h.node_id = n.id AND h.classification <> 'healthy')
           AND (%(seq)s::bigint / %(judged)s = n.observed_seq / %(judged)s
                OR NOT EXISTS (SELECT FROM placement_xidevent x
                                WHERE x.node_id = n.id
                                  AND x.created_at >= known.at - make_interval(secs => %(back)s))
               AND EXISTS (SELECT FROM placement_readinessevidence e
                            WHERE e.node_id = n.id AND e.check_name = %(check)s AND e.device = ''
                              AND e.verdict = %(verdict)s AND e.reason = %(reason)s
                              AND e.observed_at > known.at - make_interval(secs => %(fresh)s)))
           AS agrees
      FROM known JOIN placement_node n ON n.id = known.id),
"""
# Looked at in the row as it is once it is locked: no other report was taken in the meantime, and
# nothing was placed there or given back.
_STILL: Final = """held.agrees AND n.boot_id = %(boot)s AND n.observed_seq < %(seq)s
           AND n.observed_seq = held.observed_seq AND n.generation = held.generation
           AND n.health = 'ok' AND n.conditions = '[]'::jsonb"""
# Every report is written down, also within a second of another message.
_HAD: Final = """
had AS MATERIALIZED (
    SELECT n.id FROM held JOIN placement_node n ON n.id = held.id FOR NO KEY UPDATE OF n),
"""
# What was stored keeps its number and time; those of this report are in columns of their own.
_SEEN: Final = f"""
, seen AS (
    UPDATE placement_node n
       SET last_seen_at = known.at,
           observed_seq = CASE WHEN {_STILL} THEN %(seq)s ELSE n.observed_seq END,
           observed_at = CASE WHEN {_STILL} THEN known.at ELSE n.observed_at END
      FROM known JOIN taken ON taken.id = known.credential JOIN held ON held.id = known.id
     WHERE n.id = known.id
 RETURNING n.id, n.observed_seq = %(seq)s AND n.observed_at = known.at AS same),
noted AS (
    UPDATE placement_allocation a SET observed_at = known.at
      FROM known JOIN seen ON seen.id = known.id
     WHERE seen.same AND a.node_id = known.id AND a.state = ANY (%(holding)s)
       AND a.state <> 'released')
"""
_SAME: Final = (
    KNOWN
    + _HELD
    + _HAD
    + TAKEN
    + _SEEN
    + "SELECT known.id, known.name, known.state, known.boot_id, known.at, seen.same"
    " FROM known JOIN seen ON seen.id = known.id"
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a report is known by without reading it."""

    boot_id: str
    seq: int
    digest: str


def said_in(body: bytes) -> Said | None:
    """What a report says first, and the digest of boot and rest; None where it is written
    otherwise than our agents write it."""
    head = _HEAD.match(body)
    if head is None:
        return None
    rest = hashlib.sha256(head["boot"] + b"\n" + body[head.end() :])
    return Said(head["boot"].decode(), int(head["seq"]), rest.hexdigest())


def report_quiet(
    signed: Signed, said: Said, holding: Collection[str]
) -> tuple[Node, datetime, bool]:
    """The host of a report whose signature holds, the time, and whether it was taken as it is:
    it says nothing new. Where not, the host was heard and the report is to be taken in full.

    ``holding``: the states in which an allocation has something on its host. Raises as number_take.
    """
    proved = from_report((), clock.now())
    more = {
        "in_full": Int8(IN_FULL_EVERY),
        "judged": Int8(JUDGED_EVERY),
        "back": LOOKED_BACK.total_seconds(),
        "check": proved.check,
        "verdict": proved.verdict,
        "reason": proved.reason,
        "fresh": FRESH.total_seconds(),
        "boot": said.boot_id,
        "seq": Int8(said.seq),
        "digest": said.digest,
        "holding": list(holding),
        "present": str(Observed.PRESENT),
    }
    row = number_take(signed, _SAME, more)
    return host_of(row), row[4], row[5]
