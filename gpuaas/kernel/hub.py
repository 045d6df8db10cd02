"""How does a request wait for news without holding a database connection?

One thread per process listens on a connection of its own, outside the pool, and wakes the
waiters of a topic. A parked request has given its pooled connection back. About a hundred
may be parked per process; the next one is answered at once, and asks again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg
from django.db import connection, connections

log = logging.getLogger(__name__)
T = TypeVar("T")
Listener = psycopg.Connection[tuple[object, ...]]

CHANNEL = "gpuaas"
PARKED_LIMIT = 100
LISTEN_WITHIN_S = 2.0
RECHECK_S = 15.0
"""A parked request looks again this often even when it hears nothing."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class _Waiter:
    """One parked request or stream, and what it has heard since it last looked."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.heard: set[str] = set()
        self.bell = threading.Event()

    def take(self) -> set[str]:
        self.bell.clear()
        heard, self.heard = self.heard, set()
        return heard


class Hub:
    """The listener of one process. Everything is lazy: nobody waiting, nothing connected."""

    def __init__(self, limit: int = PARKED_LIMIT) -> None:
        self.limit = limit
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """A fresh state; a forked child has neither the thread nor the connection."""
        self._lock = threading.Lock()
        self._waiters: dict[str, set[_Waiter]] = defaultdict(set)
        self._parked = 0
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        self._stop = threading.Event()

    @property
    def parked(self) -> int:
        """How many requests and streams are parked now."""
        return self._parked

    @property
    def listening(self) -> bool:
        """True while the LISTEN connection is up."""
        return self._listening.is_set()

    def stop(self) -> None:
        """End the thread and its connection; the next wait starts them again."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=5)
        with self._lock:
            self._thread = None
            self._stop = threading.Event()

    def wait(
        self, topics: Iterable[str], timeout_s: float, check: Callable[[], T | None]
    ) -> T | None:
        """Park until ``check`` gives something, at most ``timeout_s``; None when it did not.

        ``check`` is called first, after each piece of news on the topics, after a lost LISTEN
        connection, and at the end. In between the caller's database connection is back in the
        pool, so this must be called outside a transaction (RuntimeError): a ``check`` that
        needs a tenant's scope opens it itself.
        """
        if connection.in_atomic_block:
            raise RuntimeError("a transaction is open: a parked request may not hold one")
        until = time.monotonic() + timeout_s
        found = check()
        if found is not None or timeout_s <= 0:
            return found
        with self._seat(topics) as seat:
            if seat is None:
                return None
            self._ensure_listening()
            while True:
                seat.take()
                found = check()
                left = until - time.monotonic()
                if found is not None or left <= 0:
                    return found
                connections.close_all()
                seat.bell.wait(min(left, RECHECK_S))

    def stream(self, topics: Iterable[str], heartbeat_s: float = 15.0) -> Iterator[set[str]]:
        """The topics that were heard, as they come; an empty set after each quiet heartbeat.

        The first item is all topics, so that the reader looks once after it is listening.
        After a lost LISTEN connection all topics come again. When the process has no seat left
        the stream ends at once. The database connection is given back before each pause.
        """
        with self._seat(topics) as seat:
            if seat is None:
                return
            self._ensure_listening()
            yield set(seat.topics)
            while not self._stop.is_set():
                connections.close_all()
                seat.bell.wait(heartbeat_s)
                yield seat.take()

    @contextmanager
    def _seat(self, topics: Iterable[str]) -> Iterator[_Waiter | None]:
        waiter = _Waiter(frozenset(topics))
        with self._lock:
            full = self._parked >= self.limit
            if not full:
                self._parked += 1
                for topic in waiter.topics:
                    self._waiters[topic].add(waiter)
        if full:
            yield None
            return
        try:
            yield waiter
        finally:
            with self._lock:
                self._parked -= 1
                for topic in waiter.topics:
                    self._waiters[topic].discard(waiter)
                    if not self._waiters[topic]:
                        del self._waiters[topic]

    def _ensure_listening(self) -> None:
        """Start the thread if need be, and give it a moment to listen. Never an error:
        without it a parked request still looks every ``RECHECK_S``."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._listening.clear()
                self._thread = threading.Thread(target=self._run, name="notify-hub", daemon=True)
                self._thread.start()
        self._listening.wait(LISTEN_WITHIN_S)

    def _run(self) -> None:
        stop = self._stop
        failures = 0
        while not stop.is_set():
            try:
                with _direct() as listener:
                    listener.execute(f"LISTEN {CHANNEL}")
                    if failures:
                        log.info("listening for notifications again")
                    failures = 0
                    self._listening.set()
                    self._ring_all()  # what was said while nobody listened
                    self._pass_on(listener, stop)
            except (psycopg.Error, OSError) as error:
                if not failures:
                    log.warning("the notification listener lost its connection: %s", type(error))
                self._listening.clear()
                stop.wait(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
                failures += 1
        self._listening.clear()

    def _pass_on(
        self, listener: psycopg.Connection[tuple[object, ...]], stop: threading.Event
    ) -> None:
        while not stop.is_set():
            for news in listener.notifies(timeout=1.0):
                self._ring(news.payload)
                if stop.is_set():
                    return

    def _ring(self, topic: str) -> None:
        with self._lock:
            for waiter in self._waiters.get(topic, ()):
                waiter.heard.add(topic)
                waiter.bell.set()

    def _ring_all(self) -> None:
        with self._lock:
            for topic, waiters in self._waiters.items():
                for waiter in waiters:
                    waiter.heard.add(topic)
                    waiter.bell.set()


@contextmanager
def _direct() -> Iterator[Listener]:
    """A connection outside Django's pool, with TCP keepalives so that a dead peer shows."""
    given = connection.settings_dict
    options = dict(given["OPTIONS"])
    for ours in ("pool", "isolation_level", "server_side_binding", "assume_role"):
        options.pop(ours, None)
    listener = psycopg.connect(
        host=given["HOST"] or None,
        port=given["PORT"] or None,
        user=given["USER"] or None,
        password=given["PASSWORD"] or None,
        dbname=given["NAME"],
        application_name="gpuaas-listen",
        autocommit=True,
        connect_timeout=5,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        **options,
    )
    try:
        yield listener
    finally:
        with suppress(psycopg.Error):
            listener.close()
