"""How many requests were answered with a problem, by code?  Over all processes, while Valkey lives.

A process counts in memory, and a thread of it hands the counts on about a second later, so that
an answer waits for no broker. While Valkey is away the last known counts stand, and what came
since waits; one that was emptied begins at zero, as a counter may. Where the answer to a handing
on was lost, one code's count may be added twice.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Final

import redis
from django.conf import settings

log = logging.getLogger(__name__)

KEY: Final = "gpuaas:problems"

Kind = tuple[str, int]
"""Reason code and HTTP status."""


class Problems:
    """What this process counted, and the way to the shared counts."""

    EVERY_S = 1.0
    RETRY_SHARED_S = 10.0

    def __init__(self, url: str, key: str = KEY) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._waiting: Counter[Kind] = Counter()
        self._shared: Counter[Kind] = Counter()
        self._due = False
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=0.25,
            socket_connect_timeout=0.25,
            retry=None,
            decode_responses=True,
        )

    def add(self, code: str, status: int) -> None:
        """Count one answer; waits for nothing, never raises."""
        with self._lock:
            self._waiting[code, status] += 1
        self._later(self.EVERY_S)

    def read(self) -> Counter[Kind]:
        """All that were counted; never raises."""
        self._hand_on()
        try:
            kept = self._client.hgetall(self._key)
        except (redis.RedisError, OSError):
            kept = None
        with self._lock:
            if kept is not None:
                self._shared = Counter()
                for field, count in kept.items():
                    code, _, status = str(field).rpartition(" ")
                    self._shared[code, int(status)] = int(count)
            return self._shared + self._waiting

    def _later(self, seconds: float) -> None:
        with self._lock:
            if self._due:
                return
            self._due = True
        timer = threading.Timer(seconds, self._hand_on)
        timer.name, timer.daemon = "problems", True
        timer.start()

    def _hand_on(self) -> None:
        """Add what waits to the shared counts; what cannot be handed on waits."""
        with self._lock:
            self._due = False
            taken, self._waiting = self._waiting, Counter()
        if not taken:
            return
        try:
            for code, status in sorted(taken):
                self._client.hincrby(self._key, f"{code} {status}", taken[code, status])
                del taken[code, status]
        except (redis.RedisError, OSError) as error:
            log.info("problems wait for Valkey: %s", type(error).__name__)
            with self._lock:
                self._waiting.update(taken)
            self._later(self.RETRY_SHARED_S)


problems = Problems(settings.CONFIG.redis_url)
