"""What time is it?  One place, so that a test can say.

Rules about deadlines and leases use the database's clock (``db_now``); the process
clock is for display and for identifiers; durations use ``monotonic``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from django.db import connection


class Clock(Protocol):
    """Anything that can say the time."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class FakeClock:
    """A clock that moves only when told; it also stands in for the database's clock."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def advance(self, seconds: float) -> None:
        """Move forward by ``seconds``."""
        self.at += timedelta(seconds=seconds)


_SYSTEM = SystemClock()
_clock: Clock = _SYSTEM


def now() -> datetime:
    """The process's time, aware, in UTC."""
    return _clock.now()


def epoch_ns() -> int:
    """The process's time in nanoseconds since 1970, for identifiers."""
    if _clock is _SYSTEM:
        return time.time_ns()
    said = stand_in()
    return time.time_ns() if said is None else int(said.timestamp() * 1_000_000_000)


def monotonic() -> float:
    """Seconds for measuring a duration inside this process."""
    return _clock.monotonic()


def thread_s() -> float:
    """Seconds of a processor that this thread has had: what work costs, however busy it is."""
    return time.thread_time()


def db_now() -> datetime:
    """The database's wall clock: what leases, deadlines and windows are measured by."""
    said = stand_in()
    if said is not None:
        return said
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def stand_in() -> datetime | None:
    """The time that a test says it is, to hand to SQL; None when the database may say it."""
    return _clock.now() if isinstance(_clock, FakeClock) else None


@contextmanager
def use(clock: Clock) -> Iterator[Clock]:
    """Tell the time by ``clock`` inside the block."""
    global _clock
    before, _clock = _clock, clock
    try:
        yield clock
    finally:
        _clock = before
