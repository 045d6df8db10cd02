"""How are windows of maintenance drawn over the weeks ahead?  A row a node, a bar a window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.svg import clip, el, text
from placement.models import MaintenanceWindow

DAYS = 28
MOST = 24
WIDE, LABEL, ROW, HEAD = 1000, 150, 24, 26


def strip(windows: Sequence[MaintenanceWindow], now: datetime) -> SafeString:
    """The next four weeks; the list beside it says the same. Names are escaped by the drawing."""
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end = start + timedelta(days=DAYS)
    rows: dict[str, list[MaintenanceWindow]] = {}
    for window in windows:
        if window.starts_at < end and window.ends_at > start:
            rows.setdefault(window.node.name, []).append(window)
    names = sorted(rows)[:MOST]
    if not names:
        return mark_safe("")
    day = (WIDE - LABEL) / DAYS
    height = HEAD + ROW * len(names) + 4
    shapes = []
    for k in range(DAYS + 1):
        x = LABEL + k * day
        week = "week" if k % 7 == 0 else ""
        shapes.append(el("line", x1=x, y1=HEAD - 6, x2=x, y2=height, cls=week))
        if k % 7 == 0 and k < DAYS:
            shapes.append(text(f"{start + timedelta(days=k):%d %b}", x + 4, HEAD - 10, "faint"))
    for at, name in enumerate(names):
        y = HEAD + at * ROW
        shapes.append(text(clip(name, 18), 16, y + 16, ""))
        for window in rows[name]:
            left = max(0.0, (window.starts_at - start) / timedelta(days=1))
            right = min(float(DAYS), (window.ends_at - start) / timedelta(days=1))
            shapes.append(
                el(
                    "rect",
                    el(
                        "title",
                        f"{window.starts_at:%d %b %H:%M} to {window.ends_at:%d %b %H:%M} UTC",
                    ),
                    x=LABEL + left * day,
                    y=y + 4,
                    width=max(4.0, (right - left) * day),
                    height=ROW - 8,
                    rx=3,
                    cls=f"w-{window.state}",
                )
            )
    told = ", ".join(f"{name}: {len(rows[name])}" for name in names)
    return mark_safe(
        el(
            "svg",
            *shapes,
            viewBox=f"0 0 {WIDE} {height}",
            cls="calendar",
            role="img",
            aria_label=f"Windows in the next four weeks by node: {told}",
        )
    )
