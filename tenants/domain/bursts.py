"""Is a burst's window open now, and when does that change?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, ``closes_at`` not in it; with ``every_s`` it comes again."""

    opens_at: datetime
    closes_at: datetime
    every_s: int | None = None

    def fault(self) -> str:
        """Why this is not a window that can be kept, or an empty string."""
        length = (self.closes_at - self.opens_at).total_seconds()
        if length <= 0:
            return "it closes before it opens"
        if self.every_s is not None and self.every_s <= length:
            return "it comes again before it has closed"
        return ""


def current(window: Window, now: datetime) -> tuple[datetime, datetime] | None:
    """The window that is open now, or the next one; None when the last one is over."""
    if now < window.opens_at:
        return window.opens_at, window.closes_at
    if window.every_s is None:
        return (window.opens_at, window.closes_at) if now < window.closes_at else None
    period = timedelta(seconds=window.every_s)
    passed = (now - window.opens_at) // period
    opens = window.opens_at + passed * period
    closes = opens + (window.closes_at - window.opens_at)
    if now >= closes:
        return opens + period, closes + period
    return opens, closes


def is_open(window: Window, now: datetime) -> bool:
    """Whether the window is open now."""
    found = current(window, now)
    return found is not None and found[0] <= now


def is_over(window: Window, now: datetime) -> bool:
    """Whether the window will never open again."""
    return current(window, now) is None
