"""What does a crowd do?  Clients that claim and give back, hosts that work, and what is kept.

Used by the tests as threads, and by ``benchmarks.stress`` as processes:

    python -m tests.stress.crowd build FILE | clients FILE … | hosts FILE …
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from uuid import UUID

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from django.db import InterfaceError, OperationalError, connections

from gpuaas.kernel import outbox, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.audits import Finding, registered
from gpuaas.kernel.errors import ProductError
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Claim, Node, NodeTask
from placement.services.allocations import (
    allocation_release,
    allocation_request,
)
from placement.services.projections import projections_refresh
from tenants.models import Role
from tests.builders import Host, TenantWorld, a_catalogue, a_host, a_tenant

SIZES = (1, 2, 4, 8, 0)
"""Slots; 0 is a whole node."""
LOST = (OperationalError, InterfaceError)
"""The database went away, or refused for a passing reason: nothing is known of the outcome."""
FINE = frozenset({"sku_unavailable", "envelope_exceeded", "concurrent_update"})
"""Refusals that a crowd meets."""


@dataclass
class Buyer:
    """Who a client acts for."""

    tenant: UUID
    project: UUID
    owner: str
    email: str

    @classmethod
    def of(cls, world: TenantWorld) -> Buyer:
        """The tenant's owner."""
        return cls(world.tenant.pk, world.project.pk, str(world.owner.pk), world.owner.email)

    def actor(self) -> Actor:
        """The owner, acting."""
        return Actor(
            kind="user", id=self.owner, name=self.email, tenant_id=self.tenant, role=Role.OWNER
        )


@dataclass
class Journal:
    """What clients were told, kept as they hear it."""

    file: TextIO | None = None
    placed: dict[str, int] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    refused: int = 0
    lost: int = 0
    strange: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, what: str, allocation: str = "", slots: int = 0) -> None:
        """Remember one answer."""
        with self.lock:
            if what == "placed":
                self.placed[allocation] = slots
            elif what == "released":
                self.released.add(allocation)
            elif what == "refused":
                self.refused += 1
            elif what == "lost":
                self.lost += 1
            else:
                self.strange.append(what)
            if self.file is not None:
                line = {"what": what, "allocation": allocation, "slots": slots}
                self.file.write(json.dumps(line) + "\n")
                self.file.flush()


def build(*, hosts: int, tenants: int, slots: int = 8) -> tuple[list[Buyer], list[Host]]:
    """A catalogue, approved hosts, and tenants with wide envelopes."""
    a_catalogue(slots_count=slots)
    made = [a_host(f"crowd-{k}", slots_count=slots) for k in range(hosts)]
    worlds = [a_tenant(f"crowd-{k}", envelope_slots=10_000) for k in range(tenants)]
    return [Buyer.of(world) for world in worlds], made


def client(buyers: Sequence[Buyer], journal: Journal, stop: Callable[[], bool], seed: int) -> None:
    """Claim until nothing fits, give back, and again."""
    chance = random.Random(seed)
    mine: list[tuple[str, Buyer]] = []
    while not stop():
        try:
            if mine and chance.random() < 0.45:
                allocation, buyer = mine.pop(chance.randrange(len(mine)))
                allocation_release(
                    allocation_id=UUID(allocation), reason="crowd", actor=buyer.actor()
                )
                journal.say("released", allocation)
                continue
            buyer = chance.choice(buyers)
            size = chance.choice(SIZES)
            order = (
                AllocationOrder(sku="h100.slice", slots=size)
                if size
                else AllocationOrder(sku="h100.node")
            )
            ticket = allocation_request(
                tenant_id=buyer.tenant, project_id=buyer.project, order=order, actor=buyer.actor()
            )
            if ticket.allocation_id is not None:
                mine.append((str(ticket.allocation_id), buyer))
                journal.say("placed", str(ticket.allocation_id), size)
        except ProductError as error:
            journal.say("refused" if error.code in FINE else error.code)
            time.sleep(chance.uniform(0.03, 0.2))  # room for the hosts to work
        except LOST:
            journal.say("lost")
            connections.close_all()
            time.sleep(0.05)
        except Exception as error:
            journal.say(f"{type(error).__name__}: {error}")


def host_work(host: Host) -> int:
    """Lease what is due and complete it; how many tasks."""
    done = 0
    for task in host.lease():
        try:
            host.complete(task)
        except ProductError:  # cancelled meanwhile: the late result is only observed
            continue
        done += 1
        if task.run_id is not None:
            workflow.drive(task.run_id)
    return done


