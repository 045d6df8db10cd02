"""How does OpenStack Placement run beside us?  Same PostgreSQL, same server, from its own docs.

Set up as its installation guide says: a database, ``placement-manage db sync``, the WSGI
application ``placement.wsgi.api``. Nodes are resource providers of 8 slots, put into its tables
set-based as ours are; searches and claims go over its HTTP API.

It is asked in three ways. ``FULL`` asks for what our claim decides, in the form of its own load
test (gate/perfload-runner.sh in its repository): a slot's GPU, CPUs, memory and disk, in an
aggregate (our pool), with a trait (our family), for as many candidates as Nova asks for by default.
``ALL`` is the same without a limit, as the API answers by itself. ``LEAN`` is the least that it can
be asked: one inventory, 20 candidates.
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
SLOT = {CLASS: 1, "VCPU": 24, "MEMORY_MB": 250_000, "DISK_GB": 3_500}
"""What a slot is: an eighth of a usual host of eight GPUs."""
POOL, FAMILY = "8d0b3f7c-52f1-4e35-9a8c-6f0e6c3b3a11", "CUSTOM_H100"
FULL, ALL, LEAN = "full", "all", "lean"
FULL_LIMIT, LEAN_LIMIT = 1_000, 20
"""Candidates asked for; Nova's default is [scheduler] max_placement_results = 1000."""
VERSION = "placement 1.36"
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": VERSION}


def search(way: str, slots: int) -> str:
    """The path that finds candidates for so many slots of a node."""
    if way == LEAN:
        return f"/allocation_candidates?resources={CLASS}:{slots}&limit={LEAN_LIMIT}"
    amounts = ",".join(f"{name}:{of_one * slots}" for name, of_one in SLOT.items())
    asked = f"resources={amounts}&member_of={POOL}&required={FAMILY}"
    limit = f"&limit={FULL_LIMIT}" if way == FULL else ""
    return f"/allocation_candidates?{asked}{limit}"


@dataclass
class Placement:
    """A running service with its database."""

    url: str
    rows: psycopg.Connection[tuple[Any, ...]]

    def load(self, nodes: int, way: str = LEAN) -> None:
        """So many empty nodes, and nothing else, as a way of asking needs them."""
        self.rows.execute(
            "TRUNCATE allocations, consumers, inventories, resource_provider_traits, "
            "resource_provider_aggregates, placement_aggregates, resource_providers "
            "RESTART IDENTITY CASCADE"
        )
        self.rows.execute(
            "INSERT INTO resource_providers (uuid, name, generation, root_provider_id) "
            "SELECT gen_random_uuid()::text, 'node-' || g, 1, g FROM generate_series(1, %s) AS g",
            [nodes],
        )
        classes = {CLASS: 1} if way == LEAN else SLOT
        self.rows.execute(
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, "
            "min_unit, max_unit, step_size, allocation_ratio) "
            "SELECT p.id, c.id, v.total, 0, 1, v.total, 1, 1.0 FROM resource_providers p, "
            "unnest(%s::text[], %s::int[]) AS v(name, total) JOIN resource_classes c USING (name)",
            [list(classes), [of_one * UNITS for of_one in classes.values()]],
        )
        if way != LEAN:
            self._in_one_pool()
        if nodes > 1:
            self.rows.execute("VACUUM ANALYZE")

    def _in_one_pool(self) -> None:
        """Every node in one aggregate, with one trait."""
        self.rows.execute(
            "INSERT INTO traits (name) VALUES (%s) ON CONFLICT (name) DO NOTHING", [FAMILY]
        )
        self.rows.execute("INSERT INTO placement_aggregates (uuid) VALUES (%s)", [POOL])
        self.rows.execute(
            "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) "
            "SELECT p.id, t.id FROM resource_providers p, traits t WHERE t.name = %s",
            [FAMILY],
        )
        self.rows.execute(
            "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) "
            "SELECT p.id, a.id FROM resource_providers p, placement_aggregates a"
        )

    def most_used(self) -> int:
        """Units of the fullest node, as its own table has them."""
        row = self.rows.execute(
            "SELECT coalesce(max(used), 0) FROM (SELECT sum(a.used) AS used FROM allocations a "
            "JOIN resource_classes c ON c.id = a.resource_class_id AND c.name = %s "
            "GROUP BY a.resource_provider_id) AS nodes",
            [CLASS],
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
