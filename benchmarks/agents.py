"""Do tenants feel a large fleet's agents, and does the fleet come back after an outage?  P9.

    python -m benchmarks.agents [--agents 1000] [--quick] [--write] [--only p9,herd]

Simulated hosts run the real agent (signed requests, its own journal and pauses) in one process
over real HTTP; a tenant sends 10 requests a second. "Without" is the same fleet, stopped in
between. The fleet's process has a low priority, since its CPU is not the control plane's. Then
the web server is stopped for a minute and started: how long until every host was seen, and what
the tenant feels meanwhile. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import http, machine, names, report, sides, tenant_load
from benchmarks.claims import Run, databases
from benchmarks.cluster import Cluster, started
from benchmarks.measure import interleaved, quantile
from benchmarks.sides import POOLS, Bench
from gpuaas.config import CHECKOUT
from gpuaas.embedded import processes

KEYS = ("p9", "p9_with_ms", "p9_without_ms", "herd_s", "herd_p99_ms", "herd_failed")
RATE = 10.0
REPORT_S = 15.0
OUTAGE_S = 60.0
NICE = 15
GOALS = {
    "p9": ("P9 tenant's p99 with 1 000 agents ÷ without", "≤ 2"),
    "p9_with_ms": ("tenant's p99 with agents, ms", "reported"),
    "p9_without_ms": ("tenant's p99 without agents, ms", "reported"),
    "herd_s": ("after a minute's outage: seconds until every agent has reported", "≤ 60"),
    "herd_p99_ms": ("tenant's p99 in the minute after, ms", "reported"),
    "herd_failed": ("tenant's requests of that minute without a good answer", "0"),
}


@dataclass
class Fleet:
    """The simulated hosts of one process."""

    process: subprocess.Popen[bytes]
    bench: Bench
    count: int

    def seen(self, within_s: float) -> int:
        """How many hosts have reported in the last so many seconds, by the database's clock.

        A poll says that a host is alive; only its report says that it is well.
        """
        row = self.bench.rows.execute(
            "SELECT count(*) FROM placement_node WHERE name LIKE 'agent-%%' AND observed_at > "
            "clock_timestamp() - make_interval(secs => %s)",
            [within_s],
        ).fetchone()
        return int(row[0]) if row else 0

    def until_seen(self, since: float, patience_s: float) -> float | None:
        """Seconds since a moment until every host was heard after it; None when it was too long."""
        while (waited := time.monotonic() - since) < patience_s:
            if self.seen(waited) >= self.count:
                return waited
            time.sleep(0.25)
        return None

    def pause(self) -> None:
        """Stand still, as if there were no agents."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self, settle_s: float) -> None:
        """Poll again, and let those that came at once find their own times."""
        os.killpg(self.process.pid, signal.SIGCONT)
        time.sleep(settle_s)


@contextlib.contextmanager
def fleet(bench: Bench, env: dict[str, str], url: str, count: int) -> Iterator[Fleet]:
    """So many hosts, joined and reporting. Raises RuntimeError when they do not all come."""
    folder = bench.cluster.folder / "fleet"
    folder.mkdir(mode=0o700)
    subprocess.run(
        [sys.executable, "-m", "benchmarks.agents_world", str(count), POOLS[0], str(folder)],
        env=env,
        cwd=CHECKOUT,
        check=True,
    )
    command = ["nice", "-n", str(NICE), sys.executable, "-m", "nodeagent.simfleet"]
    command += ["--server", url, "--data", str(folder / "hosts"), "--log-level", "ERROR"]
    command += ["--spec", str(folder / "hosts.json")]
    log = bench.cluster.folder / "log" / "fleet.log"
    process = processes.spawn(command, log=log, env=env, cwd=CHECKOUT)
    begun = time.monotonic()
    try:
        here = Fleet(process, bench, count)
        joined = here.until_seen(begun, 240.0)
        if joined is None:
            raise RuntimeError(f"{here.seen(240.0)} of {count} agents joined in 240 s")
        print(f"{count} agents joined in {joined:.0f} s", flush=True)
        yield here
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)
            processes.end_group(process.pid, first=signal.SIGTERM, grace_s=10.0)


