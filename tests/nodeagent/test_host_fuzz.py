"""Does anything that is not a whole, signed, present task of this node ever reach the host?

Two thousand damaged tasks here, a hundred thousand by `make campaign-agent`; the same for what the
privileged helper is asked, and for messages that were recorded, changed or meant for another node.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.backend import BackendError, Observation
from nodeagent.host.helper.grants import Grants
from nodeagent.host.helper.keys import ControlKeys
from nodeagent.host.helper.server import HelperServer
from nodeagent.host.helper.wire import WITHOUT_TASK, Request, Verb, parse_request
from nodeagent.identity import Identity
from nodeagent.journal import Journal
from nodeagent.protocol import (
    BurnInParams,
    LeaseAnswer,
    ObservedDevices,
    SignedTask,
    TaskKind,
    Unwanted,
    WireError,
    load_json,
    params_sha256,
    task_signing_bytes,
)
from nodeagent.shares import Shares
from nodeagent.signing import public_text, sign
from nodeagent.verify import Facts, TaskRefused, verify_devices, verify_task
from tests.nodeagent.conftest import Bench
from tests.nodeagent.fuzz import damaged, damaged_bytes

CAMPAIGN = bool(os.environ.get("CAMPAIGN"))
pytestmark = pytest.mark.timeout(7200 if CAMPAIGN else 300)
TASKS = 100_000 if CAMPAIGN else 2_000
MESSAGES = 10_000 if CAMPAIGN else 1_000
EVERY = frozenset(TaskKind)
NOTHING = Observation((), ObservedDevices(), ())
_HEX = "0123456789abcdef"


class Gate:
    """The agent's checks as they are done before anything is begun."""

    def __init__(self, bench: Bench, journal: Path) -> None:
        bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
        bench.control.add(TaskKind.VM_RELEASE, bench.release(0, 1))
        bench.control.add(TaskKind.BAREMETAL_PROVISION, bench.bare_provision())
        self.key = bench.control.key
        self.report = bench.backend.topology()
        self.shares = Shares(journal.with_name("shares.json"))
        self.shares.learn(self.report)
        self.good: list[dict[str, Any]] = [
            {"envelope": one.envelope, "params": one.params, "signature": one.signature}
            for one in bench.control.queue
        ]
        identity = Identity(
            "node-1", "host-1", "credential-1", 0, 2**40, public_text(self.key), 1000
        )
        self.facts = Facts(
            identity, "boot-id-1", bench.control.now(), frozenset(TaskKind), Journal(journal)
        )

    def passes(self, task: Any) -> bool:
        """Whether the agent would begin it."""
        try:
            signed = SignedTask.from_json(task)
            verified = verify_task(signed, self.facts)
            verify_devices(verified, self.report, NOTHING, self.shares)
        except (WireError, TaskRefused):
            return False
        return True

    def signed(self, envelope: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """A task with a good signature over whatever is in it, as from a control plane gone wrong.

        What cannot even be written down cannot be signed, and is sent with any signature.
        """
        try:
            envelope = {**envelope, "params_sha256": params_sha256(params)}
            signature = sign(self.key, task_signing_bytes(envelope))
        except (WireError, ValueError, TypeError, UnicodeEncodeError):
            signature = "A" * 86 + "=="
        return {"envelope": envelope, "params": params, "signature": signature}


@pytest.fixture
def gate(bench: Bench, tmp_path: Path) -> Gate:
    """A gate that lets the undamaged tasks through."""
    made = Gate(bench, tmp_path / "journal")
    assert all(made.passes(task) for task in made.good)
    return made


def test_a_damaged_task_is_never_begun(gate: Gate) -> None:
    chance = random.Random(1)
    for _ in range(TASKS // 2):
        good = chance.choice(gate.good)
        bad = damaged(good, chance)
        assert bad == good or not gate.passes(bad), bad


def test_a_damaged_task_with_a_good_signature_touches_only_what_is_the_nodes_own(
    gate: Gate,
) -> None:
    chance = random.Random(2)
    own = {gpu.uuid for gpu in gate.report.gpus}
    passed = 0
    for _ in range(TASKS // 2):
        good = chance.choice(gate.good)
        envelope = damaged(good["envelope"], chance) if chance.random() < 0.3 else good["envelope"]
        bad = gate.signed(envelope, damaged(good["params"], chance))
        if gate.passes(bad):
            passed += 1
            assert_harmless(bad, own)
    assert passed < TASKS // 10


def assert_harmless(task: dict[str, Any], own: set[str | None]) -> None:
    """What passed is a task of this node, in the protocol's words, about the node's own devices."""
    params = task["params"]
    assert task["envelope"]["node_id"] == "node-1"
    assert {slot["gpu_uuid"] for slot in params.get("slots") or params["devices"]} <= own
    words = json.dumps([params["allocation_id"], params.get("image"), params.get("hostname")])
    assert not set(words) & set("$`;|&<>\\'\n")
    assert ".." not in params["allocation_id"]


def test_a_damaged_answer_never_gives_a_task(gate: Gate) -> None:
    chance = random.Random(3)
    answer = {"tasks": gate.good, "next_poll_ms": 1000, "server_time": 1}
    content = json.dumps(answer).encode()
    for _ in range(TASKS // 20):
        try:
            read = LeaseAnswer.from_json(load_json(damaged_bytes(content, chance)))
        except WireError:
            continue
        for task in read.tasks:
            assert task.to_json() in gate.good or not gate.passes(task.to_json())


def test_no_recorded_changed_or_foreign_task_is_taken(gate: Gate) -> None:
    """Each is a good task but for one thing."""
    chance = random.Random(4)
    stranger = Ed25519PrivateKey.generate()
    for number in range(MESSAGES):
        good = chance.choice(gate.good)
        envelope = dict(good["envelope"])
        kind = number % 4
        if kind == 0:
            envelope["node_id"] = f"node-{2 + number}"
            bad = gate.signed(envelope, good["params"])
        elif kind == 1:
            signature = sign(stranger, task_signing_bytes(envelope))
            bad = {**good, "signature": signature}
        elif kind == 2:
            recorded = gate.facts.server_now - chance.randint(700, 10**6)
            envelope |= {"not_before": recorded - 60, "expires_at": recorded}
            bad = gate.signed(envelope, good["params"])
        else:
            name = chance.choice(sorted(envelope))
            envelope[name] = 1 if isinstance(envelope[name], str) else f"{envelope[name]}"
            if chance.random() < 0.5:
                envelope = {**good["envelope"], "nonce": "".join(chance.choices(_HEX, k=20))}
            bad = {**good, "envelope": envelope}
        assert not gate.passes(bad), (kind, bad)


class Nobody:
    """A helper's work that only notes what it was asked to do."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def run(self, request: Request) -> None:
        """Note it."""
        self.asked.append(request)

    def resume(self) -> None:
        """Nothing ran before."""


@pytest.fixture
def nobody() -> Nobody:
    """No work done yet."""
    return Nobody()


@pytest.fixture
def helper(nobody: Nobody, tmp_path: Path) -> Iterator[Path]:
    """A helper's socket, with nothing behind it."""
    path = tmp_path / "h.sock"
    server = HelperServer(path, nobody, {os.geteuid()})  # type: ignore[arg-type]  # notes only
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield path
    server.close()
    thread.join()


def said(path: Path, content: bytes) -> dict[str, Any]:
    """What the helper answers."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(path))
        channel.sendall(content)
        channel.shutdown(socket.SHUT_WR)
        answer = b""
        while part := channel.recv(65_536):
            answer += part
    found = json.loads(answer)
    assert isinstance(found, dict)
    return found


def requests(bench: Bench) -> list[dict[str, Any]]:
    """One good request of every form."""
    burn = BurnInParams(gpus=("GPU-1",), duration_s=60, limit_s=600)
    made, ended, burnt = (
        {"task": {"envelope": one.envelope, "params": one.params, "signature": one.signature}}
        for one in (
            bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1)),
            bench.control.add(TaskKind.VM_RELEASE, bench.release(0, 1)),
            bench.control.add(TaskKind.BURN_IN, burn),
        )
    )
    return [
        {"verb": "inspect"},
        {"verb": "trust"},
        {"verb": "belief"},
        {"verb": "survey"},
        {"verb": "holders"},
        {"verb": "end_burn_in", "load": Unwanted(task_id="task-1", lease_epoch=1).to_json()},
        {"verb": "take", **made},
        {"verb": "define", **made},
        {"verb": "attach", **made},
        {"verb": "start", **made},
        {"verb": "clean", "step": "gpu_scrubbed", **ended},
        {"verb": "settle", **ended},
        {"verb": "burn_in", **burnt},
    ]


def test_every_verb_is_understood_and_no_other(bench: Bench, helper: Path, nobody: Nobody) -> None:
    good = requests(bench)
    for one in good:
        assert said(helper, json.dumps(one).encode() + b"\n") == {"done": {}}
    assert [one.verb for one in nobody.asked] == list(Verb)
    for verb in ("shell", "exec", "read", "", None, 1):
        answer = said(helper, json.dumps({"verb": verb}).encode() + b"\n")
        assert answer["problem"]["code"] == "request_invalid"
    assert len(nobody.asked) == len(good)


def test_a_damaged_request_is_refused_or_is_one_that_was_signed(
    bench: Bench, tmp_path: Path
) -> None:
    """Whatever is changed of a task, nothing that was not signed passes the helper's own check."""
    chance = random.Random(5)
    good = requests(bench)
    tasks = [one["task"] for one in good if "task" in one]
    trusted = ControlKeys("node-1", (public_text(bench.control.key),))
    grants = Grants(lambda: trusted, tmp_path / "grants.json", "boot-id-1", bench.clock, EVERY)
    passed = 0
    for _ in range(TASKS):
        bad = damaged(chance.choice(good), chance)
        try:
            request = parse_request(bad)
        except WireError:
            continue
        assert request.verb in WITHOUT_TASK or request.task is not None
        if request.task is None:
            continue
        try:
            grants.checked(request.verb, request.task)
        except BackendError:
            continue
        passed += 1
        assert request.task.to_json() in tasks
    assert passed < TASKS // 10


def test_what_is_no_request_at_all_is_answered_and_does_nothing(
    bench: Bench, helper: Path, nobody: Nobody
) -> None:
    chance = random.Random(6)
    (define,) = (one for one in requests(bench) if one["verb"] == "define")
    good = json.dumps(define).encode() + b"\n"
    for content in [b"", b"\n", b"[]\n", b"null\n", b"{" * 5000 + b"\n", b"\xff\n"]:
        assert "problem" in said(helper, content)
    for _ in range(MESSAGES // 20):
        bad = damaged_bytes(good, chance)
        answer = said(helper, bad)
        assert "problem" in answer or len(nobody.asked) > 0
    assert all(one.verb is Verb.DEFINE for one in nobody.asked)


def test_only_the_agents_user_may_ask(nobody: Nobody, tmp_path: Path) -> None:
    path = tmp_path / "h.sock"
    server = HelperServer(path, nobody, {os.geteuid() + 1})  # type: ignore[arg-type]  # notes only
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        # Hung up on, before anything is read.
        with pytest.raises((ConnectionResetError, BrokenPipeError, json.JSONDecodeError)):
            said(path, b'{"verb":"inspect"}\n')
    finally:
        server.close()
        thread.join()
    assert nobody.asked == []
    assert path.stat().st_mode & 0o777 == 0o660


def test_a_released_claim_is_never_made_again_whatever_is_signed(gate: Gate) -> None:
    gate.facts.journal.mark_released("alloc-1")
    made, ended, whole = gate.good
    assert [gate.passes(one) for one in (made, ended, whole)] == [False, True, False]
    later = replace(gate.facts, server_now=gate.facts.server_now + 700)
    gate.facts = later
    assert not gate.passes(ended)
