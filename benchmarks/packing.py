"""How full does a fleet get before nothing fits?  The packing comparison of USENIX ATC 2023.

    python -m benchmarks.packing --nodes nodes.csv --pods pods_default.csv … --seeds 42-51

Protocol: all tasks of a trace, and copies of tasks drawn uniformly at random until the requested
GPU-milli reach 130 % of the fleet's; shuffled; placed one by one. A task that fits nowhere is
dropped, one that fits somewhere is never refused, nothing leaves. The result is allocated
GPU-milli ÷ the fleet's. The engine is the one that scores allocations: placement.domain.packing.

The demand mix it looks ahead with is, by ``--mix``:

    trace     the histogram of the trace's task kinds, as in the paper (kinds, not their order)
    arrivals  only what has been asked for so far in the run, learnt anew as the count grows

Runs on one core. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.openb import copies_until, read_nodes, read_pods, seeds_of
from placement.domain.demand import Bundle, Mix
from placement.domain.packing import Fleet, Host, Weights

PUBLISHED = {
    "default": (87.47, 90.85, 91.88, 92.00, 93.08, 95.39),
    "cpu100": (89.11, 91.95, 92.64, 92.72, 93.44, 95.35),
    "gpushare40": (86.00, 89.56, 90.02, 90.03, 91.69, 94.15),
    "gpuspec10": (87.43, 90.39, 92.18, 92.46, 93.30, 94.95),
    "multigpu20": (88.69, 92.06, 93.56, 93.71, 93.93, 95.65),
}
"""Published means in %: Random, DotProd, GpuClustering, GpuPacking, BestFit, FGD."""
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
PLAIN = Weights(gap=0.0, fragment=1.0, stranded=0.0)
FIRST_LOOK = 16
GROWTH = 1.25
"""With ``--mix arrivals`` the mix is learnt at this many arrivals, then at each such growth."""


@dataclass(frozen=True, slots=True)
class Run:
    """One trace, one seed: allocated part in %, times per decision, tasks dropped by GPU count."""

    trace: str
    seed: int
    allocated: float
    wall_ms: float
    cpu_ms: float
    tasks: int
    dropped: dict[str, int]


def run(
    hosts: Sequence[Host],
    pods: Sequence[Bundle],
    *,
    trace: str,
    seed: int,
    mix: str = "trace",
    weights: Weights | None = None,
    limit: int | None = None,
) -> Run:
    """Place one shuffled sequence; ``limit`` stops after so many tasks.

    A decision is choosing and taking, with what is learnt of the mix included.
    """
    capacity = sum(sum(host.gpus) for host in hosts)
    queue = copies_until(pods, 1.3 * capacity, seed)[:limit]
    fleet = Fleet(hosts, Mix.seen(pods) if mix == "trace" else Mix(), weights)
    allocated, dropped = 0, Counter[str]()
    seen = Counter[Bundle]()
    look = FIRST_LOOK
    wall, cpu = time.perf_counter(), time.process_time()
    for count, bundle in enumerate(queue):
        if mix == "arrivals":
            if count >= look:
                fleet.learn(Mix.counted(seen))
                look = int(count * GROWTH) + 1
            seen[bundle] += 1
        choice = fleet.choose(bundle)
        if choice is None:
            dropped["share" if bundle.shared else str(bundle.gpus)] += 1
            continue
        fleet.take(choice)
        allocated += bundle.demand_milli
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Run(
        trace=trace,
        seed=seed,
        allocated=100 * allocated / capacity,
        wall_ms=wall / len(queue) * 1000,
        cpu_ms=cpu / len(queue) * 1000,
        tasks=len(queue),
        dropped=dict(sorted(dropped.items())),
    )


def spread(values: Sequence[float]) -> float:
    """Standard deviation over seeds; 0 for one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def summary(runs: Sequence[Run]) -> dict[str, object]:
    """The JSON object of all runs."""
    traces: dict[str, dict[str, object]] = {}
    ahead: list[float] = []
    for trace in dict.fromkeys(r.trace for r in runs):
        own = [r for r in runs if r.trace == trace]
        mean = statistics.fmean(r.allocated for r in own)
        traces[trace] = {
            "mean": round(mean, 3),
            "sd": round(spread([r.allocated for r in own]), 3),
            "ms_per_decision": round(statistics.fmean(r.wall_ms for r in own), 4),
            "cpu_ms_per_decision": round(statistics.fmean(r.cpu_ms for r in own), 4),
            "runs": {str(r.seed): round(r.allocated, 3) for r in own},
            "dropped_mean": {
                kind: round(statistics.fmean(r.dropped.get(kind, 0) for r in own), 1)
                for kind in sorted({kind for r in own for kind in r.dropped})
            },
        }
        if trace in PUBLISHED:
            ahead.append(mean - PUBLISHED[trace][-1])
            traces[trace]["ahead_of_published_fgd"] = round(ahead[-1], 3)
    return {
        "packing_mean": round(statistics.fmean(r.allocated for r in runs), 3),
        "packing_sd": round(spread([r.allocated for r in runs]), 3)
        if len(traces) == 1
        else round(max(float(str(entry["sd"])) for entry in traces.values()), 3),
        "ms_per_decision": round(max(float(str(t["ms_per_decision"])) for t in traces.values()), 4),
        "ahead_least": round(min(ahead), 3) if ahead else None,
        "traces": traces,
    }


