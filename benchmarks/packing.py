"""How full does a fleet get before nothing fits?  The packing comparison of USENIX ATC 2023.

    python -m benchmarks.packing --nodes nodes.csv --pods pods_default.csv … --seeds 42-51

Protocol: all tasks of a trace, and copies of tasks drawn uniformly at random until the requested
GPU-milli reach 130 % of the fleet's; shuffled; placed one by one. A task that fits nowhere is
dropped, one that fits somewhere is never refused, nothing leaves. The result is allocated
GPU-milli ÷ the fleet's. The engine is the one that scores allocations: placement.domain.packing.

Our score looks ahead with a demand mix learnt only from what has been asked for so far in the
run. ``--beside`` also runs, on the same sequences, our score and the plain published one with
the histogram of the trace's task kinds, as the paper does (kinds and how often, not their order).

Runs on one core without helper threads. The last line is one JSON object.
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

from benchmarks.openb import TraceError, copies_until, read_nodes, read_pods, seeds_of, trace_of
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
PUBLISHED_FLEET = (1_213, 6_212_000, 107_018_000, 503_828_480)
"""Hosts, GPU-milli, CPU milli and MiB of the fleet on which they were found."""
PUBLISHED_TASKS = {
    (8_152, 6_086_800, 85_436_012, 303_546_211, 0): "default",
    (7_853, 6_086_800, 80_292_312, 289_071_014, 0): "cpu100",
    (8_152, 5_641_250, 80_383_484, 281_701_244, 0): "gpushare40",
    (8_152, 6_086_800, 85_436_012, 303_546_211, 1_000): "gpuspec10",
    (8_324, 7_086_800, 95_171_812, 344_773_251, 0): "multigpu20",
}
"""Tasks, GPU-milli, CPU milli and MiB asked for and models named, of each trace in whole."""
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
PLAIN = Weights(gap=0.0, fragment=1.0, stranded=0.0)
FIRST_LOOK = 16
GROWTH = 1.25
"""A mix of arrivals is first learnt after so many, then at each such growth of their count."""
ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def published_of(hosts: Sequence[Host], pods: Sequence[Bundle]) -> str:
    """Which published trace these tasks on these hosts are, whatever their files are called.

    Empty for any other: a published figure says nothing of another fleet or of a part of a trace.
    """
    fleet = (
        len(hosts),
        sum(sum(host.gpus) for host in hosts),
        sum(host.cpu_milli for host in hosts),
        sum(host.memory_mib for host in hosts),
    )
    tasks = (
        len(pods),
        sum(pod.demand_milli for pod in pods),
        sum(pod.cpu_milli for pod in pods),
        sum(pod.memory_mib for pod in pods),
        sum(len(pod.models) for pod in pods),
    )
    return PUBLISHED_TASKS.get(tasks, "") if fleet == PUBLISHED_FLEET else ""


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared: a score, and whether it knows the trace's histogram beforehand."""

    name: str
    weights: Weights
    knows_histogram: bool = False


OURS = Side("ours", Weights())
BESIDE = (
    Side("ours, histogram known", Weights(), knows_histogram=True),
    Side("plain FGD in our code, histogram known", PLAIN, knows_histogram=True),
)


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
    published: str = ""
    """The published trace that it is, if it is one."""


