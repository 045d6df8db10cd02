"""What did a host measure last, and how was it in the hour before?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from gpuaas.kernel import clock
from placement.models import Claim, Node, NodeTelemetry, Slot, TelemetryWindow
from placement.states import LIVE, SlotState

STALE_AFTER = timedelta(seconds=180)
"""Three windows of the agent's: then the last numbers say nothing about now."""


def telemetry_of(node: Node) -> dict[str, Any]:
    """The last window, whose GPU is whose, and use that no claim explains.

    Stale numbers stay visible with their age; they are never shown as now.
    """
    ring = NodeTelemetry.objects.filter(node=node).first()
    last = None
    if ring is not None:
        last = TelemetryWindow.objects.filter(node=node, place=ring.place).first()
    if ring is None or last is None:
        return {
            "as_of": None,
            "age_s": None,
            "stale": True,
            "source": None,
            "driver": None,
            "cuda": None,
            "lost": 0,
            "devices": [],
            "xids": [],
            "processes": [],
            "processes_more": 0,
        }
    body, age = last.body, clock.db_now() - last.received_at
    slots = {
        slot.gpu_uuid: slot.index
        for slot in Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED)
    }
    claimed = set(
        Claim.objects.filter(node_num=node.num, state__in=LIVE).values_list("slot_index", flat=True)
    )

    def is_claimed(device: str | None) -> bool:
        return -1 in claimed or slots.get(device or "") in claimed

    return {
        "as_of": last.received_at,
        "age_s": round(age.total_seconds(), 1),
        "stale": age > STALE_AFTER,
        "source": body["source"],
        "driver": body["driver"],
        "cuda": body["cuda"],
        "lost": ring.lost,
        "devices": [
            {
                "device": one["device"],
                "slot_index": slots.get(one["device"]),
                "claimed": is_claimed(one["device"]),
                "series": one["series"],
            }
            for one in body["devices"]
        ],
        "xids": body["xids"],
        "processes": [
            {**one, "beyond_claim": not is_claimed(one["device"])} for one in body["processes"]
        ],
        "processes_more": body["processes_more"],
    }


def telemetry_history(node: Node, metric: str) -> list[dict[str, Any]]:
    """One metric of every device in the windows that are kept, oldest first."""
    rows = TelemetryWindow.objects.filter(node=node).order_by("received_at", "seq")
    return [
        _point(row.received_at, one["device"], series)
        for row in rows
        for one in row.body["devices"]
        for series in one["series"]
        if series["metric"] == metric
    ]


def _point(at: datetime, device: str | None, series: dict[str, Any]) -> dict[str, Any]:
    names = ("unit", "valid", "invalid", "reason", "last", "least", "most", "mean", "increase")
    return {"at": at, "device": device, **{name: series.get(name) for name in names}}
