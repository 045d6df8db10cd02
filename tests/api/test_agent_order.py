"""Whatever of a host's messages comes late, twice or never: is only what counts written down?"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from placement.models import Node, NodeTelemetry, TelemetryWindow
from tests.api.test_agent_cost import Steady, a_window

pytestmark = pytest.mark.django_db

BAD = [{"code": "prerequisite_missing", "detail": "x", "device": None, "claim_ref": None}]
BOOTS = ("boot-0000-0001", "boot-0000-0002", "boot-0000-0003")


@dataclass(frozen=True)
class Sent:
    """A message as it was signed, and what it says."""

    number: int
    kind: str
    boot: str
    seq: int
    said: Any
    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@dataclass
class Model:
    """What the control plane should know of the host."""

    number: int
    boot: str
    reported: int
    bad: bool
    windows: set[tuple[str, int]] = field(default_factory=set)
    lost: int = 0
    driver: list[int] = field(default_factory=list)

    def hear(self, sent: Sent) -> int:
        """The status of the answer."""
        if sent.number <= self.number:
            return 409
        self.number = sent.number
        if sent.kind == "poll":
            if sent.boot != self.boot:
                self.boot, self.reported = sent.boot, 0
            return 200
        if sent.kind == "report":
            if sent.boot != self.boot or sent.seq <= self.reported:
                return 409
            self.reported, self.bad = sent.seq, sent.said
            return 200
        newest = max((seq for boot, seq in self.windows if boot == sent.boot), default=0)
        if (sent.boot, sent.seq) not in self.windows:
            self.windows.add((sent.boot, sent.seq))
            self.lost += sent.seq
        if sent.boot == self.boot and sent.seq >= newest:
            self.driver = [570, sent.said]
        return 200


def known(host: Steady) -> tuple[Any, ...]:
    """What it does know."""
    node = Node.objects.get(pk=host.node.pk)
    ring = NodeTelemetry.objects.filter(node=node).first()
    return (
        node.boot_id,
        node.observed_seq,
        node.health == "degraded",
        set(TelemetryWindow.objects.filter(node=node).values_list("boot_id", "seq")),
        ring.lost if ring else 0,
        node.driver,
    )


def messages(host: Steady, chance: random.Random, count: int) -> Iterator[Sent]:
    """What a host sends that restarts now and then; a window may be said again."""
    boot, reports, windows = 0, 0, 0
    for _ in range(count):
        if chance.random() < 0.06 and boot + 1 < len(BOOTS):
            boot, reports, windows = boot + 1, 0, 0
        kind = chance.choice(("poll", "report", "report", "report", "window"))
        said: Any = None
        method, path, seq = "POST", "/tasks:lease", 0
        message: Any = {"max": 4, "capabilities": [], "running": []}
        if kind == "report":
            method, path = "PUT", "/nodes/self/observed"
            reports += chance.choice((1, 1, 1, 0))
            seq, said = max(1, reports), chance.random() < 0.15
            message = {"seq": seq, "at": 1, **REPORT, "conditions": BAD if said else []}
        elif kind == "window":
            path = "/nodes/self/telemetry"
            windows += chance.choice((1, 1, 0))
            seq = max(1, windows)
            said = boot + seq // 4
            message = a_window(host, seq, driver=f"570.{said}", began_at=1, ended_at=60 * seq + 1)
        path = f"/agent/v1{path}"
        message = {"boot_id": "", **message} | {"boot_id": BOOTS[boot]}
        body = json.dumps(message).encode()
        headers = host.headers(method, path, body)
        number = host.sequence
        yield Sent(number, kind, BOOTS[boot], seq, said, method, path, body, headers)


REPORT: dict[str, Any] = {"vms": [], "devices": {}}


def delivered(sent: list[Sent], chance: random.Random) -> Iterator[Sent]:
    """As a network may hand them on: some never, some twice, some after later ones."""
    line = [
        (k + chance.choice((0, 0, 0, 0, 2.5, 5.5)), one)
        for k, one in enumerate(sent)
        for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))
    ]
    for _, one in sorted(line, key=lambda pair: pair[0]):
        yield one


@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_of_a_host_is_what_its_newest_messages_said(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    host = Steady(tmp_path / "host-1")
    Node.objects.filter(pk=host.node.pk).update(boot_id=BOOTS[0], observed_seq=0)
    model = Model(host.sequence, BOOTS[0], 0, bad=False)
    for sent in delivered(list(messages(host, chance, 80)), chance):
        before = Node.objects.values_list("last_seen_at", "observed_at").get(pk=host.node.pk)
        status = model.hear(sent)
        answer = host.http.call(sent.method, sent.path, sent.body, **sent.headers)
        assert answer.status_code == status, (sent, answer.content)
        assert known(host) == (
            model.boot, model.reported, model.bad, model.windows, model.lost, model.driver
        ), sent  # fmt: skip
        if status == 409 and answer.json()["code"] == "replayed_message":
            assert before == Node.objects.values_list("last_seen_at", "observed_at").get(
                pk=host.node.pk
            )
