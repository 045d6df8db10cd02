"""What does one client process do?  It takes orders as JSON lines and answers with times.

Started as ``python -m benchmarks.client``: one process is one client with one database
connection, so that the interpreter's lock of one never slows another.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import django
import psycopg

django.setup()

from django.db import connection, transaction  # noqa: E402  # the settings come first

from benchmarks import names  # noqa: E402
from benchmarks.world import actor_of  # noqa: E402
from gpuaas.kernel import workflow  # noqa: E402
from gpuaas.kernel.errors import ProductError  # noqa: E402
from placement.domain.order import AllocationOrder  # noqa: E402
from placement.models import NodeFamily, Pool  # noqa: E402
from placement.services import allocations, engine, requests  # noqa: E402
from placement.services.bundle import Item, capacity_gate  # noqa: E402
from placement.services.queue import BATCH, cycle_run  # noqa: E402
from placement.services.releases import releases_begin  # noqa: E402
from placement.snapshots import Ask, look_many  # noqa: E402
from tenants.models import Sku, SlaTier  # noqa: E402

BUYERS = names.read(Path(os.environ["GPUAAS_BENCH_BUYERS"]))
NUMBERS = itertools.count()


def _buyer() -> names.Buyer:
    return random.choice(BUYERS)


def _order(ask: dict[str, Any]) -> AllocationOrder:
    return AllocationOrder(sku=ask["sku"], slots=ask["slots"], name=f"bench-{next(NUMBERS)}")


def claim_by_engine(ask: dict[str, Any]) -> Callable[[], str | None]:
    """A claim as a tenant's request makes it: authority, placement, commit."""

    def once() -> str | None:
        buyer = _buyer()
        try:
            ticket = allocations.allocation_request(
                tenant_id=UUID(buyer.tenant),
                project_id=UUID(buyer.project),
                order=_order(ask),
                actor=actor_of(buyer),
            )
        except ProductError as error:
            if error.code != "sku_unavailable":
                raise
            return None
        return str(ticket.allocation_id) if ticket.allocation_id else None

    return once


def _items(ask: dict[str, Any], count: int) -> list[Item]:
    """Fresh orders of several tenants, read and decided together."""
    buyers = [_buyer() for _ in range(count)]
    asks = [Ask(UUID(b.tenant), UUID(b.project), _order(ask)) for b in buyers]
    return [
        requests.item_of(one, met, actor=actor_of(buyer))
        for one, met, buyer in zip(asks, look_many(asks), buyers, strict=True)
    ]


def claim_by_floor(ask: dict[str, Any]) -> Callable[[], str | None]:
    """A claim by one call of the hand-written function, prepared, committed by itself."""
    sku = Sku.objects.get(name=ask["sku"])
    [item] = _items(ask, 1)
    assert item.where is not None
    options = engine.options_for(item, item.where, limit=engine.ALTERNATIVES)
    fixed = (
        sku.pk,
        sku.resource_class_id,
        SlaTier.objects.get(name=names.TIER).pk,
        sku.pool,
        Pool.objects.get(name=sku.pool).pk,
        NodeFamily.objects.get(name=names.FAMILY).pk,
        ask["slots"],
        json.dumps([*(g.as_json() for g in item.verdict.gates), capacity_gate(item, options)]),
        json.dumps(item.spec),
        json.dumps(item.actor.as_json()),
        json.dumps(
            workflow.initial_steps("allocation.create", done=("admit", "place")), default=str
        ),
        json.dumps({"image": item.image, "ssh_keys": [], "hostname": "bench-12345678"}),
        json.dumps(options[1].explained()) if len(options) > 1 else "null",
        f"fewest NUMA nodes and switches, then tightest fit; {json.dumps(options[0].explained())}",
        item.facts.digest(),
        json.dumps(item.facts.seen()),
        item.facts.policy_version,
    )
    call = f"SELECT bench.claim(%s, %s{', %s' * len(fixed)})"
    direct = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)

    def once() -> str | None:
        buyer = _buyer()
        row = direct.execute(call, (buyer.tenant, buyer.project, *fixed), prepare=True).fetchone()
        return str(row[0]) if row and row[0] else None

    return once