def p9(run: Run, here: Fleet, url: str, buyer: names.Buyer, seconds: float, settle: float) -> None:
    """The tenant's p99 with agents ÷ without."""
    felt: dict[str, list[float]] = {"with": [], "without": []}
    failed = 0

    def side(name: str) -> float:
        nonlocal failed
        if name == "with":
            here.go_on(settle)
        else:
            here.pause()
            time.sleep(min(settle, 1.0))
        sku = names.slices(POOLS[1])
        found = tenant_load.steady(url, buyer, rate=RATE, seconds=seconds, sku=sku)
        felt[name] += found.times
        failed += found.failed
        p99 = quantile(found.times, 0.99) * 1000
        heard = here.seen(REPORT_S * 1.5)
        print(f"  {name} agents: p99 {p99:.1f} ms, {heard} agents heard of", flush=True)
        return p99

    pairs = interleaved(
        lambda: side("with"), lambda: side("without"), pairs=run.pairs, unit="ms p99"
    )
    here.go_on(settle)
    pairs.facts.update(agents=here.count, rate=RATE, failed=failed)
    for name, times in felt.items():
        pairs.facts[f"{name}_p50_ms"] = round(quantile(times, 0.5) * 1000, 2)
        run.summary[f"p9_{name}_ms"] = round(quantile(times, 0.99) * 1000, 1)
    run.keep(f"p9 tenant's p99, with ÷ without {here.count} agents", pairs, "p9")


def herd(run: Run, here: Fleet, server: http.Server, buyer: names.Buyer, outage_s: float) -> None:
    """Stop the web, wait, start it: when was everyone seen, and what did the tenant feel?"""
    server.stop()
    print(f"the web server is stopped for {outage_s:.0f} s", flush=True)
    time.sleep(outage_s)
    server.start()
    back = time.monotonic()
    with ThreadPoolExecutor(1) as watching:
        seen = watching.submit(here.until_seen, back, 180.0)
        felt = tenant_load.steady(server.url, buyer, rate=RATE, seconds=min(outage_s, 60.0))
        everyone = seen.result()
    run.summary |= {
        "herd_s": None if everyone is None else round(everyone, 1),
        "herd_p99_ms": round(quantile(felt.times, 0.99) * 1000, 1),
        "herd_failed": felt.failed,
    }
    run.results["herd"] = {
        "agents": here.count,
        "outage_s": outage_s,
        "p50_ms": round(quantile(felt.times, 0.5) * 1000, 1),
        **{key: run.summary[key] for key in ("herd_s", "herd_p99_ms", "herd_failed")},
    }
    print(f"herd: {json.dumps(run.results['herd'])}", flush=True)


def measure(run: Run) -> None:
    """Everything that was asked for, on one cluster."""
    options = run.options
    count = 30 if options.quick else options.agents
    seconds, settle = (1.0, 0.5) if options.quick else (options.seconds, REPORT_S * 1.4)
    with contextlib.ExitStack() as stack:
        cluster: Cluster = stack.enter_context(started())
        run.results["machine"] = machine.described(cluster.folder)
        print(f"machine: {json.dumps(run.results['machine'])}", flush=True)
        kept = cluster.folder / "buyers.json"
        [database] = databases(cluster, [0], kept).values()
        bench = stack.enter_context(sides.bench(cluster, database, kept))
        bench.load(POOLS[1], 200, 0.0)
        buyer = names.read(Path(kept))[0]
        env = cluster.environment(database)
        server = stack.enter_context(http.server(http.PRODUCT, env, "/readyz"))
        here = stack.enter_context(fleet(bench, env, server.url, count))
        if "p9" in options.only:
            run.part("p9", lambda: p9(run, here, server.url, buyer, seconds, settle))
        if "herd" in options.only:
            outage = 3.0 if options.quick else OUTAGE_S
            run.part("herd", lambda: herd(run, here, server, buyer, outage))


def write(run: Run) -> None:
    """This command's part of the page."""
    lines = [
        "## A thousand agents",
        "",
        "Written by `make bench-agents ARGS=--write`. Simulated hosts with the real agent, signed",
        "requests over HTTP, all in one process of low priority; a tenant sends 10 requests a",
        "second (four lists to one claim), timed from when they were due.",
        "",
        report.machine_told(run.results["machine"]),
        "",
        *report.goals_told(GOALS, run.summary),
    ]
    lines += ["", *report.comparisons(run.results)]
    report.section("agents", lines)


def main() -> int:
    """Measure, keep the raw numbers, and print the summary as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--quick", action="store_true", help="30 agents, short")
    parser.add_argument("--only", default="p9,herd", type=lambda text: text.split(","))
    parser.add_argument("--write", action="store_true", help="also write docs/benchmarks.md")
    run = Run(parser.parse_args(), keys=KEYS)
    measure(run)
    if not run.options.quick:
        report.keep("agents", run.results | {"summary": run.summary})
    if run.options.write:
        write(run)
    print(json.dumps(run.summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
