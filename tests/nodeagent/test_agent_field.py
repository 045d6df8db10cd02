"""Does an agent live through whatever stands between it and its control plane?"""

from __future__ import annotations

import asyncio
import datetime
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodeagent.answers import Answer, refusal_in, seconds_to_wait
from nodeagent.client import ControlPlane, Refused, Unreachable
from nodeagent.clock import SystemClock
from nodeagent.host.config import HostConfig
from nodeagent.host.trust import way_out
from nodeagent.identity import AgentHome
from nodeagent.protocol import DiscoverParams, LeaseRequest, TaskKind
from tests.nodeagent.conftest import Bench
from tests.nodeagent.control import TOKEN

PAGE = b"<html><title>Sign in to the guest network</title></html>"


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, PAGE),
        (200, b""),
        (200, b"[]"),
        (200, b'"ok"'),
        (202, b"{}"),
        (302, b"{}"),
        (307, PAGE),
        (404, b"default backend - 404"),
        (404, b'{"code": 404, "message": "no route"}'),
        (400, PAGE),
        (403, PAGE),
        (405, PAGE),
        (413, PAGE),
        (429, PAGE),
        (502, PAGE),
    ],
)
def test_no_answer_of_somebody_else_counts_as_having_the_result(
    bench: Bench, status: int, content: bytes
) -> None:
    bench.control.answer_next("/complete", status, content)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(4)
    assert [task for task, _ in bench.control.completed] == ["task-1"]


def test_a_result_that_a_proxy_finds_too_large_keeps_nothing_else_from_its_work(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(40):
        bench.control.answer_next("/tasks/task-1/complete", 413, PAGE)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(2)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams(), task_id="task-2")
    bench.rounds(4)
    assert [task for task, _ in bench.control.completed] == ["task-2"]
    # Once for each start of the agent.
    said = [one for one in caplog.records if "does not get through" in one.getMessage()]
    assert len(said) == 2
    bench.control.answers.clear()
    bench.rounds(2)
    assert {task for task, _ in bench.control.completed} == {"task-1", "task-2"}


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
def test_a_token_is_kept_when_only_a_proxy_has_refused_it(bench: Bench, status: int) -> None:
    bench.control.answer_next("/join", status, PAGE)
    bench.rounds(3)
    assert len(bench.control.joins) == 1
    assert bench.control.observed


@pytest.mark.parametrize("path", ["/tasks:lease", "/observed", "credential:renew"])
def test_a_proxy_that_says_no_ends_no_membership_although_a_token_lies_there(
    bench: Bench, path: str
) -> None:
    bench.rounds(1)
    (bench.folder / "join-token").write_text(TOKEN)
    bench.clock.time += bench.control.credential_life_s * 0.6
    bench.control.answer_next(path, 401, PAGE)
    bench.control.answer_next(path, 403, PAGE)
    bench.rounds(4)
    assert len(bench.control.joins) == 1
    assert (bench.folder / "agent" / "identity.json").exists()


class Odd(ThreadingHTTPServer):
    """A server that answers as `play` says: raw bytes, with rests between them."""

    daemon_threads = True
    play: list[bytes | float]


