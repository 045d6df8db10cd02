"""Where does the story play?  People signed in over HTTP, hosts on disk, and the runner."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuaas.cli.client import OperationFailed, ProblemError
from gpuaas.cli.problems import Json
from gpuaas.config import CHECKOUT
from gpuaas.demo.doing import Session, until
from gpuaas.demo.story.teller import Broken, Teller
from gpuaas.embedded.local import Plan
from gpuaas.embedded.runner import Runner, State

PATIENCE_S = 60.0
PROJECT = "default"


@dataclass
class Scene:
    """Everything the chapters share."""

    plan: Plan
    runner: Runner
    tell: Teller
    operator: Session
    acme: Session
    helix: Session
    lumen: Session
    leases: dict[str, str] = field(default_factory=dict)
    """Allocation id by the name given to it."""

    @property
    def root(self) -> Path:
        """The story's data folder."""
        return self.plan.folders.root

    # Asking

    def lease(self, who: Session, name: str, sku: str, slots: int | None = None) -> Json:
        """Ask for a lease, wait until it is active, and return it."""
        body: Json = {"sku": sku, "name": name}
        if slots is not None:
            body["slots"] = slots
        made = who.post(f"/projects/{PROJECT}/allocations", body)
        return self.awaited(who, name, str(made["id"]))

    def awaited(self, who: Session, name: str, operation_id: str) -> Json:
        """The allocation that an operation made, once that is done."""
        operation = who.client.operations.wait(operation_id, timeout_s=PATIENCE_S)
        self.leases[name] = str(operation["target"]["id"])
        return who.get(f"/allocations/{self.leases[name]}")

    def refusal(self, who: Session, sku: str, slots: int, *, name: str = "refused") -> ProblemError:
        """The problem with which a request is refused. Raises Broken when it is not."""
        problem = who.refused(
            f"/projects/{PROJECT}/allocations", {"sku": sku, "slots": slots, "name": name}
        )
        if problem is None:
            raise Broken(f"expected: {slots} of {sku} to be refused; seen: it was admitted")
        return problem

    def failed(self, who: Session, operation_id: str) -> Json:
        """An operation that must fail, once it has. Raises Broken when it succeeds."""
        try:
            operation = who.client.operations.wait(operation_id, timeout_s=PATIENCE_S)
        except OperationFailed as failure:
            return failure.operation
        raise Broken(f"expected: the operation to fail; seen: {operation['state']}")

    # Looking

    def node(self, name: str) -> Json:
        """A host as operators see it."""
        return self.operator.get(f"/nodes/{name}")

    def slots(self, node: str) -> list[Json]:
        """A host's slots with what holds them."""
        listing: list[Json] = self.operator.get(f"/nodes/{node}/slots")["items"]
        return listing

    def slots_of(self, node: str, name: str) -> list[Json]:
        """The slots that a lease has live claims on."""
        wanted = self.leases[name]
        return [
            slot
            for slot in self.slots(node)
            if slot["claim"] and slot["claim"]["allocation"] == wanted
        ]

    def place(self, name: str) -> str:
        """The host of a lease; only operators are told."""
        shown = self.operator.get(f"/allocations/{self.leases[name]}")
        return str(shown["node"]["name"])

    def used(self, who: Session, resource_class: str) -> int:
        """What the tenant is charged of a class now, in thousandths."""
        for row in who.items("/envelopes"):
            named = row["resource_class"]
            if resource_class in (named, named.get("name") if isinstance(named, dict) else ""):
                return int(row["used_milli"])
        return 0

    def events(self, who: Session, name: str) -> list[Json]:
        """The timeline of a lease, oldest first."""
        path = f"/allocations/{self.leases[name]}/timeline?limit=1000"
        items: list[Json] = who.get(path)["items"]
        return items[::-1]

    def settled(self, node: str, *, timeout_s: float = PATIENCE_S) -> Json:
        """The host once it may take work again. Raises NotSeen."""
        return until(
            f"{node} to take work again",
            lambda: self.node(node),
            lambda seen: bool(seen["schedulable"]),
            timeout_s=timeout_s,
            show=lambda seen: f"{seen['posture']}, {[c['code'] for c in seen['conditions']]}",
        )

    # The runner, from beside it

    def stop_part(self, name: str) -> None:
        """Stop a part of the product and keep it stopped. Raises NotSeen."""
        self.runner.hold(name)
        self._part_is(name, State.HELD)

    def start_part(self, name: str) -> None:
        """Start it again. Raises NotSeen."""
        self.runner.let_go(name)
        self._part_is(name, State.READY)

    def _part_is(self, name: str, state: State) -> None:
        until(
            f"the {name} to be {state}",
            lambda: self.runner.slots[name].state,
            lambda seen: seen is state,
            timeout_s=PATIENCE_S,
        )

    # Typing

    def gpuaas(self, who: Session, line: str, *, code: int = 0) -> str:
        """Type a ``gpuaas`` command as this person; its output (with
        the messages, where it must fail). Raises Broken on another code."""
        self.tell.asked(f"$ gpuaas {line}")
        done = subprocess.run(
            [sys.executable, "-m", "gpuaas.cli.main", *shlex.split(line)],
            cwd=CHECKOUT,
            env={
                "PATH": self.plan.env.get("PATH", ""),
                "PYTHONPATH": str(CHECKOUT),
                "HOME": str(self.root),
                "NO_COLOR": "1",
                "COLUMNS": "100",
                "GPUAAS_SERVER": self.plan.url,
                "GPUAAS_TOKEN": who.token,
                "GPUAAS_PROJECT": PROJECT,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        if done.returncode != code:
            words = (done.stderr or done.stdout).strip()[-800:]
            raise Broken(f"expected: exit code {code}; seen: {done.returncode}: {words}")
        return done.stdout if code == 0 else done.stdout + done.stderr

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a management command beside the product."""
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=CHECKOUT,
            env=dict(self.plan.env),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )


def gates_line(gates: Sequence[Json]) -> str:
    """The gates of a decision in one line."""
    return "  ".join(f"{gate['gate']} {'✓' if gate['passed'] else '✗'}" for gate in gates)


def money(micro: int) -> str:
    """Micro-currency in words."""
    return f"{micro / 1_000_000:,.2f}"
