"""How do we stand beside OpenStack Placement, Slurm and the framework's floor?  P1, P2, P5.

    python -m benchmarks.beside [--quick] [--write] [--nodes 1000,5000] [--only p1,p5,…]

Placement runs on the same PostgreSQL behind the same server; Slurm keeps its state in memory.
Each comparison runs both sides in turn, A B A B, and is told as the median of the pairwise
ratios. A peer that cannot be installed is said and skipped. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks import curves, http, machine, names, openstack, peers, report, sides, slurm
from benchmarks.claims import Run, databases
from benchmarks.clients import Clients
from benchmarks.cluster import started
from benchmarks.measure import interleaved
from benchmarks.sides import CLIENTS, POOLS, SLOTS, Bench
from gpuaas.config import CHECKOUT

PARTS = ("p1", "p2", "p5", "race", "curves")
SIZES = {1_000: "1k", 5_000: "5k"}
KEYS = (
    "p1_1k",
    "p1_5k",
    "p1_all_1k",
    "p1_all_5k",
    "p1_lean_1k",
    "p1_lean_5k",
    "p2_1k",
    "p2_5k",
    "p5",
    "race_ours",
    "race_placement",
)
CURVE = (100, 10_000)
"""Sizes of the curves beside those of the comparisons."""
SLOW_S = 6.0
"""A window for a side that takes seconds for one claim."""
RACERS, ROUNDS = 16, 40
PICTURE = CHECKOUT / "docs" / "pictures" / "scaling.svg"
OURS, BATCHED = "this product, over HTTP", "this product, batched"
SLURM = "Slurm"
PLACEMENTS = {
    openstack.FULL: "OpenStack Placement",
    openstack.ALL: "OpenStack Placement, without a limit",
    openstack.LEAN: "OpenStack Placement, leanest search",
}
GOALS = {
    "p1_1k": ("P1 claim over HTTP ÷ Placement's search and claim, 1 000 nodes", "≥ 40"),
    "p1_5k": ("P1 the same, 5 000 nodes", "≥ 200"),
    "p1_all_1k": ("P1 against Placement's search without a limit, 1 000 nodes", "reported"),
    "p1_all_5k": ("P1 the same, 5 000 nodes", "reported"),
    "p1_lean_1k": ("P1 against Placement's leanest search, 1 000 nodes", "reported"),
    "p1_lean_5k": ("P1 the same, 5 000 nodes", "reported"),
    "p2_1k": ("P2 batched claims and releases ÷ Slurm's, 1 000 nodes", "≥ 5"),
    "p2_5k": ("P2 the same, 5 000 nodes", "≥ 10"),
    "p5": ("P5 POST allocation ÷ DRF insert, same server", "≥ 0.5"),
    "race_ours": ("Claims beyond capacity when 16 clients take the last node, ours", "0"),
    "race_placement": ("The same at Placement, as it comes", "reported"),
}
Rates = dict[str, dict[int, float]]


class Beside:
    """One run: what stands on the cluster, and the rates by size that were seen."""

    def __init__(self, run: Run, bench: Bench, buyers: list[names.Buyer]) -> None:
        self.run, self.bench, self.buyers = run, bench, buyers
        self.rates: Rates = {}

    def fleet(self, nodes: int, *, pools: int = 1, fill: float = 0.0) -> None:
        """Our fleet anew, empty, in the first so many pools."""
        self.bench.rows.execute("SELECT bench.reset()")
        for pool in POOLS[:pools]:
            self.bench.load(pool, nodes // pools, fill)
        if nodes > 1:
            self.bench.settle()

    def median(self, name: str, nodes: int, values: tuple[float, ...]) -> None:
        """Remember a rate for the curves."""
        self.rates.setdefault(name, {})[nodes] = sorted(values)[len(values) // 2]

    def p1(self, product: str, placement: openstack.Placement, nodes: int) -> None:
        """A full claim over HTTP ÷ Placement's search and claim, asked in each way."""
        ways = ((openstack.FULL, "p1"), (openstack.ALL, "p1_all"), (openstack.LEAN, "p1_lean"))
        for way, goal in ways:
            placement.load(nodes, way)
            self.fleet(nodes)
            with _group(self.bench.clients()) as ours, _group(peer_clients()) as theirs:
                pairs = interleaved(
                    lambda: here(ours, product, self.run.seconds),
                    partial(there, theirs, placement, self.slow_s, way),
                    pairs=self.run.pairs,
                    nodes=nodes,
                    clients=CLIENTS,
                )
            self.run.keep(
                f"p1 claim over HTTP ÷ {PLACEMENTS[way]}, {nodes} nodes", pairs, _key(goal, nodes)
            )
            if way == openstack.FULL:
                self.median(OURS, nodes, pairs.a)
                self.median(PLACEMENTS[way], nodes, pairs.b)

    def p2(self, nodes: int) -> None:
        """Batched claims and releases without HTTP ÷ Slurm's."""
        with (
            slurm.running(nodes) as env,
            _group(self.bench.clients()) as ours,
            _group(peer_clients()) as theirs,
        ):
            pairs = interleaved(
                lambda: self.turnover(ours, nodes),
                lambda: at_slurm(theirs, env, max(self.run.seconds, 1.0)),
                pairs=self.run.pairs,
                nodes=nodes,
                clients=CLIENTS,
            )
        self.run.keep(f"p2 claims + releases ÷ Slurm, {nodes} nodes", pairs, _key("p2", nodes))
        self.median(BATCHED, nodes, pairs.a)
        self.median(SLURM, nodes, pairs.b)

    def turnover(self, group: Clients, nodes: int) -> float:
        """Claims made and given back a second, each client in a pool of its own."""
        self.fleet(nodes, pools=CLIENTS)
        own = [{"pool": p, "sku": names.slices(p), "slots": SLOTS} for p in POOLS]
        return group.act("turnover", seconds=self.run.seconds, own=own).per_s

    @property
    def slow_s(self) -> float:
        """How long a side runs that takes seconds for one claim."""
        return self.run.seconds if self.run.options.quick else SLOW_S

    def race(self, product: str, placement: openstack.Placement | None) -> None:
        """Many clients take the last node at once: how many units are given beyond it."""
        rounds = 2 if self.run.options.quick else ROUNDS
        with _group(Clients(RACERS, peers.clean_environment(), PEER_CLIENT)) as racers:
            ask = _here(product, self.buyers) | {"slots": openstack.UNITS, "single": True}
            found = self.raced(
                rounds, lambda: self.fleet(1), lambda: racers.act("here", seconds=30.0, **ask),
                self.most_used,
            )  # fmt: skip
            self.told_race("ours", found)
            if placement is not None:
                ask = {
                    "url": placement.url, "slots": openstack.UNITS, "single": True,
                    "asks": openstack.LEAN,
                }  # fmt: skip
                found = self.raced(
                    rounds,
                    lambda: placement.load(1),
                    lambda: racers.act("placement", seconds=30.0, **ask),
                    placement.most_used,
                )
                self.told_race("placement", found)

    def raced(
        self,
        rounds: int,
        empty: Callable[[], None],
        act: Callable[[], Any],
        used: Callable[[], int],
    ) -> dict[str, int]:
        """Rounds on one empty node: units beyond it, and what clients were told."""
        found = {"rounds": rounds, "over_rounds": 0, "beyond": 0, "claimed": 0, "refused": 0}
        for _ in range(rounds):
            empty()
            outcome = act()
            beyond = max(used() - openstack.UNITS, 0) // openstack.UNITS
            found["over_rounds"] += beyond > 0
            found["beyond"] += beyond
            found["claimed"] += outcome.count
            found["refused"] += outcome.refused
        return found

    def told_race(self, side: str, found: dict[str, int]) -> None:
        """Print and remember a race."""
        print(f"race for the last node, {side}: {json.dumps(found)}", flush=True)
        self.run.results[f"race {side}"] = found
        self.run.summary[f"race_{side}"] = found["beyond"]

    def most_used(self) -> int:
        """Units of the fullest node that live claims hold."""
        row = self.bench.rows.execute(
            "SELECT coalesce(max(used), 0) FROM (SELECT sum(amount_milli) / 1000 AS used "
            "FROM placement_claim WHERE state <> 'released' GROUP BY node_num) AS nodes"
        ).fetchone()
        return int(row[0]) if row else 0

    def curve(self, product: str, placement: openstack.Placement | None) -> None:
        """Rates at the sizes that no comparison has; no ratio is made of them."""
        for nodes in CURVE:
            print(f"curves: {nodes} nodes", flush=True)
            with _group(self.bench.clients()) as ours, _group(peer_clients()) as theirs:
                self.fleet(nodes)
                self.rates.setdefault(OURS, {})[nodes] = here(
                    ours, product, min(self.run.seconds, nodes / 200)
                )
                if placement is not None:
                    placement.load(nodes, openstack.FULL)
                    self.rates.setdefault(PLACEMENTS[openstack.FULL], {})[nodes] = there(
                        theirs, placement, self.slow_s * 2, openstack.FULL
                    )
                self.rates.setdefault(BATCHED, {})[nodes] = self.turnover(ours, nodes)
                with contextlib.suppress(peers.PeerAbsent), slurm.running(nodes) as env:
                    self.rates.setdefault(SLURM, {})[nodes] = at_slurm(theirs, env, 2.0)
        self.run.results["curves"] = self.rates


