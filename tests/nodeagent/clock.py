"""A clock that only moves when it is told to, or when somebody waits on it."""

from __future__ import annotations

import asyncio


class FakeClock:
    """Unix seconds that start at a fixed time."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.time = start

    def now(self) -> float:
        """The time now."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Waiting takes no real time; others get their turn."""
        self.time += seconds
        await asyncio.sleep(0)
