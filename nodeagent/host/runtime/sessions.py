"""Is anything of a program that was started here still running, and how is it ended for certain?

A program is started as the leader of a session of its own. Whatever it starts stays in that session
unless it leaves on purpose, and the kernel gives the session's number to nobody else meanwhile: so
it can be found and ended also by a helper that did not start it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_LOOK_S = 0.05
_DEAD = ("Z", "X")


@dataclass(frozen=True)
class Session:
    """A session by its leader. started: the leader's start, in clock ticks since boot."""

    pid: int
    started: int


@dataclass(frozen=True)
class _Process:
    pid: int
    state: str
    session: int
    started: int


def session_of(pid: int, proc: Path = _PROC) -> Session | None:
    """The session that this process leads; None where it is gone already."""
    found = _process(proc / str(pid))
    return Session(pid, found.started) if found is not None else None


def led_by(program: Path, proc: Path = _PROC) -> list[Session]:
    """The sessions whose leader was started as this program."""
    found = []
    for entry in proc.iterdir():
        one = _process(entry) if entry.name.isdecimal() else None
        if one is None or one.session != one.pid:
            continue
        with contextlib.suppress(OSError):
            if os.fsencode(program) in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(Session(one.pid, one.started))
    return found


def members(session: Session, proc: Path = _PROC) -> list[int]:
    """The processes of a session that still run; none where its number is somebody else's now."""
    leader = _process(proc / str(session.pid))
    if leader is not None and leader.started != session.started:
        return []
    every = (_process(entry) for entry in proc.iterdir() if entry.name.isdecimal())
    return sorted(
        one.pid for one in every if one and one.session == session.pid and one.state not in _DEAD
    )


def end(session: Session, within_s: float) -> bool:
    """Kill everything in a session; whether nothing of it runs any more after that time."""
    until = time.monotonic() + within_s
    while True:
        left = members(session)
        if not left:
            return True
        for pid in left:
            _kill(pid, session)
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)


def _kill(pid: int, session: Session) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Between the look and the handle the number may have gone to another process.
        if pid in members(session):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


def _process(entry: Path) -> _Process | None:
    """What the kernel says of a process; None where it is gone."""
    try:
        # Its name stands in parentheses and may hold anything.
        told = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return _Process(int(entry.name), told[0], int(told[3]), int(told[19]))
    except (OSError, IndexError, ValueError):
        return None
