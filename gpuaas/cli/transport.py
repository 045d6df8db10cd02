"""How does one logical call reach the server exactly once, over a network that loses replies?

A call that changes something carries one idempotency key, made before the first attempt and
sent again on each retry, so that a reply lost on the way costs nothing.
"""

import email.utils
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from gpuaas.cli.exits import Exit
from gpuaas.cli.problems import CliError, Json, ProblemError, TransportError
from gpuaas.cli.redact import redact_headers, redact_json, redact_text

API_BASE = "/api/v1"
RETRY_STATUSES = frozenset({429, 502, 503, 504})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# The twin of our own call is still running on the server: its answer is ours to wait for.
_OWN_CALL_RUNNING = "idempotency_key_in_use"

Trace = Callable[[int, str], None]
"""Receives (level, line): level 1 is one line a request, level 2 adds headers and bodies."""


def _no_trace(level: int, line: str) -> None:
    """Drop the line: tracing is off."""


def new_idempotency_key() -> str:
    """A fresh key for one logical call."""
    return str(uuid.uuid4())


class Transport:
    """Sends requests to one server, retries what is safe, and turns refusals into problems.

    `timeout_s` bounds one attempt; `attempts` counts all tries of a call. `sleep` and `now`
    are injectable for tests; both are in seconds.
    """

    def __init__(
        self,
        server: str,
        token: str = "",
        *,
        request_id: str = "",
        user_agent: str = "gpuaas-cli",
        ca_file: str = "",
        timeout_s: float = 30.0,
        attempts: int = 5,
        max_pause_s: float = 60.0,
        trace: Trace = _no_trace,
        notice: Callable[[str], None] = lambda line: None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.server = server.rstrip("/")
        self.token = token
        self.timeout_s = timeout_s
        self.attempts = max(1, attempts)
        self.max_pause_s = max_pause_s
        self._trace = trace
        self._notice = notice
        self._sleep = sleep
        self._now = now
        headers = {"Accept": "application/json", "User-Agent": user_agent}
        if request_id:
            headers["X-Request-ID"] = request_id
        try:
            self._http = httpx.Client(
                base_url=self.server,
                headers=headers,
                timeout=timeout_s,
                follow_redirects=False,
                verify=_tls_context(ca_file) if ca_file else True,
            )
        except (OSError, ValueError, httpx.InvalidURL) as error:
            raise CliError(f"cannot use {self.server}: {error}", Exit.USAGE) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        read_timeout_s: float | None = None,
    ) -> httpx.Response:
        """One logical call. Returns a 2xx or 304 response.

        Raises ProblemError for a refusal, TransportError when no usable answer came.
        """
        sent = dict(headers or {})
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if method not in SAFE_METHODS:
            sent["Idempotency-Key"] = idempotency_key or new_idempotency_key()
        content: bytes | None = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        wanted = {k: v for k, v in (params or {}).items() if v is not None and v != ""}
        timeout = httpx.Timeout(
            self.timeout_s, read=read_timeout_s if read_timeout_s else self.timeout_s
        )
        lost_reply = False
        for attempt in range(1, self.attempts + 1):
            last = attempt == self.attempts
            try:
                response = self._send(method, self.url_path(path), wanted, content, sent, timeout)
            except httpx.TransportError as error:
                self._trace(1, f"{method} {path} attempt {attempt}: {type(error).__name__}")
                # A connection that was never made cannot have delivered the call.
                lost_reply = lost_reply or not isinstance(
                    error, httpx.ConnectError | httpx.ConnectTimeout
                )
                if last or isinstance(error, httpx.UnsupportedProtocol):
                    raise self._gave_up(error) from error
                self._pause(attempt, None, f"{type(error).__name__}; trying again")
                continue
            if response.is_success or response.status_code == 304:
                return response
            if method == "DELETE" and lost_reply and response.status_code == 404:
                # The first try did it and its reply was lost: the thing is gone, as asked.
                return httpx.Response(204, headers=response.headers, request=response.request)
            problem = self._problem(response)
            retry = response.status_code in RETRY_STATUSES or problem.code == _OWN_CALL_RUNNING
            pause = self._retry_after(response)
            if not retry or last or (pause is not None and pause > self.max_pause_s):
                raise problem
            self._pause(attempt, pause, f"the server answered {response.status_code}; trying again")
        raise TransportError("no attempt was made")

    def url_path(self, path: str) -> str:
        """The path on the server: relative paths lie under the API's base."""
        if path.startswith(("http://", "https://", "//")):
            # The bearer must not travel to another host.
            raise CliError("give a path, not a URL", Exit.USAGE)
        path = path if path.startswith("/") else f"/{path}"
        return path if path.startswith(("/api/", "/agent/")) else f"{API_BASE}{path}"

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any],
        content: bytes | None,
        headers: Mapping[str, str],
        timeout: httpx.Timeout,
    ) -> httpx.Response:
        request = self._http.build_request(
            method, path, params=params or None, content=content, headers=headers, timeout=timeout
        )
        for name, value in redact_headers(request.headers).items():
            self._trace(2, f"> {name}: {value}")
        if content is not None:
            self._trace(2, f"> {json.dumps(redact_json(json.loads(content)))}")
        started = time.monotonic()
        response = self._http.send(request)
        took_ms = (time.monotonic() - started) * 1000
        self._trace(
            1, f"{method} {redact_text(str(request.url))} -> {response.status_code} {took_ms:.0f}ms"
        )
        for name, value in redact_headers(response.headers).items():
            self._trace(2, f"< {name}: {value}")
        self._trace(2, f"< {_shown_body(response)}")
        return response

    def _pause(self, attempt: int, retry_after_s: float | None, why: str) -> None:
        backoff = min(0.2 * 2 ** (attempt - 1), 5.0) * random.uniform(0.5, 1.0)
        pause = backoff if retry_after_s is None else retry_after_s
        if pause >= 1.0:
            self._notice(f"{why} in {pause:.0f} s")
        self._trace(1, f"{why} in {pause:.2f}s")
        self._sleep(pause)

    def _retry_after(self, response: httpx.Response) -> float | None:
        raw = response.headers.get("Retry-After", "").strip()
        if not raw:
            return None
        try:
            return max(0.0, float(raw))
        except ValueError:
            pass
        try:
            return max(0.0, email.utils.parsedate_to_datetime(raw).timestamp() - self._now())
        except (TypeError, ValueError):
            return None

    def _problem(self, response: httpx.Response) -> ProblemError:
        body: Json = {}
        try:
            parsed = response.json()
            body = parsed if isinstance(parsed, dict) else {}
        except ValueError:
            pass
        if 300 <= response.status_code < 400:
            target = response.headers.get("Location", "")
            body.setdefault("detail", f"the server redirects to {target}; use that as --server")
        docs = body.get("docs")
        if isinstance(docs, str) and docs.startswith("/"):
            body["docs"] = f"{self.server}{docs}"
        return ProblemError(
            response.status_code, body, request_id=response.headers.get("X-Request-ID", "")
        )

    def _gave_up(self, error: httpx.TransportError) -> TransportError:
        timed_out = isinstance(error, httpx.TimeoutException)
        what = "did not answer in time" if timed_out else "could not be reached"
        reason = str(error) or type(error).__name__
        return TransportError(
            f"{self.server} {what}: {reason}", timed_out=timed_out, hint="gpuaas doctor"
        )


def json_of(response: httpx.Response) -> Any:
    """The parsed body; an empty body is None. Raises TransportError when it is not JSON."""
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise TransportError(
            f"{response.request.url.host} answered something that is not JSON",
            hint="is --server the address of the control plane?",
        ) from error


def _shown_body(response: httpx.Response) -> str:
    try:
        return json.dumps(redact_json(response.json()))
    except ValueError:
        return redact_text(response.text[:2000])


def _tls_context(ca_file: str) -> Any:
    import ssl

    return ssl.create_default_context(cafile=ca_file)
