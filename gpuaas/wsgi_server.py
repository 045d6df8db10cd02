"""How is the web served?  The application is loaded once, and every worker shares it.

    python -m gpuaas.wsgi_server --host 127.0.0.1 --port 8000 --workers 2 --threads 132

The application is loaded before the workers are forked, and what was loaded is frozen: the
garbage collector touches none of it, so its pages stay shared. A frozen heap is also not
counted when the collector decides whether a full collection is due; otherwise it would wait
until the garbage is a quarter of all that was loaded (``gc_collect_main`` in CPython).
"""

import argparse
import gc
import multiprocessing
import sys

from django.urls import get_resolver
from granian import Granian
from granian.constants import Interfaces
from granian.log import LogLevels

from gpuaas import ahead
from gpuaas.wsgi import application

TARGET = "gpuaas.wsgi:application"
RESPAWN_S, KILL_S = 0.5, 2


def load() -> None:
    """Everything that a first request would load, and nothing that asks the database."""
    if not callable(application):
        raise TypeError(f"{TARGET} is not a WSGI application")
    resolver = get_resolver()
    resolver.check()
    gc.collect()
    gc.freeze()


def main(arguments: list[str] | None = None) -> None:
    """Loads, waits for the word when it loads ahead, and serves until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m gpuaas.wsgi_server", description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True, help="processes")
    parser.add_argument("--threads", type=int, required=True, help="most threads of each")
    parser.add_argument("--log-level", type=LogLevels, default=LogLevels.info)
    parser.add_argument(ahead.FLAG, action="store_true", help="wait for the runner's word")
    given = parser.parse_args(arguments)
    load()
    if given.ahead:
        ahead.wait_for_word()
    if sys.platform == "linux":
        multiprocessing.set_start_method("fork")
    Granian(
        TARGET,
        address=given.host,
        port=given.port,
        interface=Interfaces.WSGI,
        websockets=False,
        workers=given.workers,
        blocking_threads=given.threads,
        log_level=given.log_level,
        respawn_failed_workers=True,
        respawn_interval=RESPAWN_S,
        workers_kill_timeout=KILL_S,
    ).serve()


if __name__ == "__main__":
    main()
