"""How is a worker hinted at something to do, without ever waiting for the broker?

A hint goes into a small queue in memory; one daemon thread per process publishes it. A
broker that is dead, slow or a black hole therefore costs the caller nothing, and a lost hint
costs at most one period of the sweep. Equal hints that are still queued are sent once.
"""

from __future__ import annotations

import logging
import os
import threading
import time

from celery import current_app

log = logging.getLogger(__name__)

Hint = tuple[str, tuple[str, ...]]

LIMIT = 10_000
PAUSE_S = 5.0
EXPIRES_S = 60


class Publisher:
    """One process's queue of hints and the thread that sends them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._queue: dict[Hint, None] = {}
        self._thread: threading.Thread | None = None
        self._down = False

    def send(self, task: str, *args: str) -> None:
        """Queue a hint; beyond ``LIMIT`` it is dropped, since the sweep finds the work anyway."""
        with self._lock:
            if len(self._queue) < LIMIT:
                self._queue[(task, args)] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)
                self._thread.start()
            self._lock.notify()

    def queued(self) -> int:
        """How many hints wait to be sent."""
        return len(self._queue)

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._queue:
                    self._lock.wait()
                hint = next(iter(self._queue))
                del self._queue[hint]
            if not self._publish(hint):
                with self._lock:
                    self._queue.clear()
                time.sleep(PAUSE_S)

    def _publish(self, hint: Hint) -> bool:
        task, args = hint
        try:
            current_app.send_task(task, args=args, expires=EXPIRES_S, ignore_result=True)
        except Exception as error:
            if not self._down:
                log.warning("the broker takes no hints (%s); sweeps go on", type(error).__name__)
            self._down = True
            return False
        if self._down:
            log.info("the broker takes hints again")
        self._down = False
        return True


_publisher = Publisher()


def _after_fork() -> None:
    global _publisher
    _publisher = Publisher()


os.register_at_fork(after_in_child=_after_fork)


def send(task: str, *args: str) -> None:
    """Hint at a Celery task by name. Returns at once, raises nothing."""
    _publisher.send(task, *args)
