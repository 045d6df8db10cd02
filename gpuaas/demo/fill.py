"""What happens in the demo before anybody looks?  Hosts join, tenants lease, one cleanup fails.

All of it over HTTP. Each part looks first whether it is there; the whole is done once a data
folder, so that what people do later is not undone at the next start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuaas.cli.client import OperationFailed
from gpuaas.cli.problems import CliError, Json
from gpuaas.demo import fleet, world
from gpuaas.demo.doing import NotSeen, Session
from gpuaas.demo.faults import fault_clear, fault_set
from gpuaas.demo.logins import logins_kept
from gpuaas.embedded.files import write_private

DONE_FILE = "demo_filled"
REASON = "demo set-up"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Wish:
    """One lease that a tenant of the demo asks for."""

    tenant: str
    project: str
    name: str
    sku: str
    slots: int | None = None
    wait: bool = False

    def body(self) -> Json:
        """As the API takes it."""
        body: Json = {"sku": self.sku, "name": self.name, "wait": self.wait}
        return body if self.slots is None else body | {"slots": self.slots}


LEAKY = Wish("helix-genomics", "default", "leaky-index", "a100-pcie-slice", 2)
ENDED = Wish("acme-robotics", "default", "smoke-test", "h100-slice", 1)
KEPT = (
    Wish("acme-robotics", "research", "pretraining", "h100-slice", 4),
    Wish("acme-robotics", "default", "notebooks", "h100-slice", 2),
    Wish("acme-robotics", "research", "benchmark-node", "h100-node"),
    Wish("acme-robotics", "default", "fabric-test", "a100-efa-slice", 2),
    Wish("helix-genomics", "folding", "structure-search", "a100-slice", 4),
    Wish("helix-genomics", "default", "serving", "a100-pcie-slice", 1),
    Wish("helix-genomics", "folding", "fabric-node", "a100-efa-node"),
    Wish("lumen-studio", "default", "render-farm", "v100-slice", 8),
    Wish("lumen-studio", "default", "thumbnails", "a100-1g"),
    Wish("lumen-studio", "default", "previews", "a100-1g"),
    Wish("lumen-studio", "default", "upscaling", "a100-3g"),
    Wish("lumen-studio", "default", "labelling", "a100-quarter"),
    Wish("lumen-studio", "default", "tests", "a100-quarter"),
)
QUEUED = Wish("lumen-studio", "default", "big-render", "a100-efa-node", wait=True)
TOO_MUCH = Wish("lumen-studio", "default", "too-much", "h100-slice", 8)
DRAINED = "a100-03"


def main(arguments: list[str]) -> int:
    """``python -m gpuaas.demo.fill URL DATA_FOLDER``; 0 when the demo is as it should be."""
    url, root = arguments[0], Path(arguments[1])
    done = root / DONE_FILE
    if done.exists():
        print("the demo has been filled before; nothing to do")
        return 0
    passwords = logins_kept(root / "secrets", [person.email for person in world.accounts()])
    try:
        with signed_in(url, passwords, world.OPERATORS[0].email) as operator:
            _hosts(operator, root)
            _leases(url, passwords, operator, root)
            _drain(operator)
    except (NotSeen, OperationFailed, CliError) as error:
        print(f"the demo could not be filled: {error}", file=sys.stderr)
        return 1
    write_private(done, "")
    print("every page has something to show")
    return 0


@contextmanager
def signed_in(url: str, passwords: dict[str, str], email: str) -> Iterator[Session]:
    """A session that leaves no token behind."""
    session = Session(url, email, passwords[email])
    try:
        yield session
    finally:
        session.end()


def _hosts(operator: Session, root: Path) -> None:
    invited = 0
    for host in world.HOSTS:
        if fleet.host_name(operator, host)["state"] == fleet.INVITABLE:
            fleet.host_invite(operator, host, root)
            invited += 1
    print(f"{len(world.HOSTS)} hosts are named, {invited} got a join token", flush=True)
    fleet.discovered(operator, world.HOSTS)
    print("every host has joined and was discovered", flush=True)
    nodes = [fleet.host_approve(operator, host, REASON) for host in world.HOSTS]
    fleet.heard(operator, world.HOSTS)
    print(f"{sum(node['slots_total'] for node in nodes)} slots are approved", flush=True)
    cut = sum(fleet.host_cut(operator, host, REASON) for host in world.HOSTS)
    print(f"{cut} of them are sold in parts", flush=True)


def _leases(url: str, passwords: dict[str, str], operator: Session, root: Path) -> None:
    sessions = {
        tenant.slug: Session(url, tenant.owner.email, passwords[tenant.owner.email])
        for tenant in world.TENANTS
    }
    try:
        _leaky(sessions[LEAKY.tenant], operator, root)
        started = [(wish, _ask(sessions[wish.tenant], wish)) for wish in (ENDED, *KEPT)]
        for wish, operation in started:
            if operation:
                sessions[wish.tenant].client.operations.wait(operation, timeout_s=PATIENCE_S)
        print(f"{len(KEPT)} leases are active", flush=True)
        for allocation in _named(sessions[ENDED.tenant], ENDED):
            if allocation["state"] == "active":
                _release(sessions[ENDED.tenant], allocation)
        _ask(sessions[QUEUED.tenant], QUEUED)
        if not _asked(sessions[TOO_MUCH.tenant], TOO_MUCH):
            sessions[TOO_MUCH.tenant].refused(_path(TOO_MUCH), TOO_MUCH.body())
        print("one request waits in the queue, one was refused", flush=True)
    finally:
        for session in sessions.values():
            session.end()


def _leaky(tenant: Session, operator: Session, root: Path) -> None:
    """A cleanup that leaves data behind, for an operator to repair."""
    operation = _ask(tenant, LEAKY)
    if operation:
        tenant.client.operations.wait(operation, timeout_s=PATIENCE_S)
    for allocation in _named(tenant, LEAKY):
        if allocation["state"] != "active":
            continue
        node = operator.get(f"/allocations/{allocation['id']}")["node"]["name"]
        fault_set(root, node, "lie_cleanup=missing_step")
        try:
            _release(tenant, allocation)
        except OperationFailed:
            print(f"a cleanup on {node} is blocked: its proof is incomplete", flush=True)
        finally:
            fault_clear(root, node)


def _drain(operator: Session) -> None:
    if not operator.get(f"/nodes/{DRAINED}")["drains"]:
        operator.post(
            f"/nodes/{DRAINED}/actions/drain", {"reason": "firmware update, after the weekend"}
        )
    print(f"{DRAINED} is draining", flush=True)


def _path(wish: Wish) -> str:
    return f"/projects/{wish.project}/allocations"


def _named(session: Session, wish: Wish) -> list[Json]:
    return [row for row in session.items("/allocations") if row["name"] == wish.name]


def _asked(session: Session, wish: Wish) -> list[Json]:
    return [row for row in session.items("/admission-requests") if row["name"] == wish.name]


def _ask(session: Session, wish: Wish) -> str:
    """Ask, unless it was asked before; the operation's id, or ''."""
    before = _asked(session, wish)
    if before:
        return str(before[0]["operation"] or "") if before[0]["state"] != "queued" else ""
    made: dict[str, Any] = session.post(_path(wish), wish.body())
    return str(made["id"])


def _release(session: Session, allocation: Json) -> None:
    made = session.client.allocations.release(allocation["id"], reason="no longer needed")
    session.client.operations.wait(str(made["id"]), timeout_s=PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
