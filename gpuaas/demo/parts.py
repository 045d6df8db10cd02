"""Which processes does the demo add to the product's, and how are they followed?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuaas.demo.fleet import folders_made, hosts_folder, spec_write
from gpuaas.embedded.local import Plan
from gpuaas.embedded.parts import Part, Program
from gpuaas.embedded.state import MARK

Say = Callable[[str], None]
LOAD, FLEET, FILL = "demo-load", "fleet", "demo-fill"


class Told(Program):
    """A task whose lines are passed on while it runs, so that nobody waits in silence."""

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        say: Say,
        at_launch: Callable[[], None] = lambda: None,
        **facts: object,
    ) -> None:
        super().__init__(name, command, **facts)  # type: ignore[arg-type]  # Program's own names
        self._say = say
        self._at_launch = at_launch
        self._told = -1

    def launch(self) -> None:
        """Start it, and pass on only what it says from here on."""
        self._at_launch()
        super().launch()
        self._told = self.log_start

    def ready(self) -> bool:
        """Whether it is done; passes on what it said since the last look."""
        done = super().ready()
        self._pass_on()
        return done

    def _pass_on(self) -> None:
        if not self.log.exists():
            return
        with self.log.open("rb") as file:
            file.seek(self._told)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._told += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if line.strip():
                self._say(f"{self.name}: {line}")


def _module(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", name, *map(str, arguments)]


def load_part(plan: Plan, say: Say) -> Part:
    """Brings in people and catalogue, as soon as there are tables."""
    return Told(
        LOAD,
        [sys.executable, "-m", "django", "demo_load", "--no-color"],
        say=say,
        env=plan.env,
        log_folder=plan.folders.log,
        after=("migrate",),
        once=True,
    )


def fleet_part(plan: Plan, step_s: float) -> Part:
    """Twelve simulated hosts in one process, speaking to the web server over HTTP."""
    root = plan.folders.root
    command = _module("nodeagent.simfleet", "--server", plan.url, "--data", hosts_folder(root))
    command += ["--spec", str(spec_write(root)), "--step-s", str(step_s)]
    return Program(
        FLEET,
        command,
        env=_without_secrets(plan.env),
        log_folder=plan.folders.log,
        after=("web",),
        is_ready=lambda: folders_made(root),
    )


def fill_part(plan: Plan, say: Say, at_launch: Callable[[], None]) -> Part:
    """Invites, approves and leases over HTTP, so that no page is empty.

    ``at_launch`` is called when everybody can sign in already, before it begins.
    """
    return Told(
        FILL,
        _module("gpuaas.demo.fill", plan.url, plan.folders.root),
        say=say,
        at_launch=at_launch,
        env=_without_secrets(plan.env),
        log_folder=plan.folders.log,
        after=(LOAD, FLEET, "web", "worker"),
        once=True,
        patience_s=300.0,
    )


def _without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """What a client or a host needs: no database, no broker, no keys."""
    kept = {"PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONUNBUFFERED", "MALLOC_ARENA_MAX", MARK}
    return {name: value for name, value in env.items() if name in kept or name.startswith("LC_")}
