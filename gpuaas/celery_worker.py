"""How does the worker run?  It loads every task, and then takes what there is to do.

    python -m gpuaas.celery_worker --threads 4 --pid-file run/worker.pid

Threads, one process: production uses processes, for their hard time limits. What was loaded is
frozen for the garbage collector, for the reason given in ``gpuaas.wsgi_server``.
"""

import argparse
import gc
from pathlib import Path

import django

from gpuaas import ahead
from gpuaas.celery import app


def load() -> None:
    """Every model, handler and task."""
    django.setup()
    app.loader.import_default_modules()
    gc.collect()
    gc.freeze()


def main(arguments: list[str] | None = None) -> None:
    """Loads, waits for the word when it loads ahead, and works until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m gpuaas.celery_worker", description=__doc__)
    parser.add_argument("--threads", type=int, required=True)
    # Celery writes it when it has read the tasks and is about to take them.
    parser.add_argument("--pid-file", type=Path, required=True)
    parser.add_argument("--log-level", default="INFO")
    parser.add_argument(ahead.FLAG, action="store_true", help="wait for the runner's word")
    given = parser.parse_args(arguments)
    load()
    if given.ahead:
        ahead.wait_for_word()
    command = ["worker", "--pool", "threads", "--concurrency", str(given.threads)]
    command += ["--without-gossip", "--without-mingle", "--loglevel", given.log_level.upper()]
    app.worker_main([*command, "--pidfile", str(given.pid_file)])


if __name__ == "__main__":
    main()
