"""Run a fleet of simulated hosts against a control plane until told to stop.

    python -m nodeagent.simfleet --server http://127.0.0.1:8000 --data DIR [--spec hosts.json]

Hosts that have no credential wait for a token in DIR/<name>/join-token.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

import httpx

from nodeagent.clock import SystemClock
from nodeagent.files import try_lock
from nodeagent.simfleet.spec import prepare
from nodeagent.simhost.agent import make_agent
from nodeagent.simhost.hardware import HardwareError
from nodeagent.simhost.network import Gate

log = logging.getLogger("nodeagent.simfleet")
_MOST_REQUESTS = 32


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. 0 when stopped, 2 when the spec or the folder is of no use."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        folders = prepare(options.data, options.spec)
    except HardwareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    lock = try_lock(options.data / ".fleet.lock")
    if lock is None:
        print(f"error: another fleet runs on {options.data}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_run(options.server, folders, options.step_s))
    finally:
        os.close(lock)
    return 0


async def _run(server: str, folders: list[Path], step_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    limits = httpx.Limits(max_connections=_MOST_REQUESTS, max_keepalive_connections=16)
    async with Gate(httpx.AsyncHTTPTransport(limits=limits), _MOST_REQUESTS) as pool:
        clock = SystemClock()
        agents = [make_agent(folder, server, pool, clock, step_s=step_s) for folder in folders]
        log.info("%s simulated hosts speak to %s", len(agents), server)
        hosts = [asyncio.create_task(agent.run(stop)) for agent in agents]
        await stop.wait()
        for host in hosts:
            host.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.gather(*hosts, return_exceptions=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m nodeagent.simfleet", description=__doc__)
    parser.add_argument("--server", required=True, help="the control plane's address")
    parser.add_argument("--data", required=True, type=Path, help="folder of the hosts' disks")
    parser.add_argument("--spec", type=Path, help="JSON list of hosts to make, if they are new")
    parser.add_argument("--step-s", type=float, default=0.05, help="seconds per step of work")
    parser.add_argument("--log-level", default="INFO")
    return parser


if __name__ == "__main__":
    sys.exit(main())