def claim_by_cycle(ask: dict[str, Any]) -> Callable[[], int]:
    """One cycle of the pool over its queue."""
    return lambda: cycle_run(ask["pool"])


def claim_by_batch(ask: dict[str, Any]) -> Callable[[], int]:
    """A batch of fresh orders, decided and placed together: the very rows of single claims."""

    def once() -> int:
        with transaction.atomic():
            placed = engine.place_many(_items(ask, BATCH))
        return sum(isinstance(result, engine.Placed) for result in placed)

    return once


def turnover(ask: dict[str, Any]) -> Callable[[], int]:
    """A batch placed together, then its allocations given back together, each by its tenant."""

    def once() -> int:
        items = _items(ask, BATCH)
        with transaction.atomic():
            placed = engine.place_many(items)
        held = [
            item
            for item, result in zip(items, placed, strict=True)
            if isinstance(result, engine.Placed)
        ]
        left = releases_begin(
            [
                allocations.leaving(
                    item.allocation_id, reason="bench", actor=item.actor, claims=item.want.slots
                )
                for item in held
            ]
        )
        return sum(one.begun for one in left)

    return once


def _post(ask: dict[str, Any], path: str) -> Callable[..., str]:
    """A kept connection that posts JSON; raises for any answer but 201 and 202."""
    url = urlsplit(ask["url"])
    http = HTTPConnection(url.hostname or "", url.port)

    def post(body: dict[str, Any], headers: dict[str, str], at: str = path) -> str:
        http.request("POST", at, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = http.getresponse()
        text = answer.read().decode()
        if answer.status not in (201, 202):
            raise RuntimeError(f"{at} answered {answer.status}: {text[:500]}")
        return text

    return post


def claim_over_http(ask: dict[str, Any]) -> Callable[[], str]:
    """A claim as a tenant's program makes it: token, idempotency key, answer with Location."""
    post = _post(ask, "")

    def once() -> str:
        buyer = _buyer()
        return post(
            {"sku": ask["sku"], "slots": ask["slots"], "name": f"bench-{next(NUMBERS)}"},
            {"Authorization": f"Bearer {buyer.token}", "Idempotency-Key": str(uuid4())},
            f"/api/v1/projects/{buyer.project}/allocations",
        )

    return once


def insert_over_http(ask: dict[str, Any]) -> Callable[[], str]:
    """One row through DRF on the same server: the framework's floor."""
    post = _post(ask, "/things")
    return lambda: post(
        {"name": f"bench-{next(NUMBERS)}", "slots": ask["slots"], "spec": {"sku": ask["sku"]}}, {}
    )


WAYS: dict[str, Callable[[dict[str, Any]], Callable[[], Any]]] = {
    "engine": claim_by_engine,
    "floor": claim_by_floor,
    "cycle": claim_by_cycle,
    "batch": claim_by_batch,
    "turnover": turnover,
    "http": claim_over_http,
    "insert": insert_over_http,
}


def run(ask: dict[str, Any], once: Callable[[], Any]) -> dict[str, Any]:
    """Repeat until the time is over; with ``undo`` each claim is taken back, unmeasured."""
    times: list[float] = []
    count = refused = 0
    while time.monotonic() < ask["begin"]:
        time.sleep(0.001)
    end = ask["begin"] + ask["seconds"]
    while (begun := time.monotonic()) < end:
        done = once()
        times.append(time.monotonic() - begun)
        if isinstance(done, int):
            count += done
            if not done:
                break
        elif done is None:
            refused += 1
        else:
            count += 1
            if ask.get("undo"):
                with connection.cursor() as cursor:
                    cursor.execute("SELECT bench.undo(%s)", [done])
    return {"count": count, "refused": refused, "times": times}


def main() -> None:
    """Serve orders until the input ends, with a heap that is frozen as the worker's is."""
    ways: dict[str, Callable[[], Any]] = {}
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        key = json.dumps({**ask, "begin": 0, "seconds": 0})
        if key not in ways:
            ways[key] = WAYS[ask["way"]](ask)
        print(json.dumps(run(ask, ways[key])), flush=True)


if __name__ == "__main__":
    main()
