"""What does a tenant feel?  Requests at a steady rate, each timed from when it was due.

A request that waits for the one before it has waited: its time counts from its place in the
schedule, so that a server that stands still cannot hide it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from queue import SimpleQueue
from urllib.parse import urlsplit
from uuid import uuid4

from benchmarks import names

SENDERS = 8
PATIENCE_S = 30.0


@dataclass
class Felt:
    """Seconds of each answered request, and how many had no good answer."""

    times: list[float] = field(default_factory=list)
    failed: int = 0


def steady(url: str, buyer: names.Buyer, *, rate: float, seconds: float, sku: str = "") -> Felt:
    """``rate`` requests a second for so long; every fifth asks for an allocation if ``sku``.

    A refusal for want of capacity is an answer like another.
    """
    felt, due = Felt(), SimpleQueue[tuple[int, float] | None]()
    lock = threading.Lock()

    def send() -> None:
        address = urlsplit(url)
        http = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_S)
        while (job := due.get()) is not None:
            number, at = job
            ok = _asked(http, buyer, sku if number % 5 == 0 else "")
            with lock:
                felt.times.append(time.monotonic() - at)
                felt.failed += not ok
        http.close()

    senders = [threading.Thread(target=send) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    begin = time.monotonic()
    for number in range(int(rate * seconds)):
        at = begin + number / rate
        time.sleep(max(at - time.monotonic(), 0.0))
        due.put((number, at))
    for _ in senders:
        due.put(None)
    for sender in senders:
        sender.join()
    return felt


def _asked(http: HTTPConnection, buyer: names.Buyer, sku: str) -> bool:
    path = f"/api/v1/projects/{buyer.project}/allocations"
    headers = {"Authorization": f"Bearer {buyer.token}"}
    try:
        if sku:
            body = f'{{"sku": "{sku}", "slots": 1, "name": "bench-{uuid4().hex[:12]}"}}'
            kind = {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
            http.request("POST", path, body, headers | kind)
        else:
            http.request("GET", f"{path}?limit=20", headers=headers)
        answer = http.getresponse()
        answer.read()
    except (OSError, HTTPException):
        http.close()
        return False
    return answer.status < 500 and answer.status != 429
