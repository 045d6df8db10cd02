"""How is another program run: by its path, without a shell, bounded in time and output?"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nodeagent.host import cgroups
from nodeagent.host.runtime import sessions
from nodeagent.host.runtime.owners import Owner
from nodeagent.host.runtime.sessions import Session

HELD_BY_GROUP = "all that it started is over, by its control group (cgroup.kill)"
HELD_BY_PARENT = "all that it started is over, by the parent that it could not lose (subreaper)"
MOST_OUTPUT_BYTES = 64 * 1024
_LOOK_S = 0.2
_LAST_S = 10.0
_DIES_S = 5.0
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
# Nothing of the agent's own environment, which may hold secrets of its service.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


# Reaped by whoever runs something next.
_undead: list[subprocess.Popen[bytes]] = []


class CommandError(Exception):
    """A program not run to its end: not_started, timed_out, too_much, stopped or not_held."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it wrote. held: by what everything that it started was."""

    status: int
    output: bytes
    errors: bytes
    held: str = ""

    @property
    def complaint(self) -> str:
        """What it said on its error channel, cut short, printable."""
        text = (self.errors or self.output).decode("utf-8", "replace")[-500:].strip()
        return "".join(sign if sign.isprintable() else " " for sign in text)


def run(
    argv: Sequence[str], *, timeout_s: float, given: bytes = b"", run_as: Owner | None = None
) -> Ran:
    """Run a program with these arguments, with `given` on its standard input.

    It leads a process group of its own, which is killed as a whole when it takes longer than
    timeout_s or writes more than 64 KiB. Raises CommandError.
    """
    if not argv or not argv[0].startswith("/"):
        raise CommandError("not_started", "a program is run by its full path only")
    process = _started(argv, run_as)
    try:
        output, errors = _talk(process, given, time.monotonic() + timeout_s, None)
        return Ran(process.wait(timeout=5), output, errors)
    except subprocess.TimeoutExpired:
        raise CommandError("timed_out", "it closed its output and did not end") from None
    finally:
        # Also what it left running behind it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _close(process)
        _reap(process)


def run_held(
    program: Path,
    *,
    timeout_s: float,
    given: bytes = b"",
    stop: threading.Event | None = None,
    started: Callable[[Session], None] | None = None,
) -> Ran:
    """Run a program of somebody else's, without arguments; nothing of what it starts outlives this.

    Not what begins a session of its own either: a supervisor is the parent of whatever loses its
    parent, and a control group holds all of it where the host has them. It is killed as `run` says,
    and what it leaves running when it ends is killed as well. started: told the session once it
    runs. Raises CommandError: also `not_held` where something of it is left, or may be.
    """
    cgroup = cgroups.made()
    argv = [sys.executable, "-I", "-S", str(_SUPERVISOR), cgroup, str(program)]
    try:
        process = _started(argv)
    except CommandError:
        cgroups.gone(cgroup, 0)
        raise
    held = HELD_BY_GROUP if cgroup else HELD_BY_PARENT
    session = sessions.session_of(process.pid, cgroup) or Session(process.pid, -1, cgroup)
    try:
        if started is not None:
            started(session)
        output, errors = _talk(process, given, time.monotonic() + timeout_s, stop)
        ran = Ran(process.wait(timeout=_LAST_S), output, errors, held)
    except subprocess.TimeoutExpired:
        _end_held(process, session)
        raise CommandError("timed_out", f"it closed its outputs and did not end; {held}") from None
    except CommandError as error:
        _end_held(process, session)
        raise CommandError(error.code, f"{error.detail}; {held}") from None
    except BaseException:
        _end_held(process, session)
        raise
    finally:
        _close(process)
    _end_held(process, session)
    return ran


def _end_held(process: subprocess.Popen[bytes], session: Session) -> None:
    """Nothing of it runs when this returns. Raises CommandError where that cannot be shown.

    The supervisor's own end says so; where it was killed, only an empty group does.
    """
    if process.poll() is None:
        cgroups.kill(session.cgroup)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_LAST_S)
    if process.poll() is None:
        ended = sessions.end(session, _LAST_S)
    else:
        cgroups.kill(session.cgroup)
        # It blocks the order to end before it starts anything: who dies of it has started nothing.
        by_itself = process.returncode >= 0 or process.returncode == -signal.SIGTERM
        ended = by_itself or bool(session.cgroup)
        if not ended:
            # At least what has stayed where it began.
            sessions.end(session, _LAST_S)
    if not (cgroups.gone(session.cgroup, _LAST_S) and ended):
        raise CommandError("not_held", "something that it started may still run")


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Raises CommandError where it does not die: whoever waits in the kernel outlives a kill."""
    _undead[:] = [one for one in _undead if one.poll() is None]
    try:
        process.wait(timeout=_DIES_S)
    except subprocess.TimeoutExpired:
        _undead.append(process)
        detail = f"process {process.pid} does not die of being killed: it waits in the kernel"
        raise CommandError("timed_out", detail) from None


def _started(argv: Sequence[str], run_as: Owner | None = None) -> subprocess.Popen[bytes]:
    """Raises CommandError."""
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=ENVIRONMENT,
            cwd="/",
            user=run_as.uid if run_as else None,
            group=run_as.gid if run_as else None,
            extra_groups=run_as.groups if run_as else None,
        )
    except OSError as error:
        name = os.path.basename(argv[0])
        raise CommandError("not_started", f"{name}: {error.strerror}") from error


def _close(process: subprocess.Popen[bytes]) -> None:
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
