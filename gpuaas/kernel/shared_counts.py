"""How often did something happen, over all processes, while Valkey lives?

A process counts in memory, and a thread of it hands the counts on about a second later, so that
whoever counts waits for no broker. While Valkey is away the last known counts stand, and what came
since waits; one that was emptied begins at zero, as a counter may. Where the answer to a handing
on was lost, it may be added twice. What a process counted in its last second dies with it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

import redis

log = logging.getLogger(__name__)


class SharedCounts:
    """What this process counted, by field, and the way to the shared counts: one hash."""

    EVERY_S = 1.0
    RETRY_SHARED_S = 10.0

    def __init__(self, url: str, key: str) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._shared: Counter[str] = Counter()
        self._due = False
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=0.25,
            socket_connect_timeout=0.25,
            retry=None,
            decode_responses=True,
        )

    def add(self, more: Mapping[str, int]) -> None:
        """Count; waits for nothing, never raises."""
        with self._lock:
            self._waiting.update(more)
        self._later(self.EVERY_S)

    def read(self) -> Counter[str]:
        """All that was counted; never raises."""
        self._hand_on()
        try:
            kept = self._client.hgetall(self._key)
        except (redis.RedisError, OSError):
            kept = None
        with self._lock:
            if kept is not None:
                self._shared = Counter({str(name): int(count) for name, count in kept.items()})
            return self._shared + self._waiting

    def _later(self, seconds: float) -> None:
        with self._lock:
            if self._due:
                return
            self._due = True
        timer = threading.Timer(seconds, self._hand_on)
        timer.name, timer.daemon = self._key, True
        timer.start()

    def _hand_on(self) -> None:
        """Add what waits to the shared counts; what cannot be handed on waits."""
        with self._lock:
            self._due = False
            taken, self._waiting = self._waiting, Counter()
        if not taken:
            return
        try:
            for name in sorted(taken):
                self._client.hincrby(self._key, name, taken[name])
                del taken[name]
        except (redis.RedisError, OSError) as error:
            log.info("%s wait for Valkey: %s", self._key, type(error).__name__)
            with self._lock:
                self._waiting.update(taken)
            self._later(self.RETRY_SHARED_S)
