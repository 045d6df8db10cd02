"""How does an operator run the agent of a real host?

    python -m nodeagent.host agent  [--config /etc/gpuaas-agent/agent.toml]
    python -m nodeagent.host helper [--config …]     as root; does what needs root's rights
    python -m nodeagent.host check  [--config …]     probes, and says what it finds
    python -m nodeagent.host clean-step [--config …] one step on this host, told on standard input

Status 0 when it ended as asked, 2 when the configuration is of no use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

from nodeagent.backend import BackendError
from nodeagent.clock import SystemClock
from nodeagent.daemon import Pace
from nodeagent.files import told, try_lock
from nodeagent.host.assemble import (
    choose_runtime,
    clean_here,
    hands_off,
    make_agent,
    make_helper,
    measuring,
)
from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.config import CONFIG_PATH, ConfigError, HostConfig, load_config
from nodeagent.host.helper.client import Helper
from nodeagent.host.helper.keys import read_control_keys
from nodeagent.host.nvml import Nvml
from nodeagent.host.trust import way_out
from nodeagent.host.wiring import wiring
from nodeagent.identity import HomeUnusable, unusable
from nodeagent.protocol import WireError, load_json

log = logging.getLogger("nodeagent.host")
_MOST_REQUEST = 64 * 1024


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    os.umask(0o077)
    try:
        config = load_config(options.config)
        if options.command == "check":
            return _check(config)
        if options.command == "clean-step":
            return _clean_step(config)
        if options.command == "helper":
            return _helper(config)
        return _agent(config, Pace(heartbeat_every_s=options.heartbeat_s))
    except (ConfigError, HomeUnusable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _agent(config: HostConfig, pace: Pace) -> int:
    try:
        config.agent_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = try_lock(config.agent_folder / ".lock")
    except OSError as error:
        raise unusable(config.agent_folder, error) from error
    if lock is None:
        print(f"error: another agent runs on {config.agent_folder}", file=sys.stderr)
        return 2
    try:
        asyncio.run(_run(config, pace))
    finally:
        os.close(lock)
    return 0


async def _run(config: HostConfig, pace: Pace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    nvml, clock = Nvml(), SystemClock()
    helper = Helper(config.socket_path)
    async with way_out(config) as transport, hands_off(nvml, helper.settled):
        with measuring(config, nvml, clock) as telemetry:
            agent = make_agent(config, transport, clock, pace=pace, nvml=nvml, telemetry=telemetry)
            log.info("the agent of %s speaks to %s", config.name, config.server)
            await agent.run(stop)


def _helper(config: HostConfig) -> int:
    try:
        config.helper_folder.mkdir(parents=True, exist_ok=True)
        # Passed by the machines' user on the way to their disks, listed by nobody.
        config.helper_folder.chmod(0o711)
        lock = try_lock(config.helper_folder / ".lock")
        if lock is None:
            print(f"error: another helper runs on {config.helper_folder}", file=sys.stderr)
            return 2
        server = make_helper(config)
    except OSError as error:
        print(
            f"error: {told(error)}; the helper runs as root and must be able to write "
            f"{config.helper_folder} and {config.run_folder}",
            file=sys.stderr,
        )
        return 2

    def stop(*_: object) -> None:
        server.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    log.info("the helper of %s listens on %s", config.name, config.socket_path)
    try:
        server.serve()
    finally:
        os.close(lock)
    return 0


def _check(config: HostConfig) -> int:
    accelerated, runtime = choose_runtime(config)
    try:
        report = wiring(config, Nvml(), config.agent_folder, keeps=False).read()
    except (OSError, ValueError) as error:
        print(f"error: the devices cannot be read: {error}", file=sys.stderr)
        return 1
    try:
        told = read_control_keys(config.control_keys)
        keys = f"{len(told.keys)} for node {told.node_id}"
    except BackendError as error:
        keys = f"no task is taken: {error.detail}"
    said = {
        "name": config.name,
        "machines_run": runtime.works,
        "accelerated": accelerated,
        "runtime": runtime.detail,
        "control_keys": keys,
        "gpus": len(report.gpus),
        "slots": len(report.slots),
        "findings": [f"{one.code}: {one.detail}" for one in report.findings],
        "images": sorted(config.images),
        "hooks": sorted(config.hooks),
    }
    print(json.dumps(said, indent=1))
    return 0


def _clean_step(config: HostConfig) -> int:
    """For a cleaning system: `{"action": step, "slot": …}` in, how it was done out."""
    try:
        done = clean_here(config, load_json(sys.stdin.buffer.read(_MOST_REQUEST)))
    except (StepFailed, WireError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"method": done.method, "detail": done.detail}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nodeagent.host",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("agent", "helper", "check", "clean-step"))
    parser.add_argument("--config", type=Path, default=CONFIG_PATH, help="the operator's file")
    parser.add_argument("--heartbeat-s", type=float, default=Pace.heartbeat_every_s)
    parser.add_argument("--log-level", default="INFO")
    return parser


if __name__ == "__main__":
    sys.exit(main())
