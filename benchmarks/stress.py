"""Does the platform stay exact under a crowd, and when its processes are killed?

    python -m benchmarks.stress [--seconds 30] [--clients 64] [--hosts 10] [--calm]

64 clients on 10 nodes of 8 slots claim 1, 2, 4, 8 slots and whole nodes until nothing fits, and
give back, while simulated agents complete the work and a real worker drives the runs. Then every
audit is asked, and what clients were told is compared with what is there. Without ``--calm`` the
same again, with the worker and PostgreSQL killed (SIGKILL) in between and started again.

Exit code: 0 nothing found, 3 something was found. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.cluster import Cluster, started
from gpuaas.config import CHECKOUT
from gpuaas.embedded import parts, processes

PROCESSES = 4
GRACE_S = 60.0


def _crowd(cluster: Cluster, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.crowd", *map(str, words)],
        env=cluster.environment(),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )


def _worker(cluster: Cluster) -> parts.Program:
    run = cluster.folder / "run"
    run.mkdir(exist_ok=True)
    return parts.worker(cluster.environment(), run, cluster.folder / "log")


def _kill(pid: int) -> None:
    processes.signal_group(pid, signal.SIGKILL)


def crowd(options: argparse.Namespace, *, kills: bool) -> dict[str, Any]:
    """One run on a fresh cluster: what was told and what the audits found."""
    with started() as cluster:
        cluster.migrate()
        folder = cluster.folder / "crowd"
        folder.mkdir(mode=0o700)
        buyers = folder / "buyers.json"
        built = _crowd(cluster, "build", buyers, "--hosts", options.hosts)
        if built.wait(300.0) != 0:
            raise RuntimeError("the fleet could not be built")
        worker = _worker(cluster)
        worker.launch()
        journals = [folder / f"told-{k}.jsonl" for k in range(PROCESSES)]
        timed = ("--seconds", options.seconds)
        clients = [
            _crowd(
                cluster, "clients", buyers, *timed, "--seed", k + 1,
                "--threads", options.clients // PROCESSES, "--journals", journal,
            )
            for k, journal in enumerate(journals)
        ]  # fmt: skip
        hosts = _crowd(cluster, "hosts", buyers, "--seconds", options.seconds + 1)
        killed = []
        if kills:
            for step in range(2):
                time.sleep(options.seconds / 5)
                _kill(worker.pid)
                killed.append("worker")
                time.sleep(options.seconds / 10)
                assert cluster.postgres.process is not None
                _kill(cluster.postgres.process.pid)
                cluster.postgres.process.wait(10.0)
                killed.append("postgres")
                cluster.postgres.start()
                worker = _worker(cluster)
                worker.launch()
                print(f"killed and started again: {step + 1}", flush=True)
        for process in (*clients, hosts):
            process.wait(options.seconds + GRACE_S)
        checked = _crowd(cluster, "check", buyers, "--journals", *journals)
        told, _ = checked.communicate(timeout=300.0)
        worker.ask_to_stop()
        processes.wait_until(lambda: worker.exit_code() is not None, 15.0)
        worker.kill()
        found: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
        return {"killed": killed, "exit": checked.returncode, **found}


def main() -> int:
    """Run it calm, then with kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--calm", action="store_true", help="without kills")
    options = parser.parse_args()
    results = {}
    for name, kills in (("calm", False), ("killed", True)):
        if kills and options.calm:
            continue
        results[name] = crowd(options, kills=kills)
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    print(json.dumps({name: found["exit"] for name, found in results.items()}), flush=True)
    return 3 if any(found["exit"] for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
