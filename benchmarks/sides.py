"""What do claims cost beside a hand-written function, and in a fleet of any size?  P3, P4."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import names
from benchmarks.clients import Clients
from benchmarks.cluster import Cluster
from benchmarks.fleets import shared_out
from benchmarks.measure import Pairs, interleaved, quantile

CLIENTS = 4
SLOTS = 2
POOLS = tuple(f"pool{i}" for i in range(CLIENTS))
FILLS = ((0.10, 0), (0.70, 0), (0.70, 2), (0.97, 0))
"""Fill, and of how many nodes one takes no work (0: all do); never less full than before."""
MIXED = 0.70
"""How full a fleet of hosts of many sizes is, and one of cut GPUs."""
Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Bench:
    """One database with the fleet functions, and its clients."""

    cluster: Cluster
    database: str
    rows: Connection
    buyers: Path

    def clients(self, count: int = CLIENTS) -> Clients:
        """Client processes on this database."""
        env = self.cluster.environment(self.database)
        return Clients(count, env | {"GPUAAS_BENCH_BUYERS": str(self.buyers)})

    def load(self, pool: str, nodes: int, fill: float, closed: int = 0, *, slots: int = 8) -> None:
        """Add a fleet of hosts of one size to a pool."""
        self.rows.execute(
            "SELECT bench.load(%s, %s, %s, %s, %s, %s, %s)",
            [pool, names.family_of(slots), names.slices(pool), nodes, fill, closed, slots],
        )

    def load_parts(self, nodes: int, fill: float) -> None:
        """Add hosts whose GPUs are cut to the pool of parts."""
        self.rows.execute(
            "SELECT bench.load_parts(%s, %s, %s, %s, %s)",
            [names.PARTS, names.FAMILY, names.slices(POOLS[0]), nodes, fill],
        )

    def fill(self, pool: str, before: float, after: float, closed: int) -> None:
        """Bring a pool that is filled to one part to another, and close its nodes or open them."""
        self.rows.execute(
            "SELECT bench.fill(%s, %s, %s, %s)", [pool, names.slices(pool), before, after]
        )
        self.rows.execute("SELECT bench.close(%s, %s)", [pool, closed])
        self.settle()

    def settle(self) -> None:
        """Bring statistics and the visibility map to what an hour of running would."""
        self.rows.execute("VACUUM ANALYZE")
        self.rows.execute("CHECKPOINT")


@contextlib.contextmanager
def bench(cluster: Cluster, database: str, buyers: Path) -> Iterator[Bench]:
    """A prepared database, opened for loading."""
    with cluster.superuser(database) as rows:
        yield Bench(cluster, database, rows, buyers)


def prepare(rows: Connection) -> None:
    """The fleet functions and the comparison, for everybody."""
    rows.execute("DROP SCHEMA IF EXISTS bench CASCADE")
    rows.execute("CREATE SCHEMA bench")
    for name in ("fleet.sql", "floor.sql"):
        rows.execute((names.SQL / name).read_text(encoding="utf-8"))
    rows.execute("GRANT USAGE, CREATE ON SCHEMA bench TO gpuaas_platform, gpuaas_owner")
    rows.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA bench TO gpuaas_platform, gpuaas_owner")


def single(b: Bench, *, nodes: int, pairs: int, seconds: float, clients: int = CLIENTS) -> Pairs:
    """P3, single: durable claims through the engine ÷ calls of the hand-written function."""
    pool = POOLS[0]
    b.rows.execute("SELECT bench.reset()")
    b.load(pool, nodes, 0.10)
    b.settle()
    group = b.clients(clients)
    ask: dict[str, Any] = {"sku": names.slices(pool), "slots": SLOTS}
    seen: dict[str, list[float]] = {"engine": [], "floor": []}

    def side(way: str) -> float:
        outcome = group.act(way, seconds=seconds, **ask)
        seen[way] += outcome.times
        return outcome.per_s

    try:
        pairs_ = interleaved(lambda: side("engine"), lambda: side("floor"), pairs=pairs)
    finally:
        group.close()
    for way, times in seen.items():
        pairs_.facts[f"{way}_p50_ms"] = round(quantile(times, 0.5) * 1000, 2)
        pairs_.facts[f"{way}_p99_ms"] = round(quantile(times, 0.99) * 1000, 2)
    pairs_.facts.update(nodes=nodes, clients=clients, slots=SLOTS, fill=0.10)
    return pairs_


def batch(b: Bench, way: str, *, nodes: int, pairs: int, seconds: float) -> Pairs:
    """P3, batch: the cycle with batches of 64, a pool a client, ÷ the same function.

    ``way`` "cycle" takes waiting requests off the queue (their request and run are there
    already); "batch" writes the very rows of a single claim, 64 in one call.
    """
    group = b.clients()
    own = [{"pool": p, "sku": names.slices(p), "slots": SLOTS} for p in POOLS]

    def a() -> float:
        # Every pair begins with the same fleet: batches would fill it before the last one.
        b.rows.execute("SELECT bench.reset()")
        for pool in POOLS:
            b.load(pool, nodes // len(POOLS), 0.10)
        b.settle()
        if way == "cycle":
            for pool in POOLS:
                b.rows.execute(
                    "SELECT bench.queue(%s, %s, %s, %s, %s, %s)",
                    [pool, names.slices(pool), int(1500 * seconds), SLOTS, names.IMAGE, "{}"],
                )
            b.rows.execute("ANALYZE admission_admissionrequest")
        outcome = group.act(way, seconds=seconds, own=own)
        # What still waits must not be looked at by the other side.
        b.rows.execute("DELETE FROM admission_admissionrequest WHERE state = 'queued'")
        b.rows.execute("VACUUM admission_admissionrequest")
        return outcome.per_s

    try:
        result = interleaved(
            a, lambda: group.act("floor", seconds=seconds, own=own).per_s, pairs=pairs
        )
    finally:
        group.close()
    result.facts.update(nodes=nodes, clients=CLIENTS, slots=SLOTS, way=way)
    return result


@dataclass(frozen=True)
class Sizes:
    """P4: growth by fill and fleet, that of parts by kind, and refusals beside successes."""

    growth: dict[str, dict[int, Pairs]]
    parts: dict[str, dict[int, Pairs]]
    refusals: dict[int, Pairs]


def sizes(
    benches: dict[int, Bench],
    *,
    pairs: int,
    seconds: float,
    mix: Counter[int] | None = None,
) -> Sizes:
    """Claim p50 in each fleet ÷ that in the smallest, at each fill; and "no capacity".

    Each claim is taken back at once, unmeasured, so that the fill stays. ``mix``: how many hosts
    of each size a real fleet has, for a fleet of many families beside the one that is asked for.
    """
    growth: dict[str, dict[int, Pairs]] = {}
    how: dict[str, Any] = {"pairs": pairs, "seconds": seconds}
    for nodes, b in benches.items():
        b.rows.execute("SELECT bench.reset()")
        b.load(POOLS[0], nodes, 0.0)
        b.load_parts(nodes, MIXED)
    groups = {nodes: b.clients() for nodes, b in benches.items()}
    try:
        before = 0.0
        for fill, closed in FILLS:
            name = f"{fill:.0%} full" + (f", 1 of {closed} nodes closed" if closed else "")
            for b in benches.values():
                b.fill(POOLS[0], before, fill, closed)
            before = fill
            growth[name] = _grown(groups, **how)
        refusals = {nodes: _refused(benches[nodes], groups[nodes], **how) for nodes in benches}
        parts = {
            kind: _grown(groups, sku=names.part(names.PARTS, kind), **how) for kind in names.KINDS
        }
        if mix is not None:
            for nodes, b in benches.items():
                b.rows.execute("SELECT bench.reset()")
                for slots, count in shared_out(mix, nodes).items():
                    b.load(POOLS[0], count, MIXED, slots=slots)
                b.settle()
            growth[f"{MIXED:.0%} full, hosts of a real fleet's sizes"] = _grown(groups, **how)
    finally:
        for group in groups.values():
            group.close()
    return Sizes(growth, parts, refusals)


def _grown(groups: dict[int, Clients], **how: Any) -> dict[int, Pairs]:
    """Each fleet's p50 beside the smallest one's."""
    smallest = groups[min(groups)]
    return {
        nodes: _compared(group, smallest, **how)
        for nodes, group in groups.items()
        if group is not smallest
    }


def _refused(b: Bench, group: Clients, **how: Any) -> Pairs:
    """A size that no host has left, beside one slot that there is."""
    b.rows.execute("UPDATE placement_node SET schedulable = false WHERE free_count > 6")
    return _compared(group, group, slots=7, **how)


def _compared(
    a: Clients,
    b: Clients,
    *,
    pairs: int,
    seconds: float,
    slots: int = 1,
    sku: str = names.slices(POOLS[0]),
) -> Pairs:
    """p50 of ``slots`` slots (or one part) on the one ÷ that of one on the other."""

    def p50(group: Clients, size: int) -> float:
        ask: dict[str, Any] = {"sku": sku, "slots": size, "undo": True}
        outcome = group.act("engine", seconds=seconds, **ask)
        if not outcome.count and size == 1:
            raise RuntimeError(f"no claim of {sku} succeeded: there is nothing to compare")
        return quantile(outcome.times, 0.5) * 1000

    return interleaved(lambda: p50(a, slots), lambda: p50(b, 1), pairs=pairs, unit="ms p50")