def hosts_work(hosts: Sequence[Host], stop: Callable[[], bool]) -> None:
    """Every host in turn, and the runs and deliveries that are due."""
    while not stop():
        try:
            busy = sum(host_work(host) for host in hosts)
            workflow.sweep()
            outbox.sweep()
            if not busy:
                time.sleep(0.01)
        except LOST:
            connections.close_all()
            time.sleep(0.05)


def settle(hosts: Sequence[Host], *, seconds: float = 60.0) -> None:
    """Work until no task is open, and bring the projections up to date."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        hosts_work(hosts, _once())
        if not NodeTask.objects.filter(state__in=["pending", "leased"]).exists():
            break
    projections_refresh()


def _once() -> Callable[[], bool]:
    answers = iter((False,))
    return lambda: next(answers, True)


def findings() -> list[Finding]:
    """What every audit finds now."""
    return [finding for audit in registered().values() for finding in audit()]


def missing(placed: dict[str, int], released: set[str], slots: int = 8) -> list[str]:
    """What was promised and is not there, or is there otherwise."""
    wrong = []
    rows = {str(row.pk): row for row in Allocation.objects.filter(pk__in=list(placed))}
    for allocation, size in placed.items():
        row = rows.get(allocation)
        if row is None:
            wrong.append(f"{allocation} was acknowledged and is lost")
            continue
        claims = list(Claim.objects.filter(allocation=row))
        if len(claims) != max(size, 1):
            wrong.append(f"{allocation} has {len(claims)} claims for {size}")
        live = sum(claim.state != "released" for claim in claims)
        if live not in (0, len(claims)):
            wrong.append(f"{allocation} is released in part")
        if allocation in released and row.state in ("placed", "provisioning", "active"):
            wrong.append(f"{allocation} was given back and is {row.state}")
    return wrong


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run something in threads that begin together, each with a connection of its own.

    The caller gives its own back meanwhile: the pool has one for each thread and no more.
    """
    connections.close_all()
    barrier = threading.Barrier(count)

    def one(k: int) -> None:
        barrier.wait()
        try:
            work(k)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _known_hosts() -> list[Host]:
    return [Host(node) for node in Node.objects.filter(name__startswith="crowd-").order_by("num")]


def _kept_buyers(path: Path) -> list[Buyer]:
    return [
        Buyer(UUID(kept["tenant"]), UUID(kept["project"]), kept["owner"], kept["email"])
        for kept in json.loads(path.read_text(encoding="utf-8"))
    ]


def main() -> int:
    """One process of a crowd."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "clients", "hosts", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--journals", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    if options.what == "build":
        buyers, _ = build(hosts=options.hosts, tenants=8)
        kept = [{**vars(b), "tenant": str(b.tenant), "project": str(b.project)} for b in buyers]
        options.file.write_text(json.dumps(kept), encoding="utf-8")
    elif options.what == "clients":
        buyers = _kept_buyers(options.file)
        with options.journals[0].open("a", encoding="utf-8") as file:
            journal = Journal(file)
            in_threads(
                options.threads,
                lambda k: client(
                    buyers, journal, lambda: time.monotonic() > end, options.seed * 1000 + k
                ),
            )
    elif options.what == "hosts":
        hosts_work(_known_hosts(), lambda: time.monotonic() > end)
    else:
        return _check(options.journals)
    return 0


def _check(journals: Sequence[Path]) -> int:
    """Compare what was told with what is, and ask the audits; 3 when anything is found."""
    settle(_known_hosts())
    told = Journal()
    for path in journals:
        for line in path.read_text(encoding="utf-8").splitlines():
            told.say(**json.loads(line))
    found = [str(finding) for finding in findings()]
    wrong = missing(told.placed, told.released)
    strange: dict[str, int] = {}
    for what in told.strange:
        strange[what[:200]] = strange.get(what[:200], 0) + 1
    print(
        json.dumps(
            {
                "placed": len(told.placed),
                "released": len(told.released),
                "refused": told.refused,
                "outcome_unknown": told.lost,
                "strange": strange,
                "wrong": wrong[:20],
                "findings": found[:20],
            }
        ),
        flush=True,
    )
    return 3 if wrong or found or strange else 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings")
    sys.exit(main())
