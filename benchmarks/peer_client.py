"""What does one client of another system do?  Orders as JSON lines, answers with times.

Started as ``python -m benchmarks.peer_client``, without Django: a race over HTTP against our own
API goes through here too, so that both sides of a race have the same clients.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks import names, openstack, peers, slurm

Answer = tuple[int, dict[str, Any]]


class Http:
    """A kept connection that speaks JSON."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._to = HTTPConnection(address.hostname or "", address.port, timeout=120.0)

    def call(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Answer:
        """Status and body of one exchange."""
        text = None if body is None else json.dumps(body)
        self._to.request(method, path, text, {"Content-Type": "application/json", **headers})
        answer = self._to.getresponse()
        told = answer.read()
        return answer.status, json.loads(told) if told else {}


def claim_at_placement(ask: dict[str, Any]) -> Callable[[], str | None]:
    """Search candidates, pick one of them, claim it, as Placement's clients do."""
    http = Http(ask["url"])

    def once() -> str | None:
        path = openstack.search(ask["asks"], ask["slots"])
        status, found = http.call("GET", path, openstack.HEADERS)
        if status != 200:
            raise RuntimeError(f"Placement's search answered {status}: {found}")
        if not found["allocation_requests"]:
            return None
        consumer = str(uuid4())
        claim = random.choice(found["allocation_requests"]) | {
            "project_id": "bench", "user_id": "bench", "consumer_generation": None,
            "consumer_type": "BENCH",
        }  # fmt: skip
        headers = openstack.HEADERS | {"OpenStack-API-Version": "placement 1.38"}
        status, told = http.call("PUT", f"/allocations/{consumer}", headers, claim)
        if status == 409:
            return None
        if status != 204:
            raise RuntimeError(f"Placement's claim answered {status}: {told}")
        return consumer

    return once


def claim_at_slurm(ask: dict[str, Any]) -> Callable[[], str | None]:
    """Claim and release by Slurm's own programs."""
    programs = peers.slurm_programs()
    env = peers.clean_environment() | {"SLURM_CONF": ask["conf"]}

    def once() -> str | None:
        job = slurm.claim(programs, env, ask["slots"])
        if job is not None:
            slurm.release(programs, env, job)
        return job

    return once


def claim_here(ask: dict[str, Any]) -> Callable[[], str | None]:
    """A claim over our own API that may be refused."""
    http, numbers = Http(ask["url"]), iter(range(1_000_000_000))
    buyers = [names.Buyer(**entry) for entry in ask["buyers"]]

    def once() -> str | None:
        buyer = random.choice(buyers)
        headers = {"Authorization": f"Bearer {buyer.token}", "Idempotency-Key": str(uuid4())}
        body = {"sku": ask["sku"], "slots": ask["slots"], "name": f"{os.getpid()}-{next(numbers)}"}
        status, told = http.call(
            "POST", f"/api/v1/projects/{buyer.project}/allocations", headers, body
        )
        if status in (201, 202):
            return "claimed"
        if told.get("code") not in ("sku_unavailable", "concurrent_update"):
            raise RuntimeError(f"a claim answered {status}: {told}")
        return None

    return once


WAYS = {"placement": claim_at_placement, "slurm": claim_at_slurm, "here": claim_here}


def run(ask: dict[str, Any], once: Callable[[], str | None]) -> dict[str, Any]:
    """Repeat until the time is over, or, with ``single``, try once at the given moment."""
    times: list[float] = []
    count = refused = 0
    while time.monotonic() < ask["begin"]:
        time.sleep(0.0002)
    end = ask["begin"] + ask["seconds"]
    while (begun := time.monotonic()) < end:
        done = once()
        times.append(time.monotonic() - begun)
        count += done is not None
        refused += done is None
        if ask.get("single"):
            break
    return {"count": count, "refused": refused, "times": times}


def main() -> None:
    """Serve orders until the input ends."""
    ways: dict[str, Callable[[], str | None]] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        key = json.dumps({**ask, "begin": 0, "seconds": 0})
        if key not in ways:
            ways[key] = WAYS[ask["way"]](ask)
        print(json.dumps(run(ask, ways[key])), flush=True)


if __name__ == "__main__":
    main()
