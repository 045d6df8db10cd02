"""How is another program run: by its path, without a shell, bounded in time and output?"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

MOST_OUTPUT_BYTES = 64 * 1024
_LOOK_S = 0.2
# Nothing of the agent's own environment, which may hold secrets of its service.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


class CommandError(Exception):
    """A program that was not run to its end: not_started, timed_out, too_much or stopped."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it wrote."""

    status: int
    output: bytes
    errors: bytes

    @property
    def complaint(self) -> str:
        """What it said on its error channel, cut short, printable."""
        text = (self.errors or self.output).decode("utf-8", "replace")[-500:].strip()
        return "".join(sign if sign.isprintable() else " " for sign in text)


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    given: bytes = b"",
    stop: threading.Event | None = None,
    started: Callable[[int], None] | None = None,
) -> Ran:
    """Run a program with these arguments, with `given` on its standard input.

    It leads a process group of its own, which is killed as a whole when it takes longer than
    timeout_s, writes more than 64 KiB, or `stop` is set. started: told the group's number once it
    runs. Raises CommandError.
    """
    if not argv or not argv[0].startswith("/"):
        raise CommandError("not_started", "a program is run by its full path only")
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=ENVIRONMENT,
            cwd="/",
        )
    except OSError as error:
        name = os.path.basename(argv[0])
        raise CommandError("not_started", f"{name}: {error.strerror}") from error
    try:
        if started is not None:
            started(process.pid)
        output, errors = _talk(process, given, time.monotonic() + timeout_s, stop)
        return Ran(process.wait(timeout=5), output, errors)
    except subprocess.TimeoutExpired:
        raise CommandError("timed_out", "it closed its output and did not end") from None
    finally:
        # Also what it left running behind it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _talk(
    process: subprocess.Popen[bytes],
    given: bytes,
    deadline: float,
    stop: threading.Event | None,
) -> tuple[bytes, bytes]:
    """Feed and read until both outputs are closed. Raises CommandError."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    heard: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for stream in heard:
            waiting.register(stream, selectors.EVENT_READ)
        if given:
            waiting.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while any(stream in waiting.get_map() for stream in heard):
            left = deadline - time.monotonic()
            if left <= 0:
                raise CommandError("timed_out", "it took too long and was killed")
            if stop is not None and stop.is_set():
                raise CommandError("stopped", "it was stopped and killed")
            for key, _ in waiting.select(left if stop is None else min(left, _LOOK_S)):
                if key.fileobj is process.stdin:
                    given = _feed(process.stdin, given)
                    if not given:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                    continue
                stream = process.stdout if key.fileobj is process.stdout else process.stderr
                part = os.read(stream.fileno(), 65_536)
                if not part:
                    waiting.unregister(stream)
                heard[stream] += part
                if len(heard[stream]) > MOST_OUTPUT_BYTES:
                    raise CommandError("too_much", "it wrote more than 64 KiB and was killed")
    return bytes(heard[process.stdout]), bytes(heard[process.stderr])


def _feed(stream: IO[bytes], given: bytes) -> bytes:
    """Write what fits now; what is left. A reader that has gone needs no more."""
    try:
        return given[os.write(stream.fileno(), given[:4096]) :]
    except BrokenPipeError:
        return b""
