"""How fast are claims, and how heavy is the product?  P3, P4, P5, P7, P8 of the goals.

    python -m benchmarks.claims [--quick] [--nodes 100,1000,10000] [--only p3,p4]

Its own throw-away PostgreSQL, durable (fsync and synchronous_commit on). Comparisons run both
sides in one session, A B A B, and are told as the median of the pairwise ratios with all raw
numbers. The last line of the output is one JSON object; a part that could not run is null and
its reason is printed, never a number that was not measured.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import http, machine, product, report, sides
from benchmarks.cluster import Cluster, started
from benchmarks.measure import Pairs
from gpuaas.config import CHECKOUT

PARTS = ("p3", "p4", "p5", "p7")
KEYS = ("p3_single", "p3_batch", "p4_10k_over_100", "p5", "p7_pss_mb", "p8_warm_s")
MAIN_NODES = 10_000


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
    found = sides.sizes(benches, pairs=run.pairs, seconds=run.seconds)
    for fill, by_nodes in found.growth.items():
        for nodes, pairs in by_nodes.items():
            run.keep(f"p4 {nodes} ÷ {min(benches)} nodes, {fill}", pairs)
    for nodes, pairs in found.refusals.items():
        run.keep(f"p4 no capacity ÷ success, {nodes} nodes", pairs)
    if min(benches) == 100 and MAIN_NODES in benches:
        ratios = [by[MAIN_NODES].ratio for by in found.growth.values()]
        run.summary["p4_10k_over_100"] = round(max(ratios), 3)


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
    parser.add_argument("--nodes", default="100,1000,10000")
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
