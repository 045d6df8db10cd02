"""How does OpenStack Placement run beside us?  Same PostgreSQL, same server, from its own docs.

Set up as its installation guide says: a database, ``placement-manage db sync``, the WSGI
application ``placement.wsgi.api``. Nodes are resource providers with an inventory of 8 units,
put into its tables set-based as ours are; searches and claims go over its HTTP API.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.cluster import Cluster
from benchmarks.http import THREADS, WORKERS
from benchmarks.peers import clean_environment, placement_python
from gpuaas.embedded import processes

DATABASE = ROLE = "placement"
UNITS = 8
CLASS = "VGPU"
VERSION = "placement 1.36"
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": VERSION}


@dataclass
class Placement:
    """A running service with its database."""

    url: str
    rows: psycopg.Connection[tuple[Any, ...]]

    def load(self, nodes: int) -> None:
        """So many empty nodes, and nothing else."""
        self.rows.execute(
            "TRUNCATE allocations, consumers, inventories, resource_providers RESTART IDENTITY "
            "CASCADE"
        )
        self.rows.execute(
            "INSERT INTO resource_providers (uuid, name, generation, root_provider_id) "
            "SELECT gen_random_uuid()::text, 'node-' || g, 1, g FROM generate_series(1, %s) AS g",
            [nodes],
        )
        self.rows.execute(
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, "
            "min_unit, max_unit, step_size, allocation_ratio) "
            "SELECT p.id, c.id, %s, 0, 1, %s, 1, 1.0 "
            "FROM resource_providers p, resource_classes c WHERE c.name = %s",
            [UNITS, UNITS, CLASS],
        )
        if nodes > 1:
            self.rows.execute("VACUUM ANALYZE")

    def most_used(self) -> int:
        """Units of the fullest node, as its own table has them."""
        row = self.rows.execute(
            "SELECT coalesce(max(used), 0) FROM (SELECT sum(used) AS used FROM allocations "
            "GROUP BY resource_provider_id) AS nodes"
        ).fetchone()
        return int(row[0]) if row else 0


@contextlib.contextmanager
def served(cluster: Cluster) -> Iterator[Placement]:
    """Placement on the benchmark's PostgreSQL. Raises PeerAbsent when it cannot be had."""
    python = placement_python()
    password = secrets.token_hex(16)
    with cluster.superuser("postgres") as admin:
        admin.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{password}'")
        admin.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
    folder = cluster.folder / "placement"
    folder.mkdir(mode=0o700)
    address = f"127.0.0.1:{cluster.postgres.port}/{DATABASE}"
    (folder / "placement.conf").write_text(
        "[DEFAULT]\ndefault_log_levels = placement=WARNING\n"
        "[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = postgresql+psycopg2://{ROLE}:{password}@{address}\n"
        f"max_pool_size = {THREADS}\n",
        encoding="utf-8",
    )
    env = clean_environment() | {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
    manage = python.with_name("placement-manage")
    subprocess.run(
        [manage, "--config-dir", folder, "db", "sync"], env=env, cwd=folder, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120.0,
    )  # fmt: skip
    port = processes.free_port()
    command = [str(python), "-m", "granian", "--interface", "wsgi", "--no-ws"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", str(WORKERS)]
    command += ["--blocking-threads", str(THREADS), "--log-level", "error"]
    server = processes.spawn(
        [*command, "placement.wsgi.api:application"],
        log=cluster.folder / "log" / "placement.log",
        env=env,
        cwd=folder,
    )
    try:
        if not processes.wait_until(
            lambda: not processes.port_is_free(port) or server.poll() is not None, 60.0
        ):
            raise RuntimeError("Placement did not start to answer")
        with cluster.superuser(DATABASE) as rows:
            yield Placement(f"http://127.0.0.1:{port}", rows)
    finally:
        server.terminate()
        server.wait(20.0)