def run(
    hosts: Sequence[Host],
    pods: Sequence[Bundle],
    *,
    trace: str,
    seed: int,
    side: Side = OURS,
    limit: int | None = None,
) -> Run:
    """Place one shuffled sequence; ``limit`` stops after so many tasks.

    A decision is choosing and taking, with what is learnt of the mix included.
    """
    capacity = sum(sum(host.gpus) for host in hosts)
    queue = copies_until(pods, 1.3 * capacity, seed)[:limit]
    fleet = Fleet(hosts, Mix.seen(pods) if side.knows_histogram else Mix(), side.weights)
    allocated, dropped = 0, Counter[str]()
    seen = Counter[Bundle]()
    look = FIRST_LOOK
    wall, cpu = time.perf_counter(), time.process_time()
    for count, bundle in enumerate(queue):
        if not side.knows_histogram:
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
        published=published_of(hosts, pods),
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """All runs of one trace."""

    name: str
    runs: tuple[Run, ...]

    @property
    def mean(self) -> float:
        """Allocated part in %, mean over the seeds."""
        return statistics.fmean(run.allocated for run in self.runs)

    @property
    def sd(self) -> float:
        """Standard deviation over the seeds; 0 for one."""
        return statistics.stdev(run.allocated for run in self.runs) if len(self.runs) > 1 else 0.0

    @property
    def wall_ms(self) -> float:
        """Wall-clock milliseconds a decision."""
        return statistics.fmean(run.wall_ms for run in self.runs)

    @property
    def published(self) -> tuple[float, ...]:
        """The published means of this trace on this fleet; none for any other."""
        return PUBLISHED.get(self.runs[0].published, ())

    @property
    def ahead(self) -> float | None:
        """Points ahead of the published FGD mean; None for a trace that was not published."""
        return self.mean - self.published[-1] if self.published else None

    @property
    def dropped(self) -> dict[str, float]:
        """Tasks dropped for want of room, mean per run, by GPUs asked for."""
        kinds = sorted({kind for run in self.runs for kind in run.dropped})
        return {
            kind: round(statistics.fmean(run.dropped.get(kind, 0) for run in self.runs), 1)
            for kind in kinds
        }

    def as_json(self) -> dict[str, object]:
        """The raw numbers."""
        return {
            "mean": round(self.mean, 3),
            "sd": round(self.sd, 3),
            "ahead_of_published_fgd": None if self.ahead is None else round(self.ahead, 3),
            "ms_per_decision": round(self.wall_ms, 4),
            "cpu_ms_per_decision": round(statistics.fmean(r.cpu_ms for r in self.runs), 4),
            "dropped": self.dropped,
            "runs": {str(run.seed): round(run.allocated, 3) for run in self.runs},
        }


def by_trace(runs: Sequence[Run]) -> list[Trace]:
    """Runs gathered by trace, in the order in which traces came."""
    names = dict.fromkeys(run.trace for run in runs)
    return [Trace(name, tuple(run for run in runs if run.trace == name)) for name in names]


def summary(traces: Sequence[Trace]) -> dict[str, object]:
    """Means over the traces; of deviations and times the worst trace's."""
    ahead = [trace.ahead for trace in traces if trace.ahead is not None]
    return {
        "packing_mean": round(statistics.fmean(trace.mean for trace in traces), 3),
        "packing_sd": round(max(trace.sd for trace in traces), 3),
        "ms_per_decision": round(max(trace.wall_ms for trace in traces), 4),
        "ahead_least": round(min(ahead), 3) if ahead else None,
        "traces": {trace.name: trace.as_json() for trace in traces},
    }