PEER_CLIENT = "benchmarks.peer_client"


def peer_clients() -> Clients:
    """Clients of other systems."""
    return Clients(CLIENTS, peers.clean_environment(), PEER_CLIENT)


@contextlib.contextmanager
def _group(clients: Clients) -> Any:
    try:
        yield clients
    finally:
        clients.close()


def _key(goal: str, nodes: int) -> str | None:
    return f"{goal}_{SIZES[nodes]}" if nodes in SIZES else None


def _here(url: str, buyers: list[names.Buyer]) -> dict[str, Any]:
    sku = names.slices(POOLS[0])
    return {"url": url, "sku": sku, "buyers": [asdict(buyer) for buyer in buyers]}


def here(group: Clients, url: str, seconds: float) -> float:
    """Full claims a second over our API."""
    ask: dict[str, Any] = {"url": url, "sku": names.slices(POOLS[0]), "slots": SLOTS}
    return group.act("http", seconds=seconds, **ask).per_s


def there(group: Clients, placement: openstack.Placement, seconds: float, way: str) -> float:
    """Placement's searches with a claim, a second."""
    return group.act("placement", seconds=seconds, url=placement.url, slots=SLOTS, asks=way).per_s


def at_slurm(group: Clients, env: dict[str, str], seconds: float) -> float:
    """Slurm's claims with their release, a second."""
    return group.act("slurm", seconds=seconds, conf=env["SLURM_CONF"], slots=SLOTS).per_s


