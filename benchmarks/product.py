"""How much memory does the running product take, and how soon is it up?  P7, P8."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import names, sides
from gpuaas.config import CHECKOUT
from gpuaas.embedded import parts, processes
from gpuaas.embedded.postgres import SUPERUSER, Postgres, Roles
from gpuaas.embedded.state import Folders

REST_S = 8.0
"""How long the timers may run over a fleet before its memory is read."""


@dataclass(frozen=True)
class Product:
    """The product as ``make up`` runs it, in a folder of its own."""

    folders: Folders
    process: subprocess.Popen[bytes]
    port: int
    seconds: float
    """From the command to the first healthy answer."""

    def facts(self) -> dict[str, Any]:
        """What the runner says of its parts."""
        known: dict[str, Any] = json.loads((self.folders.run / "runner.json").read_text("utf-8"))
        return known

    def pss_mb(self) -> float:
        """Proportional memory of web (both workers) and the worker with its timer, in MiB."""
        roots = [self.facts()["parts"][name]["pid"] for name in ("web", "worker")]
        return sum(_pss_kb(pid) for pid in _with_children(roots)) / 1024

    def superuser(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection to its database, for loading rows."""
        services = json.loads(self.folders.services.read_text("utf-8"))
        port = int(services["database_url"].rpartition(":")[2].partition("/")[0])
        postgres = Postgres(
            self.folders.root,
            port=port,
            roles=Roles.kept_in(self.folders.secrets),
            log=self.folders.log / "postgres.log",
        )
        return psycopg.connect(postgres.url(SUPERUSER), autocommit=True)


def _with_children(roots: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text("utf-8").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(roots)
    for pid in found:
        found += children.get(pid, [])
    return found


def _pss_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@contextlib.contextmanager
def up(root: Path) -> Iterator[Product]:
    """Start it, wait until it is healthy, and stop it at the end."""
    folders = Folders(root)
    port = processes.free_port()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUAAS_", "PG"))}
    env = {k: v for k, v in env.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    env |= {"GPUAAS_DATA_DIR": str(root), "GPUAAS_WEB_PORT": str(port), "PYTHONPATH": str(CHECKOUT)}
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuaas.embedded", "up"],
        env=env,
        cwd=CHECKOUT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        healthy = processes.wait_until(
            lambda: parts.answers("127.0.0.1", port, "/readyz", 0.5) or process.poll() is not None,
            180.0,
            every_s=0.02,
        )
        if not healthy or process.poll() is not None:
            raise RuntimeError("the product did not become healthy")
        yield Product(folders, process, port, time.monotonic() - begun)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60.0)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpuaas-bench-up-") as name:
        root = Path(name)
        root.chmod(0o755 if os.geteuid() == 0 else 0o700)
        try:
            yield root
        finally:
            env = os.environ | {"GPUAAS_DATA_DIR": str(root), "PYTHONPATH": str(CHECKOUT)}
            subprocess.run(
                [sys.executable, "-m", "gpuaas.embedded", "remove"],
                env=env,
                cwd=CHECKOUT,
                stdout=subprocess.DEVNULL,
                check=False,
            )


def _busy(product: Product, times: int = 200) -> None:
    """Let both web workers load what the first requests load."""
    for _ in range(times):
        parts.answers("127.0.0.1", product.port, "/readyz")
        parts.answers("127.0.0.1", product.port, "/sign-in/")


def measured(fleets: tuple[int, int], *, starts: int = 5) -> dict[str, Any]:
    """Memory at two fleet sizes, the first start, and the median of some warm ones."""
    warm: list[float] = []
    memory: dict[int, float] = {}
    with _folder() as root:
        with up(root) as product:
            first = product.seconds
        for _ in range(starts):
            with up(root) as product:
                warm.append(product.seconds)
        with up(root) as product, product.superuser() as rows:
            sides.prepare(rows)
            _catalogue(rows)
            loaded = 0
            for nodes in sorted(fleets):
                rows.execute(
                    "SELECT bench.load(%s, %s, %s, %s, 0, 0)",
                    ["bench", names.FAMILY, "none", nodes - loaded],
                )
                loaded = nodes
                _busy(product)
                time.sleep(REST_S)
                memory[nodes] = round(product.pss_mb(), 1)
    return {
        "pss_mb": memory,
        "first_start_s": round(first, 2),
        "warm_start_s": [round(value, 2) for value in warm],
    }


def _catalogue(rows: psycopg.Connection[tuple[Any, ...]]) -> None:
    """A pool and a family to put nodes into; nothing is sold."""
    rows.execute(
        "INSERT INTO placement_pool (id, name, title) VALUES (gen_random_uuid(), 'bench', '')"
    )
    rows.execute(
        "INSERT INTO placement_nodefamily (id, name, title, gpu_model, slots) "
        "VALUES (gen_random_uuid(), %s, '', '', 8)",
        [names.FAMILY],
    )
    rows.execute(
        "CREATE TABLE bench.holder (i int, tenant_id uuid, project_id uuid, class_id uuid, "
        "tier_id uuid)"
    )
