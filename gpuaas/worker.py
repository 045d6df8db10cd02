"""How do a worker and its timer share one process?

For the embedded default: Celery's own ``-B`` forks the timer, which then costs as much memory
as the worker. Here it is a thread; when it dies, so does the process, and the runner starts
it again. Run ``python -m gpuaas.worker`` with the options of ``celery worker``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

from celery.beat import Scheduler, Service
from celery.signals import worker_ready, worker_shutting_down

from gpuaas.celery import app

# Short, since a stop waits for the timer to look up from its sleep.
LONGEST_SLEEP_S = 1
logger = logging.getLogger(__name__)


class Timer(threading.Thread):
    """Celery's beat, remembering in memory only: the sweeps it starts know what is due."""

    def __init__(self) -> None:
        super().__init__(name="timer", daemon=True)
        self.service = Service(app, max_interval=LONGEST_SLEEP_S, scheduler_cls=Scheduler)
        self.stopping = threading.Event()

    def run(self) -> None:
        """Ticks until told to stop; anything else that ends it ends the process."""
        try:
            self.service.start()
        except Exception:
            logger.exception("the timer failed")
        if not self.stopping.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        """Lets the current tick end; does not wait for it."""
        self.stopping.set()
        self.service.stop()


def main(options: list[str]) -> None:
    """Runs the worker in this thread until a signal."""
    timer = Timer()

    def begin(**facts: Any) -> None:
        timer.start()

    def end(**facts: Any) -> None:
        timer.stop()

    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(end, weak=False)
    app.worker_main(["worker", *options])


if __name__ == "__main__":
    main(sys.argv[1:])
