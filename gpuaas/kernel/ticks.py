"""What happens by itself, now and then, even when the broker is gone?

Every worker carries one ticker. Each tick is a named function with a period; whichever
worker asks first after a period is over gets the turn, as a row in the database says. So any
number of workers may run, and one turn is taken per period.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, OperationalError, connections
from psycopg_pool import PoolTimeout

from gpuaas.kernel import leases

log = logging.getLogger(__name__)

POLL_S = 0.25
THREADS = 4
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
REPEAT_LOG_S = 60.0
UNREACHABLE = (OperationalError, InterfaceError, PoolTimeout)


@dataclass(frozen=True, slots=True)
class Tick:
    """A function that is called about every ``every_s`` seconds by one of the workers."""

    name: str
    every_s: float
    run: Callable[[], object]


_ticks: dict[str, Tick] = {}


def register(name: str, every_s: float, run: Callable[[], object]) -> None:
    """Make a tick known, at import. Its function must stand being called twice at once: a
    turn that outlasts its period does not stop the next one."""
    _ticks[name] = Tick(name, every_s, run)


def registered() -> dict[str, Tick]:
    """Every tick, by name."""
    return dict(sorted(_ticks.items()))


class Ticker:
    """Asks for turns and runs them on a few threads of this process."""

    def __init__(self, ticks: dict[str, Tick] | None = None) -> None:
        self._ticks = registered() if ticks is None else ticks
        self._ask_at = dict.fromkeys(self._ticks, 0.0)
        self._running: set[str] = set()
        self._said_at: dict[str, float] = {}
        self._failures = 0
        self._holder = leases.fresh_holder()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Begin, in the background."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tick")
        self._thread = threading.Thread(target=self.run, name="ticker", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Take no more turns; those that run may end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self) -> None:
        """Ask and run until ``stop``. Survives any outage of the database."""
        while not self._stop.is_set():
            try:
                self.ask()
                self._recovered()
                pause = POLL_S
            except (DatabaseError, InterfaceError, PoolTimeout) as error:
                pause = self._lost(error)
            except Exception:
                log.exception("the ticker stumbled")
                pause = BACKOFF_S[-1]
            finally:
                connections.close_all()
            self._stop.wait(pause)

    def ask(self) -> set[str]:
        """Take the turns that are over and begin them; returns their names."""
        now = time.monotonic()
        wanted = {
            name: tick.every_s
            for name, tick in self._ticks.items()
            if self._ask_at[name] <= now and name not in self._running
        }
        mine = leases.take_turns(wanted, self._holder)
        now = time.monotonic()
        for name, every_s in wanted.items():
            # Refused: somebody else's period; ask again soon enough to follow if it dies.
            pause = every_s if name in mine else min(every_s, max(POLL_S, every_s / 10))
            self._ask_at[name] = now + pause
        for name in mine:
            self._running.add(name)
            if self._pool is None:
                self._run_one(self._ticks[name])
            else:
                self._pool.submit(self._run_one, self._ticks[name])
        return mine

    def _run_one(self, tick: Tick) -> None:
        try:
            tick.run()
        except UNREACHABLE as error:
            # Busy or gone: the loop itself finds out which, and says so once.
            log.info("tick %s was cut short: %s", tick.name, type(error).__name__)
        except Exception as error:
            self._say(f"{tick.name}: {type(error).__name__}", f"tick {tick.name} failed")
        finally:
            self._running.discard(tick.name)
            if self._pool is not None:
                connections.close_all()

    def _say(self, key: str, text: str) -> None:
        """Log an exception, the same one at most once a minute."""
        now = time.monotonic()
        if now - self._said_at.get(key, -REPEAT_LOG_S) >= REPEAT_LOG_S:
            self._said_at[key] = now
            log.exception(text)

    def _lost(self, error: Exception) -> float:
        if self._failures == 0:
            log.warning("the database does not answer (%s); ticks wait", type(error).__name__)
        pause = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        return pause * random.uniform(0.8, 1.2)

    def _recovered(self) -> None:
        if self._failures:
            log.info("the database answers again")
        self._failures = 0
