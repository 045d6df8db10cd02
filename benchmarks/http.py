"""What does a claim over HTTP cost beside the framework's floor?  P5."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import drf_floor_table, names
from benchmarks.measure import Pairs, interleaved, quantile
from benchmarks.sides import CLIENTS, POOLS, SLOTS, Bench
from gpuaas.config import CHECKOUT
from gpuaas.embedded import parts, processes

WORKERS, THREADS = 2, 16


@contextlib.contextmanager
def _served(target: str, env: Mapping[str, str], path: str) -> Iterator[str]:
    """A granian with two workers, the same for both sides; the address it answers at."""
    port = processes.free_port()
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", str(WORKERS)]
    command += ["--blocking-threads", str(THREADS), "--log-level", "error", target]
    server = subprocess.Popen(command, env=dict(env), cwd=CHECKOUT, stdout=subprocess.DEVNULL)
    try:
        if not processes.wait_until(
            lambda: parts.answers("127.0.0.1", port, path) or server.poll() is not None, 60.0
        ):
            raise RuntimeError(f"{target} did not start to answer")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20.0)


def over_http(b: Bench, *, nodes: int, pairs: int, seconds: float) -> Pairs:
    """Claims a second over HTTP ÷ rows a second inserted through DRF on the same server."""
    b.rows.execute("SELECT bench.reset()")
    b.rows.execute(drf_floor_table.CREATE)
    b.rows.execute(f"GRANT ALL ON {drf_floor_table.TABLE} TO gpuaas_platform")
    b.load(POOLS[0], nodes, 0.10)
    b.settle()
    env = b.cluster.environment(b.database)
    group = b.clients()
    ask: dict[str, Any] = {"sku": names.slices(POOLS[0]), "slots": SLOTS}
    times: dict[str, list[float]] = {"http": [], "insert": []}
    try:
        with (
            _served("gpuaas.wsgi:application", env, "/readyz") as product,
            _served("benchmarks.drf_floor:application", env, "/ready") as floor,
        ):

            def side(way: str, url: str) -> float:
                outcome = group.act(way, seconds=seconds, url=url, **ask)
                times[way] += outcome.times
                return outcome.per_s

            result = interleaved(
                lambda: side("http", product),
                lambda: side("insert", floor),
                pairs=pairs,
                unit="requests/s",
            )
    finally:
        group.close()
    for way, seen in times.items():
        result.facts[f"{way}_p50_ms"] = round(quantile(seen, 0.5) * 1000, 2)
        result.facts[f"{way}_p99_ms"] = round(quantile(seen, 0.99) * 1000, 2)
    result.facts.update(nodes=nodes, clients=CLIENTS, workers=WORKERS)
    return result
