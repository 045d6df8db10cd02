"""How are a host's measurements kept?  In a ring of its last windows, so that no table grows."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import transaction

from gpuaas.kernel import clock
from placement.models import Node, NodeTelemetry, TelemetryWindow
from placement.node_tasks import ObservedAnswer, TelemetryReport
from placement.node_tasks import TelemetryWindow as WireWindow
from placement.services.health import health_refresh, xids_take
from placement.services.nodes import locked, versions_seen

RING = 60
"""Windows kept of a host: an hour, at the agent's one a minute."""


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
    versions_seen(row, driver=message.windows[-1].driver, runtime=message.windows[-1].cuda)
    ring.boot_id, ring.received_at = message.boot_id, now
    if not repeated:
        ring.lost += message.lost
    ring.save()
    if told or _errors(message.windows[-1]):
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
