"""When do finished windows reach the control plane?  In bounded batches, after the work."""

from __future__ import annotations

import logging
from typing import Protocol

from nodeagent.client import ControlPlane, Refused
from nodeagent.clock import Clock
from nodeagent.protocol import MAX_SERIES, MAX_WINDOWS, TelemetryReport, TelemetryWindow
from nodeagent.telemetry.window import WindowQueue

log = logging.getLogger("nodeagent")
_REST_S = 60.0


class Feed(Protocol):
    """Where windows come from."""

    def windows(self) -> WindowQueue:
        """Finished windows that wait to be sent; a feed without its own thread measures now."""


class TelemetrySender:
    """Sends what waits. What is not taken waits on, and never keeps the agent from its work."""

    def __init__(self, feed: Feed, control: ControlPlane, clock: Clock) -> None:
        self._feed = feed
        self._control = control
        self._clock = clock
        self._rest_until = float("-inf")

    async def send_if_due(self, boot_id: str) -> None:
        """One batch, if any waits. Raises Unreachable."""
        queue = self._feed.windows()
        now = self._clock.now()
        # A clock that was set back must not silence it for long.
        resting = now < self._rest_until <= now + _REST_S
        batch = batch_of(queue.waiting())
        if not batch or resting:
            return
        lost = queue.lost
        try:
            await self._control.telemetry(TelemetryReport(boot_id, batch, lost))
        except Refused as refusal:
            self._rest_until = now + _REST_S
            if refusal.passing or refusal.status in (401, 403, 404):
                return
            log.warning("telemetry not taken: %s", refusal.code)
        queue.taken(batch[-1].seq, lost)


def batch_of(windows: list[TelemetryWindow]) -> tuple[TelemetryWindow, ...]:
    """As many as fit into one report, oldest first, and at least one."""
    batch: list[TelemetryWindow] = []
    size = 0
    for window in windows[:MAX_WINDOWS]:
        size += window.size
        if batch and size > MAX_SERIES:
            break
        batch.append(window)
    return tuple(batch)
