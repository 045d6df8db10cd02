"""Who ticks where no worker does?  A process of its own; any number may run."""

from __future__ import annotations

import signal
import threading
from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand

from gpuaas.kernel.ticks import Ticker, registered


class Command(BaseCommand):
    """Take turns at the registered ticks until SIGTERM or Ctrl-C."""

    help = "Run the periodic work. Workers do this too; one more process does no harm."

    def handle(self, *args: Any, **options: Any) -> None:
        current_app.loader.import_default_modules()
        done = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: done.set())
        ticker = Ticker()
        ticker.start()
        self.stdout.write(f"taking turns at {', '.join(registered())}")
        done.wait()
        ticker.stop()
