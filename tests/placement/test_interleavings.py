"""Is every order of two acts' steps as if one act had come first?  Stepped on real PostgreSQL.

Each act is cut where another could come between: look, write, commit. All interleavings of
every pair of acts are played on fleets that differ in wiring, each act on its own connection. A
step that has to wait for the other's lock is left waiting, and goes on when it can.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import connection, connections, transaction

from gpuaas.kernel import clock, ids
from gpuaas.kernel.audits import registered
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.scope import platform_scope
from placement.domain.fit import Want
from placement.domain.order import AllocationOrder
from placement.domain.terms import Alone, Terms
from placement.models import Claim, Node
from placement.services import engine, nodes, requests
from placement.services.bundle import Item, commit
from placement.snapshots import Ask, look
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

BLOCKED_S = 0.03
FLEETS, ENOUGH_S = 5, 30.0
"""So many fleets, of 320 interleavings each; fewer where a fleet takes long."""
WIRINGS = (
    "0.0.0.0|0.0.0.1|0.1.1.2|0.1.1.3",
    "0.0.0.0|0.0.0.1|0.1.0.2|0.1.0.3",
    "0.0.0.0|0.1.1.0|0.2.2.1|0.3.3.1",
    "0...|0...|0...|0...",
)
Step = Callable[[], Any]


class Line:
    """A thread with a connection of its own that does the steps it is handed."""

    def __init__(self) -> None:
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self._done = threading.Semaphore(0)
        self._owed = 0
        self.broke: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                step()
            except ProductError:
                pass  # a refusal is an answer
            except BaseException as broke:  # told by the test that joins the line
                self.broke = self.broke or broke
            self._done.release()
        connections.close_all()

    def hand(self, step: Step) -> None:
        """Let it do a step; come back when that is done or has to wait for somebody."""
        self._steps.put(step)
        self._owed += 1
        while self._owed and self._done.acquire(timeout=BLOCKED_S):
            self._owed -= 1

    def join(self) -> None:
        """Wait until all steps are done."""
        while self._owed:
            assert self._done.acquire(timeout=20), "a step waits for ever"
            self._owed -= 1
        if self.broke is not None:
            raise self.broke

    def close(self) -> None:
        """End the thread."""
        self._steps.put(None)
        self._thread.join()


def a_claim(world: TenantWorld, base: Item, slots: int, nic: bool, alone: Alone) -> list[Step]:
    """Look; write in a transaction that stays open; commit."""
    want = Want(slots, nic, Terms(alone=alone), world.tenant.pk)
    item = replace(
        base,
        want=want,
        places=None,
        request_id=ids.new_id(),
        run_id=ids.new_id(),
        allocation_id=ids.new_id(),
        decision_id=ids.new_id(),
        task_id=ids.new_id(),
    )
    seen: list[Any] = []
    scopes: list[Any] = []

    def look_for() -> None:
        assert item.where is not None
        with platform_scope():
            seen.extend(engine.options_for(item, item.where, limit=2))

    def write() -> None:
        scopes.extend([transaction.atomic(), platform_scope()])
        for scope in scopes:
            scope.__enter__()
        if seen:
            commit([(item, seen)], skip_locked=True)

    def end() -> None:
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)

    return [look_for, write, end]


def a_drain(node: Node, slot: int) -> list[Step]:
    """Drain a slot; the transaction is open between the two steps. And once more, ended."""
    scopes: list[Any] = []

    def write() -> None:
        scopes.append(transaction.atomic())
        scopes[0].__enter__()
        nodes.node_drain(node_id=node.pk, reason="work", actor=OPERATOR, slot_index=slot)

    def end() -> None:
        scopes[0].__exit__(None, None, None)

    def undo() -> None:
        nodes.node_undrain(node_id=node.pk, reason="done", actor=OPERATOR, slot_index=slot)

    return [write, end, undo]


def interleavings(one: int, other: int) -> Iterator[tuple[int, ...]]:
    """Every order of the steps of two acts: 0 for the one, 1 for the other."""
    for places in combinations(range(one + other), one):
        yield tuple(0 if k in places else 1 for k in range(one + other))


def played(acts: tuple[list[Step], list[Step]], order: tuple[int, ...], lines: list[Line]) -> None:
    """Hand out the steps in this order."""
    steps = [iter(act) for act in acts]
    for which in order:
        lines[which].hand(next(steps[which]))
    for line in lines:
        line.join()


def everything_given_back() -> None:
    """As if all had been cleaned and proven."""
    with connection.cursor() as cursor:
        for table in ("placement_claim", "placement_allocation"):
            cursor.execute(f"UPDATE {table} SET state = 'releasing' WHERE state <> 'released'")
            cursor.execute(f"UPDATE {table} SET state = 'released' WHERE state = 'releasing'")
        cursor.execute("UPDATE placement_claimdevice SET live = false WHERE live")
        cursor.execute("UPDATE tenants_quotacounter SET used_milli = 0")
        cursor.execute("UPDATE tenants_projectquota SET used_milli = 0")
        cursor.execute("SELECT placement_recount(id) FROM placement_node")


def found() -> list[Any]:
    """What the audits of holds, capacity and promises find."""
    names = ("placement.claims", "placement.devices", "placement.capacity", "placement.wiring")
    return [finding for name in names for finding in registered()[name]()]


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(180)
def test_two_acts_in_any_order_of_their_steps_keep_every_promise() -> None:
    a_catalogue(slots_count=4)
    worlds = [a_tenant("acme"), a_tenant("globex")]
    hosts = [a_host("host-1", slots_count=4), a_host("host-2", slots_count=4)]
    order = AllocationOrder(sku="h100.slice", slots=1)
    bases = []
    for world in worlds:
        ask = Ask(world.tenant.pk, world.project.pk, order)
        with platform_scope():
            bases.append(requests.item_of(ask, look(ask), actor=world.actor))
    lines = [Line(), Line()]
    rng = random.Random(7)
    count = both = 0
    began = clock.monotonic()
    try:
        for fleet in range(FLEETS):
            if fleet and clock.monotonic() - began > ENOUGH_S:
                break
            for alone, other in product([*Alone, None], [*Alone, None]):
                for sequence in interleavings(3, 3):
                    fabric = rng.choice(["", "nvl72"])
                    # Who wants a NIC of its own chooses other slots of the same node.
                    Node.objects.update(
                        layout=rng.choice(WIRINGS), fabric=fabric, exclusive_mask=0b1010
                    )
                    acts = tuple(
                        a_drain(hosts[0].node, 0)
                        if kind is None
                        else a_claim(
                            worlds[k], bases[k], rng.randint(1, 2), rng.random() < 0.5, kind
                        )
                        for k, kind in enumerate((alone, other))
                    )
                    played((acts[0], acts[1]), sequence, lines)
                    assert found() == [], (alone, other, sequence, fabric)
                    held = Claim.objects.exclude(state="released")
                    both += len(set(held.values_list("tenant_id", flat=True))) == 2
                    count += 1
                    everything_given_back()
    finally:
        for line in lines:
            line.close()
    assert count >= 16 * 20
    assert both > count // 8, "the two hardly ever met"


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(180)
def test_a_host_that_changed_its_domain_under_claims_is_in_both_for_a_commit_too() -> None:
    a_catalogue(slots_count=4)
    acme, globex = a_tenant("acme"), a_tenant("globex")
    moved, stays = a_host("host-1", slots_count=4), a_host("host-2", slots_count=4)
    for host, zone, fabric, seen in ((moved, "a", "old", "new"), (stays, "b", "new", "")):
        Node.objects.filter(pk=host.node.pk).update(
            zone=zone, layout=WIRINGS[0], fabric=fabric, fabric_seen=seen
        )
    bases = []
    for world, zone in ((acme, "a"), (globex, "b")):
        ask = Ask(
            world.tenant.pk,
            world.project.pk,
            AllocationOrder(sku="h100.slice", slots=1, zones=(zone,)),
        )
        with platform_scope():
            bases.append(requests.item_of(ask, look(ask), actor=world.actor))
    lines = [Line(), Line()]
    outcomes = set()
    try:
        for alone in ((Alone.SHARES, Alone.WIRING), (Alone.WIRING, Alone.SHARES)):
            for sequence in interleavings(3, 3):
                acts = (
                    a_claim(acme, bases[0], 1, False, alone[0]),
                    a_claim(globex, bases[1], 1, False, alone[1]),
                )
                played(acts, sequence, lines)
                assert found() == [], (alone, sequence)
                held = Claim.objects.exclude(state="released")
                outcomes.add(tuple(held.values_list("tenant__slug", flat=True)))
                everything_given_back()
    finally:
        for line in lines:
            line.close()
    assert outcomes == {("acme",), ("globex",)}