def table(traces: Sequence[Trace], *, name: str) -> str:
    """The result beside the published one, as a Markdown table in %."""
    heads = ("trace", *POLICIES, name, "ahead of FGD", "ms a decision")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for trace in traces:
        published = [f"{value:.2f}" for value in trace.published]
        cells = [
            trace.name,
            *(published or ["-"] * len(POLICIES)),
            f"{trace.mean:.2f} ± {trace.sd:.2f}",
            "-" if trace.ahead is None else f"{trace.ahead:+.2f}",
            f"{trace.wall_ms:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def drops(traces: Sequence[Trace]) -> str:
    """Tasks dropped for want of room by GPUs asked for, as a Markdown table."""
    kinds = sorted({kind for trace in traces for kind in trace.dropped})
    lines = [f"| trace | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for trace in traces:
        cells = [f"{trace.dropped.get(kind, 0.0):.1f}" for kind in kinds]
        lines.append(f"| {trace.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: dict[str, list[Trace]], seeds: str) -> str:
    """The section for people: what was run, on what, and what came out."""
    parts = [
        "# Packing\n",
        "Written by `make bench-packing NODES=… PODS=… SEEDS=…`; do not edit.\n",
        f"Protocol of USENIX ATC 2023 (`benchmarks/packing.py`), seeds {seeds}: requests of "
        "130 % of the fleet, allocated GPU share in %, mean ± standard deviation over the seeds, "
        "beside the published means.\n",
        f"Python {platform.python_version()}, {platform.machine()}, one core of "
        f"{os.cpu_count()}, load {os.getloadavg()[0]:.1f}. Times are wall-clock times of choosing "
        "and taking, with what is learnt of the mix included.\n",
    ]
    others = [trace.name for trace in next(iter(found.values())) if not trace.published]
    if others:
        parts += [f"Not a published trace on its fleet, so beside nothing: {', '.join(others)}.\n"]
    for name, traces in found.items():
        parts += [f"## {name[0].upper()}{name[1:]}\n", table(traces, name=name) + "\n"]
        parts += ["Dropped for want of room, tasks a run, by GPUs asked for:\n"]
        parts += [drops(traces) + "\n"]
    return "\n".join(parts)


def _seeds(text: str) -> str:
    """The text, once it is known to name seeds."""
    try:
        seeds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.packing", description="The packing comparison of USENIX ATC 2023."
    )
    parser.add_argument("--nodes", type=Path, required=True, help="CSV of hosts")
    parser.add_argument("--pods", type=Path, nargs="+", required=True, help="CSVs of tasks")
    parser.add_argument("--seeds", default="42-51", type=_seeds, help="such as 42-51 or 1,2,5-7")
    parser.add_argument("--beside", action="store_true", help="run the other scores as well")
    parser.add_argument("--write", type=Path, help="write the tables to this file as well")
    return parser.parse_args(given)


def measured(args: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, list[Trace]]:
    """All runs asked for, by the name of what was run; sides take turns on each sequence."""
    hosts = read_nodes(args.nodes)
    names = [trace_of(path) for path in args.pods]
    for path, name in zip(args.pods, names, strict=True):
        if names.count(name) > 1:
            raise TraceError(path, f"another file is of the trace {name} as well; rename one")
    sides = (OURS, *BESIDE) if args.beside else (OURS,)
    runs: dict[str, list[Run]] = {side.name: [] for side in sides}
    for path in args.pods:
        pods = read_pods(path)
        trace = trace_of(path)
        for seed in seeds_of(args.seeds):
            for side in sides:
                one = run(hosts, pods, trace=trace, seed=seed, side=side)
                runs[side.name].append(one)
                tell(
                    f"{trace} seed {seed}, {side.name}: {one.allocated:.3f} % "
                    f"({one.tasks} tasks, {one.wall_ms:.3f} ms a decision)"
                )
    return {name: by_trace(own) for name, own in runs.items()}


def main(given: Sequence[str] | None = None) -> int:
    """Run, print the tables and the JSON line; of a trace that cannot be used, why (exit 2)."""
    args = arguments(given)
    try:
        found = measured(args, lambda line: print(line, file=sys.stderr, flush=True))
    except TraceError as error:
        print(error, file=sys.stderr)
        print(json.dumps(error.as_json()))
        return 2
    text = page(found, args.seeds)
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    print(text)
    beside = {name: summary(traces) for name, traces in found.items() if name != OURS.name}
    print(json.dumps({**summary(found[OURS.name]), "seeds": args.seeds, "beside": beside}))
    return 0


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in ALONE.items()):
        # The maths library reads these when it is loaded, which has already happened.
        command = [sys.executable, "-m", "benchmarks.packing", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | ALONE)
    raise SystemExit(main())