def measure(run: Run) -> Rates:
    """Everything that was asked for, on one cluster; the rates by size."""
    only = set(run.options.only)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(started())
        run.results["machine"] = machine.described(cluster.folder)
        print(f"machine: {json.dumps(run.results['machine'])}", flush=True)
        buyers = cluster.folder / "buyers.json"
        [database] = databases(cluster, [0], buyers).values()
        bench = stack.enter_context(sides.bench(cluster, database, buyers))
        beside = Beside(run, bench, names.read(buyers))
        sizes = [100] if run.options.quick else run.options.nodes
        placement: openstack.Placement | None = None
        if not run.options.quick and only & {"p1", "race", "curves"}:
            try:
                placement = stack.enter_context(openstack.served(cluster))
            except peers.PeerAbsent as absent:
                _skipped(run, "p1", absent)
        env = cluster.environment(database)
        if only & {"p1", "race", "curves"}:
            with http.served(http.PRODUCT, env, "/readyz") as product:
                if "p1" in only and placement is not None:
                    for nodes in sizes:
                        run.part(f"p1 {nodes}", partial(beside.p1, product, placement, nodes))
                if "race" in only:
                    run.part("race", lambda: beside.race(product, placement))
                if "curves" in only and not run.options.quick:
                    run.part("curves", lambda: beside.curve(product, placement))
        if "p2" in only and not run.options.quick:
            try:
                peers.slurm_programs()
                for nodes in sizes:
                    run.part(f"p2 {nodes}", partial(beside.p2, nodes))
            except peers.PeerAbsent as absent:
                _skipped(run, "p2", absent)
        if "p5" in only:
            run.part("p5", lambda: _floor(run, bench, max(sizes)))
    return beside.rates


