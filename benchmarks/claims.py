"""How fast are claims, and how heavy is the product?  P3, P4, P5, P7, P8 of the goals.

    python -m benchmarks.claims [--quick] [--nodes 100,1000,10000,50000] [--only p3,p4]
                                [--fleet inventory.csv]

Its own throw-away PostgreSQL, durable (fsync and synchronous_commit on). Comparisons run both
sides in one session, A B A B, and are told as the median of the pairwise ratios with all raw
numbers. P4 has many rows, so its pairs are five and short; with --fleet, a file with a column
gpu_capacity_num, one of them has hosts of that fleet's sizes. The last line of the output is one
JSON object; a part that could not run is null and its reason is printed, never a number that was
not measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import http, machine, product, report, sides
from benchmarks.cluster import Cluster, started
from benchmarks.fleets import hosts_by_size
from benchmarks.measure import FEWEST, Pairs
from gpuaas.config import CHECKOUT

PARTS = ("p3", "p4", "p5", "p7")
KEYS = (
    "p3_single",
    "p3_batch",
    "p4_10k_over_100",
    "p4_50k_over_100",
    "p4_refusal",
    "p4_parts",
    "p5",
    "p7_pss_mb",
    "p8_warm_s",
)
MAIN_NODES, MOST_NODES, LEAST_NODES = 10_000, 50_000, 100
P4_SECONDS = 0.8


class Run:
    """What was measured so far, and what could not be."""

    def __init__(self, options: argparse.Namespace, keys: Sequence[str] = KEYS) -> None:
        self.options = options
        self.pairs = 5 if options.quick else options.pairs
        self.seconds = min(0.7, options.seconds) if options.quick else options.seconds
        self.results: dict[str, Any] = {}
        self.summary: dict[str, Any] = dict.fromkeys(keys)

    def part(self, name: str, measure: Callable[[], None]) -> None:
        """Measure one part; a failure is told and leaves its figures empty."""
        begun = time.monotonic()
        try:
            measure()
        except Exception as error:
            print(f"{name}: not measured: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc(file=sys.stderr)
            self.results[name] = {"not_measured": f"{type(error).__name__}: {error}"[:500]}
        print(f"({name} took {time.monotonic() - begun:.0f} s)", flush=True)

    def keep(self, name: str, pairs: Pairs, key: str | None = None) -> None:
        """Print a comparison and remember it."""
        print(pairs.told(name), flush=True)
        self.results[name] = pairs.as_json()
        if key is not None:
            self.summary[key] = round(pairs.ratio, 3)


def databases(cluster: Cluster, sizes: list[int], buyers: Path) -> dict[int, str]:
    """A database for each fleet size, alike but for the fleet."""
    cluster.migrate()
    with cluster.superuser() as rows:
        sides.prepare(rows)
    subprocess.run(
        [sys.executable, "-m", "benchmarks.world", str(buyers), *sides.POOLS],
        env=cluster.environment(),
        cwd=CHECKOUT,
        check=True,
    )
    names = {nodes: f"fleet_{nodes}" for nodes in sizes}
    for name in names.values():
        cluster.copy(name)
    return names


def measure(run: Run) -> None:
    """Everything that was asked for, on one cluster."""
    options = run.options
    fleets = sorted({int(n) for n in options.nodes.split(",")})
    main = max(n for n in fleets if n <= MAIN_NODES)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(started())
        run.results["machine"] = machine.described(cluster.folder)
        print(f"machine: {json.dumps(run.results['machine'])}", flush=True)
        buyers = cluster.folder / "buyers.json"
        fleet_of = databases(cluster, fleets, buyers)
        benches = {
            nodes: stack.enter_context(sides.bench(cluster, name, buyers))
            for nodes, name in fleet_of.items()
        }
        if "p3" in options.only:
            run.part("p3", lambda: p3(run, benches[main], main))
        if "p4" in options.only:
            run.part("p4", lambda: p4(run, benches))
        if "p5" in options.only:
            run.part(
                "p5",
                lambda: run.keep(
                    "p5 POST allocation ÷ DRF insert",
                    http.over_http(benches[main], nodes=main, pairs=run.pairs, seconds=run.seconds),
                    "p5",
                ),
            )
    if "p7" in options.only:
        run.part("p7", lambda: p7(run))


def p3(run: Run, b: sides.Bench, nodes: int) -> None:
    """Single claims and batches beside the hand-written function."""
    how: dict[str, Any] = {"nodes": nodes, "pairs": run.pairs, "seconds": run.seconds}
    run.keep("p3 single, engine ÷ function", sides.single(b, **how), "p3_single")
    run.keep("p3 cycle of 64 ÷ function", sides.batch(b, "cycle", **how), "p3_batch")
    run.keep("p3 place_many of 64 ÷ function", sides.batch(b, "batch", **how))


def p4(run: Run, benches: dict[int, sides.Bench]) -> None:
    """Growth with the fleet, and the price of a refusal."""
    options = run.options
    found = sides.sizes(
        benches,
        pairs=FEWEST,
        seconds=min(run.seconds, P4_SECONDS),
        mix=hosts_by_size(options.fleet) if options.fleet else None,
    )
    least = min(benches)
    for fill, by_nodes in found.growth.items():
        for nodes, pairs in by_nodes.items():
            run.keep(f"p4 {nodes} ÷ {least} nodes, {fill}", pairs)
    for kind, by_nodes in found.parts.items():
        for nodes, pairs in by_nodes.items():
            run.keep(f"p4 {kind} part, {nodes} ÷ {least} nodes, {sides.MIXED:.0%} full", pairs)
    for nodes, pairs in found.refusals.items():
        run.keep(f"p4 no capacity ÷ success, {nodes} nodes", pairs)
    run.summary["p4_refusal"] = _worst(found.refusals.values())
    if least == LEAST_NODES:
        for key, nodes in (("p4_10k_over_100", MAIN_NODES), ("p4_50k_over_100", MOST_NODES)):
            run.summary[key] = _worst(by[nodes] for by in found.growth.values() if nodes in by)
        run.summary["p4_parts"] = _worst(
            by[MOST_NODES] for by in found.parts.values() if MOST_NODES in by
        )


def _worst(found: Iterable[Pairs]) -> float | None:
    """The largest ratio; None where nothing was compared."""
    return max((round(pairs.ratio, 3) for pairs in found), default=None)


def p7(run: Run) -> None:
    """Memory and starts of the whole product."""
    fleets = (100, 1_000) if run.options.quick else (100, MAIN_NODES)
    found = product.measured(fleets, starts=3 if run.options.quick else 5)
    run.results["p7, p8 product"] = found
    run.summary["p7_pss_mb"] = max(found["pss_mb"].values())
    run.summary["p8_warm_s"] = round(statistics.median(found["warm_start_s"]), 2)
    print(f"p7 memory by nodes: {found['pss_mb']} MB; p8 warm starts {found['warm_start_s']} s, "
          f"first start {found['first_start_s']} s", flush=True)  # fmt: skip


def main() -> int:
    """Measure, keep the raw numbers, and print the summary as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="100,1000,10000,50000")
    parser.add_argument("--fleet", type=Path, help="an inventory, for hosts of its sizes")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--quick", action="store_true", help="five short pairs")
    parser.add_argument("--only", default=",".join(PARTS), type=lambda text: text.split(","))
    parser.add_argument("--write", action="store_true", help="also write docs/benchmarks.md")
    run = Run(parser.parse_args())
    measure(run)
    report.keep("claims", run.results | {"summary": run.summary})
    if run.options.write:
        report.write_page(run.results, run.summary)
    print(json.dumps(run.summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
