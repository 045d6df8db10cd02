"""What does a control plane look like to an agent? A small one over real loopback HTTP."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.protocol import (
    CLOCK_WINDOW_S,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaseRequest,
    ObservedReport,
    RenewRequest,
    TaskEnvelope,
    TaskKind,
    TaskParams,
    Unwanted,
    WireError,
    load_json,
    request_signing_bytes,
    task_envelope,
    task_signing_bytes,
)
from nodeagent.signing import public_text, sign, verify
from tests.nodeagent.clock import FakeClock

TOKEN = "join-token-for-tests"
NODE = "node-1"


@dataclass
class Queued:
    """A task waiting to be leased. raw: envelope and parameters as they will be sent."""

    envelope: dict[str, Any]
    params: dict[str, Any]
    signature: str
    epoch: int
    leases_left: int = 1


@dataclass
class Control:
    """The control plane's memory, for a test to set up and to look at afterwards."""

    clock: FakeClock
    skew: float = 0.0
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    node_key: str | None = None
    token: str = TOKEN
    # Its own, since what a test left behind may still talk to the port that was another's.
    credential: str = field(default_factory=lambda: f"credential-{secrets.token_hex(4)}")
    credential_life_s: int = 86_400
    last_sequence: int = 0
    boot_id: str | None = None
    queue: list[Queued] = field(default_factory=list)
    completed: list[tuple[str, CompleteRequest]] = field(default_factory=list)
    failed: list[tuple[str, FailRequest]] = field(default_factory=list)
    beats: list[tuple[str, HeartbeatRequest]] = field(default_factory=list)
    observed: list[ObservedReport] = field(default_factory=list)
    joins: list[JoinRequest] = field(default_factory=list)
    renewals: int = 0
    cancel: bool = False
    unwanted: list[Unwanted] = field(default_factory=list)
    poll_ms: int = 1000
    watch: Callable[[str, str, int], None] | None = None
    answers: dict[str, list[tuple[int, dict[str, Any] | bytes]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    url: str = ""

    def now(self) -> int:
        """The server's clock, unix seconds."""
        return int(self.clock.now() + self.skew)

    def add(
        self,
        kind: TaskKind,
        params: TaskParams,
        /,
        *,
        task_id: str = "task-1",
        epoch: int = 1,
        boot_id: str | None = None,
        **changes: Any,
    ) -> Queued:
        """Queue a task, properly signed; `changes` replace members of the envelope first."""
        envelope = task_envelope(
            task_id=task_id,
            node_id=NODE,
            kind=kind,
            attempt=1,
            lease_epoch=epoch,
            boot_id=boot_id,
            not_before=self.now() - 5,
            expires_at=self.now() + 600,
            nonce="nonce-" + "x" * 16,
            params=params,
        ).to_json()
        envelope.update(changes)
        return self.add_raw(envelope, params.to_json())

    def add_raw(self, envelope: dict[str, Any], params: dict[str, Any]) -> Queued:
        """Queue exactly this, signed."""
        signature = sign(self.key, task_signing_bytes(envelope))
        queued = Queued(envelope, params, signature, int(envelope.get("lease_epoch", 0)))
        self.queue.append(queued)
        return queued

    def fail_next(self, path_end: str, status: int, **problem: Any) -> None:
        """Answer the next request whose path ends so with a problem."""
        problem.setdefault("code", "busy")
        self.answers.setdefault(path_end, []).append((status, problem))

    def answer_next(self, path_end: str, status: int, content: bytes) -> None:
        """Answer the next request whose path ends so with these bytes."""
        self.answers.setdefault(path_end, []).append((status, content))

    def handle(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        """One request; status and answer."""
        self.order.append(path.rpartition("/")[2])
        for path_end, answers in self.answers.items():
            if path.endswith(path_end) and answers:
                return answers.pop(0)
        try:
            if path == "/agent/v1/join":
                return self._join(JoinRequest.from_json(load_json(body)))
            problem = self._check(method, path, headers, body)
            return problem or self._route(path, load_json(body))
        except WireError as error:
            self.problems.append(str(error))
            return 422, {"code": "invalid", "detail": str(error)}

    def _join(self, request: JoinRequest) -> tuple[int, Any]:
        self.joins.append(request)
        if request.token != self.token or self.node_key not in (None, request.public_key):
            return 403, {"code": "join_refused"}
        self.node_key = request.public_key
        return 200, {
            "node_id": NODE,
            "node_name": "host-1",
            "credential_id": self.credential,
            "expires_at": self.now() + self.credential_life_s,
            "control_public_key": public_text(self.key),
            "server_time": self.now(),
            "poll_ms": self.poll_ms,
        }

    def _check(self, method: str, path: str, headers: Any, body: bytes) -> Any:
        sequence, timestamp = int(headers["Gpuaas-Sequence"]), int(headers["Gpuaas-Timestamp"])
        version = headers["Agent-Version"]
        signed = request_signing_bytes(method, path, sequence, timestamp, body, version)
        if headers["Gpuaas-Credential"] != self.credential or self.node_key is None:
            return 401, {"code": "credential_unknown"}
        if not verify(self.node_key, headers["Gpuaas-Signature"], signed):
            self.problems.append("bad signature")
            return 401, {"code": "signature_invalid"}
        if abs(timestamp - self.now()) > CLOCK_WINDOW_S:
            return 401, {"code": "clock_skew", "server_time": self.now()}
        if sequence <= self.last_sequence:
            return 409, {"code": "replayed_message", "last_sequence": self.last_sequence}
        self.last_sequence = sequence
        return None

    def _route(self, path: str, body: Any) -> tuple[int, Any]:
        verb, parts = path.rpartition("/")[2], path.split("/")
        if verb == "credential:renew":
            RenewRequest.from_json(body)
            self.renewals += 1
            self.credential = f"credential-{self.renewals + 1}"
            expires = self.now() + self.credential_life_s
            answer = {"credential_id": self.credential, "expires_at": expires}
            answer["control_public_key"] = public_text(self.key)
            return 200, {**answer, "server_time": self.now()}
        if verb == "tasks:lease":
            return self._lease(LeaseRequest.from_json(body))
        if verb == "observed":
            self.observed.append(ObservedReport.from_json(body))
            return 200, {"server_time": self.now()}
        if verb == "heartbeat":
            beat = HeartbeatRequest.from_json(body)
            self.beats.append((parts[-2], beat))
            self._watched(parts[-2], beat.step, beat.percent)
            return 200, {"lease_expires_at": self.now() + 60, "cancel": self.cancel}
        if verb == "complete":
            self._watched(parts[-2], "complete", 100)
            self.completed.append((parts[-2], CompleteRequest.from_json(body)))
            return 200, {}
        self.failed.append((parts[-2], FailRequest.from_json(body)))
        return 200, {}

    def _watched(self, task_id: str, step: str, percent: int) -> None:
        """Tell whoever watches that a task is at this step, before it is answered."""
        if self.watch is not None:
            self.watch(task_id, step, percent)

    def _lease(self, request: LeaseRequest) -> tuple[int, Any]:
        self.boot_id = request.boot_id
        given = [task for task in self.queue if task.leases_left][: request.max]
        for task in given:
            task.leases_left -= 1
        tasks = [
            {"envelope": task.envelope, "params": task.params, "signature": task.signature}
            for task in given
        ]
        answer = {"tasks": tasks, "next_poll_ms": self.poll_ms, "server_time": self.now()}
        if self.unwanted:
            answer["unwanted"] = [one.to_json() for one in self.unwanted]
        return 200, answer


def envelope_of(queued: Queued) -> TaskEnvelope:
    """The envelope as a message."""
    return TaskEnvelope.from_json(queued.envelope)


def signed_by(queued: Queued, key: Ed25519PrivateKey) -> Queued:
    """The same task, signed by another key."""
    return replace(queued, signature=sign(key, task_signing_bytes(queued.envelope)))


@contextmanager
def serve(control: Control) -> Iterator[str]:
    """Serve the control plane on a free loopback port while inside; gives its address."""
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet per answer: headers and body apart would wait for a delayed acknowledgement.
        wbufsize = 65_536

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            with turn:
                status, answer = control.handle(self.command, self.path, self.headers, body)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if isinstance(answer, dict):
                kind = "application/problem+json" if status >= 400 else "application/json"
                self.send_header("Content-Type", kind)
            if isinstance(answer, dict) and "retry_after" in answer:
                self.send_header("Retry-After", str(answer["retry_after"]))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = _answer

        def log_message(self, format: str, *arguments: Any) -> None:
            """Tests look at the control plane's memory, not at a log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        control.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield control.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
