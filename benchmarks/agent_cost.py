"""What does a host's message cost the control plane?  Seconds of a processor, by kind of message.

    python -m benchmarks.agent_cost [--hosts 40] [--messages 640] [--threads 4]

Hosts join through the real agent; then their messages are signed ahead and sent by a few threads,
a kind at a time, each host in turn. What is counted is the processor time of the web workers, of
PostgreSQL with all its processes, and of Valkey, so that a busy machine changes little. Reports say
nothing new; one in eight is taken in full all the same, as the product does. The last line of the
output is one JSON object: milliseconds a message.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import agents, http, sides
from benchmarks.claims import databases
from benchmarks.cluster import Cluster, started
from benchmarks.sides import POOLS
from nodeagent.clock import SystemClock
from nodeagent.identity import AgentHome
from nodeagent.protocol import (
    AGENT_VERSION,
    API_PREFIX,
    HEADER_AGENT_VERSION,
    HEADER_CREDENTIAL,
    HEADER_SEQUENCE,
    HEADER_SIGNATURE,
    HEADER_TIMESTAMP,
    LeaseRequest,
    Message,
    ObservedReport,
    TelemetryReport,
    request_signing_bytes,
)
from nodeagent.signing import sign
from nodeagent.simhost.agent import AGENT_FOLDER
from nodeagent.simhost.backend import SimBackend
from nodeagent.simhost.telemetry import SimTelemetry

FIRST_WINDOW = 1000
Sent = tuple[str, str, bytes, dict[str, str]]
"""Method, path, body and headers."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Host:
    """A simulated host that has joined, and what it would say next."""

    def __init__(self, folder: Path) -> None:
        self.backend = SimBackend(folder, SystemClock())
        self.home = AgentHome(folder / AGENT_FOLDER)
        self.feed = SimTelemetry(self.backend, SystemClock(), window_s=0)
        self.boot = self.backend.boot_id()

    def poll(self) -> tuple[str, str, Message]:
        """Ask for work."""
        can = tuple(sorted(self.backend.capabilities))
        return "POST", "/tasks:lease", LeaseRequest(self.boot, 4, can)

    def report(self) -> tuple[str, str, Message]:
        """Say what is there: the same as before."""
        seen = asyncio.run(self.backend.observe())
        report = ObservedReport(
            boot_id=self.boot,
            seq=self.home.next_report(self.boot),
            at=int(time.time()),
            vms=seen.vms,
            devices=seen.devices,
            conditions=seen.conditions,
            intended_use=seen.intended_use,
            parts=tuple(sorted(self.backend.part_kinds)),
        )
        return "PUT", "/nodes/self/observed", report

    def telemetry(self) -> tuple[str, str, Message]:
        """Say what was measured in a window."""
        queue = self.feed.windows()
        [window] = queue.waiting()
        queue.taken(window.seq, 0)
        # Above what the agent itself has said of this boot.
        window = replace(window, seq=window.seq + FIRST_WINDOW)
        return "POST", "/nodes/self/telemetry", TelemetryReport(self.boot, (window,))

    def signed(self, method: str, path: str, message: Message) -> Sent:
        """The message as it goes over the wire."""
        identity = self.home.identity
        if identity is None:
            raise RuntimeError(f"{self.backend.hostname} has not joined")
        path = API_PREFIX + path
        body = json.dumps(message.to_json(), separators=(",", ":")).encode()
        sequence, now = self.home.next_sequence(), int(time.time())
        return method, path, body, {
            "Content-Type": "application/json",
            HEADER_AGENT_VERSION: AGENT_VERSION,
            HEADER_CREDENTIAL: identity.credential_id,
            HEADER_SEQUENCE: str(sequence),
            HEADER_TIMESTAMP: str(now),
            HEADER_SIGNATURE: sign(
                self.home.key,
                request_signing_bytes(method, path, sequence, now, body, AGENT_VERSION),
            ),
        }  # fmt: skip


def spent_s(root: int) -> float:
    """Processor seconds of a process and all that it started, so far; of the ended ones, too."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:15])) * TICK_S
    total, pending = 0.0, [root]
    while pending:
        pid = pending.pop()
        total += used.get(pid, 0.0)
        pending += [child for child, parent in parents.items() if parent == pid]
    return total


@dataclass
class Parts:
    """The processes that are counted."""

    roots: dict[str, int]

    def spent(self) -> dict[str, float]:
        """Processor seconds of each part so far."""
        return {name: spent_s(pid) for name, pid in self.roots.items()}


def send_all(url: str, messages: list[list[Sent]]) -> None:
    """Each list in a thread, one after the other. Raises RuntimeError at an answer but 200."""
    wrong: list[str] = []

    def send(own: list[Sent]) -> None:
        address = urlsplit(url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
        for method, path, body, headers in own:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200:
                wrong.append(f"{answer.status} {said[:300]!r}")
        connection.close()

    threads = [threading.Thread(target=send, args=(own,)) for own in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise RuntimeError(f"{len(wrong)} refused: {wrong[0]}")


def cost(
    url: str,
    parts: Parts,
    hosts: list[Host],
    say: Callable[[Host], tuple[str, str, Message]],
    *,
    messages: int,
    threads: int,
) -> dict[str, float]:
    """Milliseconds of a processor a message, by part; and of the wall."""
    shared = [hosts[i::threads] for i in range(threads)]
    rounds = max(1, messages // len(hosts))
    ready = [[h.signed(*say(h)) for _ in range(rounds) for h in own] for own in shared]
    before, begun = parts.spent(), time.monotonic()
    send_all(url, ready)
    wall, after = time.monotonic() - begun, parts.spent()
    count = sum(map(len, ready))
    found = {name: round((after[name] - before[name]) / count * 1000, 2) for name in before}
    return {"all": round(sum(found.values()), 2), **found, "wall": round(wall / count * 1000, 2)}


def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The cost of each kind, on a cluster of its own."""
    with contextlib.ExitStack() as stack:
        cluster: Cluster = stack.enter_context(started())
        kept = cluster.folder / "buyers.json"
        [database] = databases(cluster, [0], kept).values()
        bench = stack.enter_context(sides.bench(cluster, database, kept))
        bench.load(POOLS[1], 200, 0.0)
        env = cluster.environment(database)
        server = stack.enter_context(http.server(http.PRODUCT, env, "/readyz"))
        with agents.fleet(bench, env, server.url, options.hosts):
            time.sleep(5.0)
        folders = sorted((cluster.folder / "fleet" / "hosts").iterdir())
        hosts = [Host(folder) for folder in folders if (folder / AGENT_FOLDER).is_dir()]
        processes = (cluster.postgres.process, cluster.valkey.process)
        pids = [server.pid, *(None if one is None else one.pid for one in processes)]
        names = ("web", "postgres", "valkey")
        parts = Parts({name: pid for name, pid in zip(names, pids, strict=True) if pid})
        found: dict[str, dict[str, float]] = {}
        kinds = {"poll": Host.poll, "report": Host.report, "telemetry": Host.telemetry}
        how = {"threads": options.threads}
        for name in options.only:
            cost(server.url, parts, hosts, kinds[name], messages=len(hosts) * 2, **how)
            found[name] = cost(
                server.url, parts, hosts, kinds[name], messages=options.messages, **how
            )
            print(name, found[name], flush=True)
        return found


def main() -> int:
    """Measure, and print the figures as the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--messages", type=int, default=640)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument(
        "--only", default="poll,report,telemetry", type=lambda text: text.split(",")
    )
    print(json.dumps(measure(parser.parse_args())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