class _OddHandler(BaseHTTPRequestHandler):
    server: Odd

    def do_POST(self) -> None:
        """What is played."""
        self.rfile.read(int(self.headers["Content-Length"]))
        try:
            for part in self.server.play:
                if isinstance(part, float):
                    time.sleep(part)
                else:
                    self.wfile.write(part)
                    self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent."""


@contextmanager
def odd_server(play: list[bytes | float], address: str = "127.0.0.1") -> Iterator[Odd]:
    """Serve while inside."""
    server = Odd((address, 0), _OddHandler)
    server.play = play
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    """A node that has joined."""
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "identity.json").write_text(json.dumps(_identity()))
    return AgentHome(folder)


def _identity() -> dict[str, Any]:
    return {
        "node_id": "node-1",
        "node_name": "host-1",
        "credential_id": "credential-1",
        "issued_at": 0,
        "expires_at": 2**39,
        "control_public_key": "A" * 43 + "=",
        "poll_ms": 1000,
    }


def ask(home: AgentHome, server: str, *, most_s: float = 5.0, **how: Any) -> BaseException:
    """What comes of one poll."""

    async def poll() -> BaseException:
        async with httpx.AsyncClient(timeout=30.0, trust_env=False, **how) as http:
            control = ControlPlane(http, server, home, SystemClock(), most_s=most_s)
            try:
                await control.lease(LeaseRequest("boot-0001", 1, ()))
            except (Unreachable, Refused) as error:
                return error
        raise AssertionError("an answer was taken")

    return asyncio.run(poll())


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PROBLEM = b"HTTP/1.1 503 Busy\r\nContent-Type: application/problem+json\r\n"


@pytest.mark.parametrize(
    ("play", "said"),
    [
        ([HEAD + b"Content-Length: 500\r\n\r\n", b'{"tasks": ['], "RemoteProtocolError"),
        ([HEAD + b"Content-Length: nonsense\r\n\r\n{}"], "RemoteProtocolError"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "RemoteProtocolError"),
        ([b""], "RemoteProtocolError"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"], "RemoteProtocolError"),
        ([HEAD + b"Content-Length: 40\r\n\r\n", *([b"{", 0.2] * 20)], "no whole answer within"),
        ([5.0], "no whole answer within"),
        ([HEAD + b"Content-Length: 9000000\r\n\r\n", *([b" " * 100_000] * 90)], "is over"),
        ([HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"], "DecodingError"),
    ],
    ids=["half", "length", "ssh", "nothing", "chunks", "drops", "silence", "flood", "packed"],
)
def test_an_answer_that_never_becomes_one_is_given_up_and_said_so(
    home: AgentHome, play: list[bytes | float], said: str
) -> None:
    began = time.monotonic()
    with odd_server(play) as server:
        error = ask(home, f"http://127.0.0.1:{server.server_address[1]}", most_s=1.0)
    assert isinstance(error, Unreachable)
    assert said in str(error)
    assert time.monotonic() - began < 4


def test_a_server_without_a_listener_is_said_to_be_that(home: AgentHome) -> None:
    error = ask(home, "http://127.0.0.1:9")
    assert isinstance(error, Unreachable)
    assert "ConnectError" in str(error)
    assert len(str(error)) > len("ConnectError")


def test_a_control_plane_over_ipv6_is_spoken_to(home: AgentHome) -> None:
    answer = b'{"code": "busy", "detail": "later"}'
    head = PROBLEM + b"Retry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(answer)

    class Six(Odd):
        address_family = socket.AF_INET6

    try:
        server = Six(("::1", 0), _OddHandler)
    except OSError:
        pytest.skip("no IPv6 on this machine's loopback")
    server.play = [head + answer]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        error = ask(home, f"http://[::1]:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert isinstance(error, Refused)
    assert (error.code, error.retry_after, error.foreign) == ("busy", 7, False)
    assert "later" in str(error)


def test_a_certificate_of_another_name_is_said_to_be_that(home: AgentHome, tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path, "other.example.org")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with odd_server([b""]) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = f"https://127.0.0.1:{server.server_address[1]}"
        other_name = ask(home, url, verify=ssl.create_default_context(cafile=str(certificate)))
        nobody = ask(home, url, verify=ssl.create_default_context())
    assert "not valid for '127.0.0.1'" in str(other_name) or "IP address mismatch" in str(
        other_name
    )
    assert "self-signed" in str(nobody) or "self signed" in str(nobody)


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    day = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day.replace(year=2100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.parametrize(
    ("kind", "foreign"),
    [
        ("application/problem+json", False),
        ("Application/Problem+JSON ; charset=utf-8", False),
        ("application/json", True),
        ("text/html", True),
        ("", True),
    ],
)
def test_a_refusal_counts_as_the_control_planes_in_its_form_alone(kind: str, foreign: bool) -> None:
    headers = {"Content-Type": kind} if kind else {}
    problem, _, said = refusal_in(Answer(401, headers, b'{"code": "credential_invalid"}'))
    assert said is foreign
    assert problem.code == ("http_401" if foreign else "credential_invalid")


def test_a_gateways_own_document_with_a_code_ends_no_membership_and_loses_no_result(
    bench: Bench,
) -> None:
    told = b'{"code": "access_denied", "message": "sign in first"}'
    bench.rounds(1)
    (bench.folder / "join-token").write_text(TOKEN)
    bench.control.answer_next("/tasks:lease", 401, told)
    bench.control.answer_next("/complete", 409, told)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(4)
    assert len(bench.control.joins) == 1
    assert [task for task, _ in bench.control.completed] == ["task-1"]


def test_an_object_that_is_no_json_by_its_name_is_no_receipt(home: AgentHome) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"
    with odd_server([head]) as server:
        error = ask(home, f"http://127.0.0.1:{server.server_address[1]}")
    assert isinstance(error, Unreachable)
    assert "text/plain" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": " 3 "}, 3),
        ({"Retry-After": "9" * 400}, 999_999_999),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "1.5"}, None),
        ({"Retry-After": "٣"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        (
            {
                "Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT",
                "Date": "Fri, 31 Dec 1999 23:58:59 GMT",
            },
            60,
        ),
        (
            {
                "Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT",
                "Date": "Sat, 01 Jan 2000 23:58:59 GMT",
            },
            0,
        ),
    ],
)
def test_when_to_come_back_is_read_in_each_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert seconds_to_wait(headers) == seconds


@pytest.mark.parametrize("proxied", [True, False])
def test_only_the_proxy_of_the_settings_is_used(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch, proxied: bool
) -> None:
    answer = b'{"code": "from_the_proxy"}'
    head = PROBLEM + b"Content-Length: %d\r\n\r\n" % len(answer)
    with odd_server([head + answer]) as proxy:
        address = f"http://127.0.0.1:{proxy.server_address[1]}"
        if not proxied:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, address)
        config = HostConfig("http://127.0.0.1:9", "host-1", proxy=address if proxied else "")
        error = ask(home, config.server, transport=way_out(config))
    if proxied:
        assert isinstance(error, Refused)
        assert error.code == "from_the_proxy"
    else:
        assert isinstance(error, Unreachable)
