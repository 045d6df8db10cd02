"""How are a host's measurements kept?  In a ring of its last windows, so that no table grows.

What a host usually sends, one new window with nothing in it to act upon, is kept by the statement
that takes the message's number.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from django.db import transaction
from psycopg.types.numeric import Int8

from gpuaas.kernel import clock, ids
from placement.models import Node, NodeTelemetry, TelemetryWindow
from placement.node_tasks import ObservedAnswer, TelemetryReport
from placement.node_tasks import TelemetryWindow as WireWindow
from placement.services.health import health_refresh, xids_take
from placement.services.nodes import locked, version_parts, versions_seen
from placement.services.signatures import HAD, KNOWN, SEEN, TAKEN, Signed, host_of, number_take

RING: Final = 60
"""Windows kept of a host: an hour, at the agent's one a minute."""

# The ring turns by one where the window is new, and what the host says of its versions is not. Of
# two that come together the second finds the ring turned, and is taken the long way.
_KEEP: Final = (
    KNOWN
    + """
ring AS (
    SELECT t.id, t.place
      FROM known JOIN placement_node n ON n.id = known.id
      JOIN placement_nodetelemetry t ON t.node_id = known.id
     WHERE n.driver = coalesce(%(driver)s::int[], n.driver)
       AND n.runtime = coalesce(%(runtime)s::int[], n.runtime)
       AND NOT EXISTS (SELECT FROM placement_telemetrywindow w
                        WHERE w.node_id = known.id AND w.boot_id = %(boot)s
                          AND w.seq = %(number)s AND w.ended_at = %(ended)s)),
"""
    + HAD
    + TAKEN
    + SEEN
    + """
, turned AS (
    UPDATE placement_nodetelemetry t
       SET place = (ring.place + 1) %% %(ring)s, boot_id = %(boot)s, received_at = known.at,
           lost = t.lost + %(lost)s
      FROM ring, known JOIN taken ON taken.id = known.credential
     WHERE t.id = ring.id AND t.place = ring.place
 RETURNING t.node_id, t.place, t.received_at),
put AS (
    INSERT INTO placement_telemetrywindow AS w
           (id, node_id, place, boot_id, seq, began_at, ended_at, received_at, body)
    SELECT %(new)s, turned.node_id, turned.place, %(boot)s, %(number)s, %(began)s, %(ended)s,
           turned.received_at, %(body)s::jsonb
      FROM turned
        ON CONFLICT (node_id, place) DO UPDATE
       SET boot_id = excluded.boot_id, seq = excluded.seq, began_at = excluded.began_at,
           ended_at = excluded.ended_at, received_at = excluded.received_at, body = excluded.body)
"""
    + "SELECT known.id, known.name, known.state, known.boot_id, known.at, turned.place"
    " FROM known JOIN taken ON taken.id = known.credential"
    " LEFT JOIN turned ON turned.node_id = known.id"
)


def telemetry_hear(signed: Signed, message: TelemetryReport) -> tuple[Node, ObservedAnswer | None]:
    """The host of a report whose signature holds, and the answer where the report was kept already.

    None: it is still to be taken. Raises what signatures.number_take raises.
    """
    window = message.windows[0]
    if len(message.windows) > 1 or window.xids or _errors(window):
        return host_of(number_take(signed)), None
    more = {
        "driver": version_parts(window.driver),
        "runtime": version_parts(window.cuda),
        "boot": message.boot_id,
        "number": Int8(window.seq),
        "began": _time(window.began_at),
        "ended": _time(window.ended_at),
        "lost": Int8(message.lost),
        "ring": RING,
        "new": ids.new_id(),
        "body": json.dumps(window.to_json()),
    }
    row = number_take(signed, _KEEP, more)
    kept = row[5] is not None
    return host_of(row), ObservedAnswer(server_time=int(row[4].timestamp())) if kept else None


@transaction.atomic
def telemetry_take(*, node: Node, message: TelemetryReport) -> ObservedAnswer:
    """Keep what is new of a report; a window that is known already changes nothing.

    The error numbers among them are kept as events, and the GPUs judged by them anew. The
    versions of driver and runtime are kept with the node, for the terms of placement.
    """
    now = clock.db_now()
    row = locked(node.pk)
    ring = NodeTelemetry.objects.filter(node=row).first() or NodeTelemetry(
        node=row, place=RING - 1, received_at=now
    )
    known = set(
        TelemetryWindow.objects.filter(node=row, boot_id=message.boot_id).values_list(
            "seq", "ended_at"
        )
    )
    first = message.windows[0]
    # Its answer was lost on the way: then its losses have been counted too.
    repeated = (first.seq, _time(first.ended_at)) in known
    told = False
    for window in message.windows:
        ended_at = _time(window.ended_at)
        if (window.seq, ended_at) in known:
            continue
        ring.place = (ring.place + 1) % RING
        _put(row, ring.place, message.boot_id, window, now)
        told = xids_take(row, message.boot_id, window) or told
    last = message.windows[-1]
    # A report that another one has overtaken, or of an earlier boot, tells what was once.
    if message.boot_id == row.boot_id and all(seq <= last.seq for seq, _ in known):
        versions_seen(row, driver=last.driver, runtime=last.cuda)
    ring.boot_id, ring.received_at = message.boot_id, now
    if not repeated:
        ring.lost += message.lost
    ring.save()
    if told or _errors(last):
        health_refresh(row)
    return ObservedAnswer(server_time=int(now.timestamp()))


def _errors(window: WireWindow) -> bool:
    """Whether a window counts uncorrectable memory errors."""
    return any(
        series.metric == "ecc_uncorrected" and series.last
        for device in window.devices
        for series in device.series
    )


def _put(node: Node, place: int, boot_id: str, window: WireWindow, now: datetime) -> None:
    TelemetryWindow.objects.update_or_create(
        node=node,
        place=place,
        defaults={
            "boot_id": boot_id,
            "seq": window.seq,
            "began_at": _time(window.began_at),
            "ended_at": _time(window.ended_at),
            "received_at": now,
            "body": window.to_json(),
        },
    )


def _time(seconds: int) -> datetime:
    """The host's own time; one that no calendar has becomes the last that one has."""
    return datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC)
