"""How is a running QEMU asked and told? One QMP command at a time over its unix socket.

The other end is a process that a tenant's guest may have taken over, so every answer is bounded in
size and time and nothing in it is trusted.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_BYTES = 1024 * 1024
_MOST_EVENTS = 1000


class QmpError(Exception):
    """QEMU did not answer, answered nonsense, or refused the command."""


class Qmp:
    """One connection. timeout_s bounds each command as a whole."""

    def __init__(self, channel: socket.socket, timeout_s: float) -> None:
        self._channel = channel
        self._timeout_s = timeout_s
        self._pending = b""

    def command(self, name: str, **arguments: Any) -> Any:
        """Run a command and return what it gives. Raises QmpError."""
        request: dict[str, Any] = {"execute": name}
        if arguments:
            request["arguments"] = arguments
        deadline = time.monotonic() + self._timeout_s
        try:
            self._channel.settimeout(self._timeout_s)
            self._channel.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise QmpError(f"{name}: {type(error).__name__}") from error
        for _ in range(_MOST_EVENTS):
            answer = self.read(deadline)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise QmpError(f"{name} was refused: {str(answer['error'])[:300]}")
        raise QmpError(f"{name}: only events and no answer")

    def read(self, deadline: float) -> dict[str, Any]:
        """The next message. Raises QmpError."""
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._pending) > _MOST_BYTES:
                raise QmpError("no whole answer in time")
            try:
                self._channel.settimeout(left)
                part = self._channel.recv(65_536)
            except OSError as error:
                raise QmpError(f"no answer: {type(error).__name__}") from error
            if not part:
                raise QmpError("QEMU closed the connection")
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise QmpError("the answer is not JSON") from error
        if not isinstance(message, dict):
            raise QmpError("the answer is not an object")
        return message


@contextlib.contextmanager
def connected(path: Path, timeout_s: float = 5.0) -> Iterator[Qmp]:
    """A connection that has been greeted and may give commands. Raises QmpError."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(timeout_s)
        try:
            channel.connect(str(path))
        except OSError as error:
            raise QmpError(f"cannot connect: {type(error).__name__}") from error
        qmp = Qmp(channel, timeout_s)
        if "QMP" not in qmp.read(time.monotonic() + timeout_s):
            raise QmpError("no greeting")
        qmp.command("qmp_capabilities")
        yield qmp


def thread_ids(qmp: Qmp) -> list[int]:
    """The host threads of the virtual CPUs, by CPU number. Raises QmpError."""
    answer = qmp.command("query-cpus-fast")
    if not isinstance(answer, list):
        raise QmpError("query-cpus-fast gave no list")
    found = []
    for one in answer:
        thread = one.get("thread-id") if isinstance(one, dict) else None
        if not isinstance(thread, int) or thread <= 1:
            raise QmpError("query-cpus-fast gave no thread")
        found.append(thread)
    return found


def machine_uuid(qmp: Qmp) -> str:
    """The UUID that the machine was started with. Raises QmpError."""
    answer = qmp.command("query-uuid")
    text = answer.get("UUID") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise QmpError("query-uuid gave no UUID")
    return text


def run_state(qmp: Qmp) -> str:
    """QEMU's word for what the machine does, as `running`. Raises QmpError."""
    answer = qmp.command("query-status")
    text = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise QmpError("query-status gave no status")
    return text
