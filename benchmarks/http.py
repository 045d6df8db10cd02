"""What does a claim over HTTP cost beside the framework's floor?  P5."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import drf_floor_table, names
from benchmarks.measure import Pairs, interleaved, quantile
from benchmarks.sides import CLIENTS, POOLS, SLOTS, Bench
from gpuaas.config import CHECKOUT
from gpuaas.embedded import parts, processes

WORKERS, THREADS = 2, 16
PRODUCT = "gpuaas.wsgi:application"
"""Served by the product's own program, as everywhere; other applications by granian's."""


class Server:
    """A granian with two workers, the same for both sides, that can be stopped and started."""

    def __init__(self, target: str, env: Mapping[str, str], path: str) -> None:
        self.target, self.env, self.path = target, dict(env), path
        self.port = processes.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers. Raises RuntimeError."""
        command = [sys.executable, "-m"]
        if self.target == PRODUCT:
            command += ["gpuaas.wsgi_server", "--threads", str(THREADS)]
        else:
            command += ["granian", "--interface", "wsgi", "--no-ws"]
            command += ["--blocking-threads", str(THREADS), self.target]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--workers", str(WORKERS)]
        command += ["--log-level", "error"]
        log = Path(self.env["GPUAAS_DATA_DIR"]) / "log" / f"{self.target.partition(':')[0]}.log"
        process = self._process = processes.spawn(command, log=log, env=self.env, cwd=CHECKOUT)
        if not processes.wait_until(
            lambda: parts.answers("127.0.0.1", self.port, self.path) or process.poll() is not None,
            60.0,
        ):
            raise RuntimeError(f"{self.target} did not start to answer")

    @property
    def pid(self) -> int | None:
        """The process that the workers belong to, while it runs."""
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """Stop it; nothing when it does not run."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20.0)
            self._process = None


@contextlib.contextmanager
def server(target: str, env: Mapping[str, str], path: str) -> Iterator[Server]:
    """A running server."""
    one = Server(target, env, path)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@contextlib.contextmanager
def served(target: str, env: Mapping[str, str], path: str) -> Iterator[str]:
    """A running server's address."""
    with server(target, env, path) as one:
        yield one.url


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
            served(PRODUCT, env, "/readyz") as product,
            served("benchmarks.drf_floor:application", env, "/ready") as floor,
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
