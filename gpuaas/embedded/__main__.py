"""``python -m gpuaas.embedded up | down | status | remove``: the product on one machine.

Exit codes: 0 as asked (``up``: also when it already runs and is healthy), 1 it could not,
3 ``up`` found a runner that is not healthy, ``status`` found none or one not healthy.
"""

import argparse
import os
import signal
import sys
import time

from gpuaas.config import ConfigError, data_dir_from
from gpuaas.embedded import local, processes, state
from gpuaas.embedded.postgres import PostgresError
from gpuaas.embedded.runner import RunnerError
from gpuaas.embedded.valkey import ValkeyError

DONE, FAILED, NOT_HEALTHY = 0, 1, 3


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpuaas.embedded", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status", "remove"))
    command = parser.parse_args(arguments).command
    return {"up": up, "down": down, "status": status, "remove": remove}[command]()


def up() -> int:
    """Starts everything and stays until a signal."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {line}", flush=True)

    try:
        local.up(
            say=say,
            on_healthy=lambda plan, runner: say(f"gpuaas is up at {plan.url}  (Ctrl-C stops it)"),
        )
    except local.AlreadyRunning as other:
        condition = "healthy" if other.healthy else "not healthy yet"
        print(f"gpuaas already runs at {other.url} (process {other.pid}), {condition}")
        return DONE if other.healthy else NOT_HEALTHY
    except (ConfigError, PostgresError, ValkeyError, RunnerError, OSError) as error:
        print(f"gpuaas could not be started: {error}", file=sys.stderr)
        return FAILED
    say("everything is stopped")
    return DONE


def down() -> int:
    """Stops the runner of the data folder and waits until all is stopped."""
    lock = state.Lock(state.Folders(data_dir_from(os.environ)))
    if lock.free():
        print("gpuaas does not run")
        return DONE
    other = local.found_running(lock)
    os.kill(other.pid, signal.SIGTERM)
    if not processes.wait_until(lock.free, 60.0):
        print(f"process {other.pid} does not stop", file=sys.stderr)
        return FAILED
    print("gpuaas is stopped")
    return DONE


def status() -> int:
    """Says what runs."""
    lock = state.Lock(state.Folders(data_dir_from(os.environ)))
    if lock.free():
        print("gpuaas does not run")
        return NOT_HEALTHY
    other = local.found_running(lock)
    print(f"{other.url}  process {other.pid}  {'healthy' if other.healthy else 'not healthy'}")
    shown = lock.holder().get("parts")
    for name, facts in shown.items() if isinstance(shown, dict) else ():
        print(
            f"  {name:<10} {facts['state']:<9} pid {facts['pid']:<8} {facts['restarts']} restarts"
        )
    return DONE if other.healthy else NOT_HEALTHY


def remove() -> int:
    """Removes the data folder of a stopped product."""
    root = data_dir_from(os.environ)
    if not state.Lock(state.Folders(root)).free():
        print("gpuaas runs; stop it first: python -m gpuaas.embedded down", file=sys.stderr)
        return FAILED
    removed = local.remove(root)
    print(f"removed {' and '.join(str(path) for path in removed)}" if removed else "nothing there")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