def _floor(run: Run, bench: Bench, nodes: int) -> None:
    pairs = http.over_http(bench, nodes=nodes, pairs=run.pairs, seconds=run.seconds)
    run.keep("p5 POST allocation ÷ DRF insert", pairs, "p5")


def _skipped(run: Run, part: str, absent: peers.PeerAbsent) -> None:
    print(f"SKIPPED {part}: {absent}", flush=True)
    run.results[part] = {"not_measured": str(absent)}


def write(run: Run, rates: Rates) -> None:
    """The picture, and this command's part of the page."""
    lines = [
        "## Beside OpenStack Placement, Slurm and the framework's floor",
        "",
        "Written by `make bench-http ARGS=--write`. Placement 16.0 runs on the same PostgreSQL",
        "behind the same server with as many workers. Its claim is a search and a claim of one of",
        "the candidates. It is asked for what our claim decides, in the form of its own load test:",
        "GPU, CPUs, memory and disk of the slots, in an aggregate (our pool), with a trait (our",
        "family), 1 000 candidates as Nova does by default. Beside that it is asked the same",
        "without a limit, as its API answers by itself, and in the leanest way there is: one",
        "inventory a node, nothing else known of it, 20 candidates. Slurm runs",
        "one controller, in memory, without accounting; its claims and releases go through its",
        "own programs, whose start is part of the time. Our releases end the run and begin the",
        "wipe, durably; the host's proof comes later. Both sides run in turn, A B A B, 4 clients.",
        "",
        report.machine_told(run.results["machine"]),
        "",
        *report.goals_told(GOALS, run.summary),
    ]
    lines += ["", *report.comparisons(run.results), ""]
    for side in ("ours", "placement"):
        found = run.results.get(f"race {side}")
        if found:
            lines.append(
                f"- Race, {side}: {found['rounds']} rounds of {RACERS} clients, "
                f"{found['claimed']} claims told, {found['refused']} refused, capacity exceeded "
                f"in {found['over_rounds']} rounds."
            )
    if rates:
        PICTURE.write_text(curves.drawn("Claims per second by fleet size", rates), "utf-8")
        lines += ["", f"![Claims per second by fleet size](pictures/{PICTURE.name})", ""]
    for name, found in run.results.items():
        if isinstance(found, dict) and "not_measured" in found:
            lines.append(f"- Not measured: {name}: {found['not_measured']}")
    report.section("beside", lines)


def main() -> int:
    """Measure, keep the raw numbers, and print the summary as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--nodes", default=list(SIZES), type=lambda text: [int(n) for n in text.split(",")]
    )
    parser.add_argument("--quick", action="store_true", help="tiny, without the peers")
    parser.add_argument("--only", default=",".join(PARTS), type=lambda text: text.split(","))
    parser.add_argument("--write", action="store_true", help="also write docs/benchmarks.md")
    run = Run(parser.parse_args(), keys=KEYS)
    rates = measure(run)
    if not run.options.quick:
        report.keep("beside", run.results | {"summary": run.summary})
    if run.options.write:
        write(run, rates)
    print(json.dumps(run.summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
