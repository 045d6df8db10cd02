"""How does the helper listen: to whom, for how long, and for how much?

One request a connection: a line of JSON, answered by a line of JSON. Who asks is what the kernel
says about the other end of the socket, not what they say.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError
from nodeagent.host.helper.turns import HELPER_BUSY
from nodeagent.host.helper.verbs import Verbs
from nodeagent.host.helper.wire import MOST_BYTES, TASK_MISSING, Request, Verb, parse_request
from nodeagent.protocol import WireError, load_json

log = logging.getLogger("nodeagent.helper")
_READ_S = 5.0
_MOST_AT_ONCE = 16
# The rest of the places is for those that wait for no device: whatever hangs, the host is heard.
_MOST_AT_WORK = 12
_SHORT = frozenset({Verb.INSPECT, Verb.TRUST, Verb.BELIEF, Verb.TAKE, Verb.END_BURN_IN})
_CREDENTIALS = struct.Struct("3i")


class HelperServer:
    """Serves the verbs on a unix socket to the users with these ids."""

    def __init__(self, path: Path, verbs: Verbs, allowed: Collection[int], group: int = -1) -> None:
        self._path = path
        self._verbs = verbs
        self._allowed = frozenset(allowed)
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._working = threading.BoundedSemaphore(_MOST_AT_WORK)
        self._listener = socket.socket(socket.AF_UNIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)
        path.unlink(missing_ok=True)
        mask = os.umask(0o117)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        if group >= 0:
            os.chown(path, -1, group)
        self._listener.listen(_MOST_AT_ONCE)

    def serve(self) -> None:
        """Answer until the socket is closed.

        Machines of before the host's restart come back beside that: each may take minutes, and a
        host that answers nobody meanwhile would seem to be gone.
        """
        threading.Thread(target=self._verbs.resume, name="returning", daemon=True).start()
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:
                return
            self._places.acquire()
            threading.Thread(target=self._talk, args=(channel,), daemon=True).start()

    def close(self) -> None:
        """Stop listening; what is being done goes on to its end."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _talk(self, channel: socket.socket) -> None:
        try:
            with channel:
                if not self._is_allowed(channel):
                    return
                channel.settimeout(_READ_S)
                answer = self._answer(channel)
                channel.settimeout(_READ_S)
                channel.sendall(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            # The agent has gone; what was done is in the records, and it will look there.
            log.info("an answer reached nobody: %s", error)
        finally:
            self._places.release()

    def _is_allowed(self, channel: socket.socket) -> bool:
        """Whether the agent asks; anybody else is hung up on before anything is read."""
        raw = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, _ = _CREDENTIALS.unpack(raw)
        if user not in self._allowed:
            log.warning("process %s of user %s is not the agent", pid, user)
        return user in self._allowed

    def _answer(self, channel: socket.socket) -> dict[str, Any]:
        try:
            request = parse_request(load_json(_line(channel), max_bytes=MOST_BYTES))
        except WireError as error:
            if error.code == TASK_MISSING:
                detail = f"{error}; the agent is older than its helper: upgrade and restart it"
                return _problem(TASK_MISSING, detail, retryable=True)
            return _problem("request_invalid", str(error), retryable=False)
        short = request.verb in _SHORT
        if not short and not self._working.acquire(blocking=False):
            detail = f"{_MOST_AT_WORK} requests are under way, and none has ended"
            return _problem(HELPER_BUSY, detail, retryable=True)
        try:
            return self._done(request)
        finally:
            if not short:
                self._working.release()

    def _done(self, request: Request) -> dict[str, Any]:
        try:
            result = self._verbs.run(request)
        except BackendError as error:
            return _problem(error.code, error.detail, retryable=error.retryable)
        except Exception as error:
            log.exception("%s broke", request.verb)
            detail = f"the helper's code raised {type(error).__name__}"
            return _problem("backend_error", detail, retryable=True)
        return {"done": result.to_json() if result is not None else {}}


def _line(channel: socket.socket) -> bytes:
    """What was sent, up to the end of its line. Raises WireError."""
    got = b""
    while not got.endswith(b"\n"):
        try:
            part = channel.recv(65_536)
        except TimeoutError:
            raise WireError("", "not_json", "the request did not come in time") from None
        got += part
        if not part or len(got) > MOST_BYTES:
            raise WireError("", "too_large", "the request has no end")
    return got


def _problem(code: str, detail: str, *, retryable: bool) -> dict[str, Any]:
    return {"problem": {"code": str(code), "detail": detail[:2000], "retryable": retryable}}