def table(found: dict[str, object], *, name: str) -> str:
    """The result beside the published one, as a Markdown table in %."""
    traces = found["traces"]
    assert isinstance(traces, dict)
    lines = [
        f"| trace | {' | '.join(POLICIES)} | {name} | ahead of FGD | ms per decision |",
        "|---|" + "---|" * (len(POLICIES) + 3),
    ]
    for trace, own in traces.items():
        published = [f"{value:.2f}" for value in PUBLISHED.get(trace, ())] or ["–"] * len(POLICIES)
        ahead = own.get("ahead_of_published_fgd")
        lines.append(
            f"| {trace} | {' | '.join(published)} | {own['mean']:.2f} ± {own['sd']:.2f} "
            f"| {'–' if ahead is None else f'{ahead:+.2f}'} | {own['ms_per_decision']:.2f} |"
        )
    return "\n".join(lines)


def drops(found: dict[str, object]) -> str:
    """Tasks dropped for want of room, mean per run, by GPUs asked for."""
    traces = found["traces"]
    assert isinstance(traces, dict)
    kinds = sorted({kind for own in traces.values() for kind in own["dropped_mean"]})
    lines = [f"| trace | {' | '.join(kinds)} |", "|---|" + "---|" * len(kinds)]
    for trace, own in traces.items():
        values = " | ".join(str(own["dropped_mean"].get(kind, 0)) for kind in kinds)
        lines.append(f"| {trace} | {values} |")
    return "\n".join(lines)


def page(found: dict[str, dict[str, object]], args: argparse.Namespace) -> str:
    """The section for people: what was run, on what, and what came out."""
    parts = [
        "# Packing\n",
        "Written by `make bench-packing NODES=… PODS=… SEEDS=…`; do not edit.\n",
        f"Protocol of USENIX ATC 2023, seeds {args.seeds}, requests of 130 % of the fleet. "
        "Allocated GPU share in %, mean ± standard deviation over the seeds, beside the "
        "published means. Demand mix: "
        + (
            "the trace's histogram of task kinds, as published.\n"
            if args.mix == "trace"
            else "what has been asked for so far in the run.\n"
        ),
        f"Python {platform.python_version()}, {platform.machine()}, one core of "
        f"{os.cpu_count()}, load {os.getloadavg()[0]:.1f}.\n",
    ]
    for name, result in found.items():
        parts += [f"## {name}\n", table(result, name=name) + "\n"]
        parts += ["Dropped for want of room, tasks per run, by GPUs asked for:\n", drops(result)]
        parts += [""]
    return "\n".join(parts)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.packing", description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=Path, required=True, help="CSV of hosts")
    parser.add_argument("--pods", type=Path, nargs="+", required=True, help="CSVs of tasks")
    parser.add_argument("--seeds", default="42-51", help="such as 42-51 or 1,2,5-7")
    parser.add_argument("--mix", choices=("trace", "arrivals"), default="trace")
    parser.add_argument("--plain", action="store_true", help="also run the plain published score")
    parser.add_argument("--write", type=Path, help="write the tables to this file as well")
    return parser.parse_args(given)


def measured(args: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, list[Run]]:
    """All runs asked for, by the name of what was run."""
    hosts = read_nodes(args.nodes)
    sides: dict[str, Weights | None] = {"ours": None}
    if args.plain:
        sides["plain FGD, our code"] = PLAIN
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for path in args.pods:
        pods = read_pods(path)
        trace = path.stem.removeprefix("pods_")
        for seed in seeds_of(args.seeds):
            for name, weights in sides.items():
                one = run(hosts, pods, trace=trace, seed=seed, mix=args.mix, weights=weights)
                runs[name].append(one)
                tell(
                    f"{name}: {trace} seed {seed}: {one.allocated:.3f} % of {one.tasks} tasks, "
                    f"{one.wall_ms:.3f} ms a decision ({one.cpu_ms:.3f} ms of CPU)"
                )
    return runs


def main(given: Sequence[str] | None = None) -> int:
    """Run, print the table and the JSON line."""
    args = arguments(given)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    runs = measured(args, lambda line: print(line, file=sys.stderr, flush=True))
    found = {name: summary(own) for name, own in runs.items()}
    text = page(found, args)
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    print(text)
    rest = {name: result for name, result in found.items() if name != "ours"}
    print(json.dumps({**found["ours"], "mix": args.mix, "seeds": args.seeds, "beside": rest}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
