"""``python -m gpuaas.demo`` and ``python -m gpuaas.demo story``: see it, and see it hold.

Exit codes: 0 as asked (the story: everything held), 1 it could not or did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from gpuaas.config import ConfigError, data_dir_from
from gpuaas.demo import parts, world
from gpuaas.demo.logins import logins_kept
from gpuaas.demo.story.run import story
from gpuaas.embedded import local
from gpuaas.embedded.local import Plan
from gpuaas.embedded.parts import Part
from gpuaas.embedded.postgres import PostgresError
from gpuaas.embedded.runner import Runner, RunnerError
from gpuaas.embedded.state import Folders
from gpuaas.embedded.valkey import ValkeyError

STEP_S = 0.5
"""How long a step of work takes on a simulated host: long enough to be watched."""


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m gpuaas.demo", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    told = commands.add_parser("story", help="run the story without a person, then stop")
    told.add_argument("--keep", action="store_true", help="keep the story's data folder")
    options = parser.parse_args(arguments)
    return story(keep=options.keep) if options.command == "story" else demo()


def demo() -> int:
    """Starts the product with the demo's world and stays until a signal."""
    began = time.monotonic()
    os.environ["GPUAAS_DEMO"] = "1"

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {line}", flush=True)

    def extra(plan: Plan) -> list[Part]:
        return [
            parts.load_part(plan, say),
            parts.fleet_part(plan, STEP_S),
            parts.fill_part(plan, say, lambda: show(plan)),
        ]

    def show(plan: Plan) -> None:
        print(welcome(plan.url, plan.folders.secrets), flush=True)

    def healthy(plan: Plan, runner: Runner) -> None:
        say(f"the demo is complete at {plan.url}/  (Ctrl-C stops it)")

    try:
        local.up(say=say, extra=extra, on_healthy=healthy)
    except local.AlreadyRunning as other:
        condition = "healthy" if other.healthy else "not healthy yet"
        print(f"gpuaas already runs at {other.url} (process {other.pid}), {condition}")
        if other.healthy:
            print(welcome(other.url, Folders(data_dir_from(os.environ)).secrets))
        return 0 if other.healthy else 3
    except (ConfigError, PostgresError, ValkeyError, RunnerError, OSError) as error:
        print(f"the demo could not be started: {error}", file=sys.stderr)
        return 1
    say("everything is stopped")
    return 0


def welcome(url: str, secrets: Path) -> str:
    """Where everything is, and who can sign in."""
    passwords = logins_kept(secrets, [person.email for person in world.accounts()])
    operator, second = world.OPERATORS
    lines = [
        "",
        f"  Portal      {url}/",
        f"  Console     {url}/console/",
        f"  Admin       {url}/admin/",
        f"  API docs    {url}/api/docs/",
        "",
        "  Sign in as                    with",
        f"  {operator.email:<29} {passwords[operator.email]:<20} operator: console, admin",
        f"  {second.email:<29} {passwords[second.email]:<20} operator: the second person",
    ]
    for tenant in world.TENANTS:
        lines += [
            f"  {person.email:<29} {passwords[person.email]:<20} {person.role} of {tenant.name}"
            for person in tenant.people
        ]
    lines += [
        "",
        "  Command line: .venv/bin/gpuaas login --server " + url,
        f"  Passwords are kept in {secrets}; one that was changed since is not shown.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
