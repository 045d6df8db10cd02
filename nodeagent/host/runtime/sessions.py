"""Is anything of a program that was started here still running, and how is it ended for certain?

A program is started by a supervisor that leads a session of its own, is the parent of whatever
loses its parent below it, and ends only when nothing is left. Where the host has control groups of
version 2 the program begins in one of its own as well, which the kernel kills as a whole. So it can
be found and ended also by a helper that did not start it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host import cgroups

_PROC = Path("/proc")
_LOOK_S = 0.05
_DEAD = ("Z", "X")


@dataclass(frozen=True)
class Session:
    """A session by its leader. started: the leader's start, in clock ticks since boot.

    cgroup: the folder of the control group that what was started is in; '' where there is none.
    """

    pid: int
    started: int
    cgroup: str = ""


@dataclass(frozen=True)
class _Process:
    pid: int
    state: str
    parent: int
    session: int
    started: int


def session_of(pid: int, cgroup: str = "", proc: Path = _PROC) -> Session | None:
    """The session that this process leads; None where it is gone already."""
    found = _process(proc / str(pid))
    return Session(pid, found.started, cgroup) if found is not None else None


def led_by(program: Path, proc: Path = _PROC) -> list[Session]:
    """The sessions whose leader was started as this program, or to start it."""
    found = []
    for entry in proc.iterdir():
        one = _process(entry) if entry.name.isdecimal() else None
        if one is None or one.session != one.pid:
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(program) in words:
                groups = [os.fsdecode(word) for word in words if cgroups.is_ours(os.fsdecode(word))]
                found.append(Session(one.pid, one.started, groups[0] if groups else ""))
    return found


def members(session: Session, proc: Path = _PROC) -> list[int]:
    """What still runs: of the session, below its leader, or in its control group.

    Only what is in the group counts where the session's number is somebody else's now.
    """
    found = set(cgroups.members(session.cgroup))
    leader = _process(proc / str(session.pid))
    if leader is not None and leader.started != session.started:
        return sorted(found)
    every = [one for entry in proc.iterdir() if entry.name.isdecimal() for one in _looked(entry)]
    below = {session.pid}
    while True:
        more = {one.pid for one in every if one.parent in below} - below
        if not more:
            break
        below |= more
    own = (one for one in every if one.session == session.pid or one.pid in below)
    return sorted(found | {one.pid for one in own if one.state not in _DEAD})


def end(session: Session, within_s: float) -> bool:
    """Kill everything of it; whether nothing of it runs any more after that time.

    Its leader last: as long as it is there, nothing below it is lost from sight.
    """
    until = time.monotonic() + within_s
    while True:
        left = members(session)
        if not left:
            return True
        cgroups.kill(session.cgroup)
        _signal(session.pid, session, signal.SIGTERM)
        _signal(session.pid, session, signal.SIGCONT)
        for pid in left:
            if pid != session.pid or left == [pid]:
                _signal(pid, session, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)


def _signal(pid: int, session: Session, number: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Between the look and the handle the number may have gone to another process.
        if pid in members(session):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _looked(entry: Path) -> Iterator[_Process]:
    found = _process(entry)
    if found is not None:
        yield found


def _process(entry: Path) -> _Process | None:
    """What the kernel says of a process; None where it is gone."""
    try:
        # Its name stands in parentheses and may hold anything.
        told = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return _Process(int(entry.name), told[0], int(told[1]), int(told[3]), int(told[19]))
    except (OSError, IndexError, ValueError):
        return None
