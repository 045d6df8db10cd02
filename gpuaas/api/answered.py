"""How many requests were answered with a problem, by code?  Over all processes, while Valkey lives.

A process counts in memory and hands the counts on about once a second and when it is read, so
that an answer waits for no broker. Without Valkey each tells what it counted itself; a Valkey
that was emptied begins at zero, as a counter may.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Final

import redis
from django.conf import settings

from gpuaas.kernel import clock

log = logging.getLogger(__name__)

KEY: Final = "gpuaas:problems"

Kind = tuple[str, int]
"""Reason code and HTTP status."""


class Problems:
    """What this process counted, and the way to the shared counts."""

    EVERY_S = 1.0
    RETRY_SHARED_S = 10.0

    def __init__(self, url: str) -> None:
        self._lock = threading.Lock()
        self._waiting: Counter[Kind] = Counter()
        self._hand_on_at = 0.0
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=0.25,
            socket_connect_timeout=0.25,
            retry=None,
            decode_responses=True,
        )

    def add(self, code: str, status: int) -> None:
        """Count one answer; never raises."""
        with self._lock:
            self._waiting[code, status] += 1
            due = clock.monotonic() >= self._hand_on_at
        if due:
            self._hand_on()

    def read(self) -> Counter[Kind]:
        """All that were counted; never raises."""
        self._hand_on()
        try:
            kept = self._client.hgetall(KEY)
        except (redis.RedisError, OSError):
            kept = {}
        with self._lock:
            found = Counter(self._waiting)
        for field, count in kept.items():
            code, _, status = str(field).rpartition(" ")
            found[code, int(status)] += int(count)
        return found

    def _hand_on(self) -> None:
        """Add what waits to the shared counts; what cannot be handed on waits."""
        now = clock.monotonic()
        with self._lock:
            self._hand_on_at = now + self.EVERY_S
            taken, self._waiting = self._waiting, Counter()
        if not taken:
            return
        try:
            with self._client.pipeline(transaction=True) as pipe:
                for (code, status), count in taken.items():
                    pipe.hincrby(KEY, f"{code} {status}", count)
                pipe.execute()
        except (redis.RedisError, OSError) as error:
            log.info("problems are counted per process: %s", type(error).__name__)
            with self._lock:
                self._waiting.update(taken)
                self._hand_on_at = now + self.RETRY_SHARED_S


problems = Problems(settings.CONFIG.redis_url)
