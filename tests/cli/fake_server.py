"""A control plane small enough to read: what did the client send, and what did it make of answers?

Routes are plain functions from a Call to a Reply. The server answers over real loopback HTTP,
and can lose a reply after the call took effect.
"""

import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TOKEN = "gpuaas_pat_abcdef012345_0123456789abcdef0123456789abcdefA1B2C3"
BASE = "/api/v1"


@dataclass
class Call:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def key(self) -> str:
        """The idempotency key, "" without one."""
        return self.headers.get("idempotency-key", "")


@dataclass
class Reply:
    """One answer; with `lost` the connection closes without it."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    raw: bytes | None = None


Route = Callable[[Call], Reply]


def problem(status: int, code: str, detail: str, **more: Any) -> Reply:
    """A refusal as RFC 9457 says it."""
    body = {
        "type": f"https://docs.example.org/problems/{code.replace('_', '-')}",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": "req-1",
        **more,
    }
    return Reply(status, body, {"Content-Type": "application/problem+json"})


def listing(*items: dict[str, Any], following: str | None = None) -> Reply:
    """One page."""
    return Reply(200, {"items": list(items), "next": following})


def pages(items: list[dict[str, Any]], size: int) -> Route:
    """A route that serves items in pages of at most `size`."""

    def serve(call: Call) -> Reply:
        start = int(call.query.get("cursor", "c0")[1:])
        count = min(size, int(call.query.get("limit", size)))
        after = start + count
        return listing(*items[start:after], following=f"c{after}" if after < len(items) else None)

    return serve


def in_turn(*replies: Reply) -> Route:
    """A route that gives each reply once, and then the last one again and again."""
    left = list(replies)

    def serve(call: Call) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    return serve


class FakeServer:
    """The server: register with `on`, look at `calls` afterwards."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.routes: list[tuple[str, re.Pattern[str], Route]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                fake.serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def on(self, method: str, path: str, answer: Route | Reply | dict[str, Any]) -> None:
        """Answer this call; a later registration outranks an earlier one."""
        route: Route
        if callable(answer):
            route = answer
        else:
            fixed = answer if isinstance(answer, Reply) else Reply(200, answer)

            def route(call: Call) -> Reply:
                return fixed

        self.routes.insert(0, (method, re.compile(BASE + path), route))

    def sent(self, method: str, path: str) -> list[Call]:
        """The calls that arrived for this method and path."""
        return [c for c in self.calls if c.method == method and c.path == BASE + path]

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length)
        parts = urlsplit(handler.path)
        call = Call(
            handler.command,
            parts.path,
            {name: found[0] for name, found in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in handler.headers.items()},
            json.loads(raw) if raw else None,
        )
        self.calls.append(call)
        reply = self._answer(call)
        if reply.lost:
            handler.close_connection = True
            return
        body = reply.raw
        if body is None:
            body = b"" if reply.body is None else json.dumps(reply.body).encode()
        # send_response would add a date of its own beside the reply's.
        if "Date" in reply.headers:
            handler.send_response_only(reply.status)
        else:
            handler.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        # A client that was interrupted is no longer there to read.
        with suppress(ConnectionError):
            handler.end_headers()
            handler.wfile.write(body)

    def _answer(self, call: Call) -> Reply:
        open_to_all = call.path == f"{BASE}/auth/token"
        if not open_to_all and call.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "unauthenticated", "no valid token was sent")
        for method, pattern, route in self.routes:
            if method == call.method and pattern.fullmatch(call.path):
                return route(call)
        return problem(404, "not_found", "there is no such thing")
