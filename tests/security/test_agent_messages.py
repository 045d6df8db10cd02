"""Is a host's message taken only once, whole, and from that host; and does none make us fail?

A few hundred here, many thousands by `make campaign-agent`.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from django.db import transaction

from gpuaas.api import limits
from nodeagent.protocol import (
    CompleteRequest,
    FailRequest,
    ObservedReport,
    TopologyReport,
    WireError,
    load_json,
)
from placement.models import Node, NodeTask
from tests.builders import a_report
from tests.nodeagent.fuzz import damaged, damaged_bytes
from tests.security.world import NodeCaller, World, a_world

CAMPAIGN = bool(os.environ.get("CAMPAIGN"))
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(7200 if CAMPAIGN else 300)]
PARSED = 100_000 if CAMPAIGN else 2_000
SENT = 10_000 if CAMPAIGN else 200
ADDRESS = "/agent/v1/nodes/self/observed"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two hosts, one with a key of its own; nobody is limited in how often they may ask."""
    free = limits.Spent(limits.AGENT, True, 1000, 0)
    monkeypatch.setattr(limits.Buckets, "spend", lambda self, policy, principal: free)
    return a_world()


def a_message(seq: int, node: NodeCaller) -> dict[str, Any]:
    """A good report with something of everything."""
    boot = Node.objects.get(pk=node.credential.node_id).boot_id
    return {
        "boot_id": boot,
        "seq": seq,
        "at": 1,
        "vms": [
            {
                "claim_ref": None,
                "name": "vm",
                "state": "running",
                "slots": [0],
                "address": {"host": "10.0.0.7", "port": 22, "user": "ubuntu"},
            }
        ],
        "devices": {
            "gpus": [{"id": "GPU-host-1-0", "presence": "present", "holder": None, "clean": True}],
            "nics": [],
            "nvmes": [],
        },
        "conditions": [
            {"code": "unknown_vm", "detail": "x", "device": None, "claim_ref": None},
            {"code": "residue_found", "detail": "x", "device": "GPU-host-1-0", "claim_ref": None},
        ],
        "intended_use": None,
    }


def an_evidence() -> dict[str, Any]:
    """A good result of a cleanup."""
    step = {"step": "vm_gone", "ok": True, "method": "qmp_quit", "detail": "", "at": 1}
    return {
        "lease_epoch": 1,
        "boot_id": "boot-00000001",
        "result": {"allocation_id": "a", "attempt": 1},
        "evidence": [{"slot_index": 0, "steps": [step]}],
        "evidence_signature": "A" * 86 + "==",
    }


def test_a_damaged_document_is_read_whole_or_refused_with_its_place() -> None:
    chance = random.Random(1)
    failed = {**an_evidence(), "code": "cleanup_failed", "detail": "", "retryable": True}
    del failed["result"]
    report = {
        **{name: [] for name in ("vms", "conditions")},
        "boot_id": "boot-00000001",
        "seq": 1,
        "at": 1,
        "devices": {"gpus": [], "nics": [], "nvmes": []},
    }
    kinds: list[tuple[Any, Any]] = [
        (CompleteRequest, an_evidence()),
        (FailRequest, failed),
        (ObservedReport, report),
        (TopologyReport, a_report("host-1").to_json()),
    ]
    for kind, good in kinds:
        kind.from_json(good)
    refusals: list[WireError] = []
    for number in range(PARSED):
        kind, good = kinds[number % len(kinds)]
        try:
            if number % 3:
                kind.from_json(damaged(good, chance))
            else:
                kind.from_json(load_json(damaged_bytes(json.dumps(good).encode(), chance)))
        except WireError as error:
            refusals.append(error)
    assert len(refusals) > PARSED // 2
    assert all(error.code and len(str(error)) < 600 for error in refusals)


def test_a_damaged_report_with_a_good_signature_never_makes_us_fail(world: World) -> None:
    chance = random.Random(2)
    node, taken = world.own_node, 0
    for number in range(SENT):
        bad = damaged(a_message(number + 100, node), chance)
        with transaction.atomic():
            answer = node.call("PUT", ADDRESS, json.dumps(bad).encode())
            assert answer.status_code < 500, bad
            taken += answer.status_code == 200
            if answer.status_code >= 400:
                assert answer.json()["code"]
            transaction.set_rollback(True)
    assert taken < SENT


def test_a_recorded_changed_or_foreign_message_is_never_taken(world: World) -> None:
    """Good messages but for one thing: said before, changed on the way, or another host's."""
    chance = random.Random(3)
    own = world.own_node
    stranger = NodeCaller(Node.objects.exclude(pk=own.credential.node_id).get())
    recorded: list[tuple[bytes, dict[str, str]]] = []
    for number in range(3):
        raw = json.dumps(a_message(number + 100, own)).encode()
        headers = signed(own, raw)
        assert send(own, raw, headers) == 200
        recorded.append((raw, headers))
    before = Node.objects.get(pk=own.credential.node_id).observed_seq
    for number in range(SENT):
        raw, headers = chance.choice(recorded)
        kind = number % 4
        if kind == 0:
            status = send(own, raw, headers)
        elif kind == 1:
            fresh = signed(own, raw)
            place = chance.randrange(len(raw))
            other = raw[:place] + bytes([raw[place] ^ 1 << chance.randrange(8)]) + raw[place + 1 :]
            status = send(own, other, fresh)
        elif kind == 2:
            name = chance.choice(sorted(headers))
            fresh = signed(own, raw)
            fresh[name] = {
                "HTTP_GPUAAS_SIGNATURE": fresh[name][::-1],
                "HTTP_GPUAAS_CREDENTIAL": str(stranger.credential.pk),
                "HTTP_AGENT_VERSION": chance.choice(["0.2.0", "0.4.0", "", "x"]),
            }.get(name, f"{int(fresh[name]) + 1}" if fresh[name].isdecimal() else "x")
            status = send(own, raw, fresh)
        else:
            fresh = signed(stranger, raw)
            fresh["HTTP_GPUAAS_CREDENTIAL"] = str(own.credential.pk)
            status = send(own, raw, fresh)
        assert 400 <= status < 500, (kind, status)
    assert Node.objects.get(pk=own.credential.node_id).observed_seq == before


def test_another_hosts_task_is_neither_told_nor_touched(world: World) -> None:
    task = NodeTask.objects.filter(node_id=world.own_node.credential.node_id).first()
    assert task is not None
    stranger = NodeCaller(Node.objects.exclude(pk=task.node_id).get())
    was = NodeTask.objects.filter(pk=task.pk).values().get()
    absent = "00000000-0000-7000-8000-000000000007"
    for verb, body in (
        ("heartbeat", {"lease_epoch": task.lease_epoch, "step": "x", "percent": 1}),
        ("complete", {**an_evidence(), "lease_epoch": task.lease_epoch}),
    ):
        answers = [
            stranger.call("POST", f"/agent/v1/tasks/{which}/{verb}", body)
            for which in (task.pk, absent)
        ]
        assert {answer.status_code for answer in answers} == {404}
        assert answers[0].json()["code"] == answers[1].json()["code"]
    assert NodeTask.objects.filter(pk=task.pk).values().get() == was


def signed(node: NodeCaller, raw: bytes) -> dict[str, str]:
    """The headers of a report that the host really signed."""
    return node.signed("PUT", ADDRESS, raw)


def send(node: NodeCaller, raw: bytes, headers: dict[str, str]) -> int:
    """What comes of these bytes with these headers."""
    with transaction.atomic():
        return int(node.send("PUT", ADDRESS, raw, **headers).status_code)
