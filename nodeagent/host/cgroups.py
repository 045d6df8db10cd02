"""Which control group (version 2) does a program get for itself, and is it empty?

The kernel kills a group as a whole, with whatever was just forked in it. A host without groups of
version 2, or whose groups cannot be written here, gives none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

_PROC = Path("/proc")
_NAME = "gpuaas-hook-"
_LOOK_S = 0.01


def made(proc: Path = _PROC) -> str:
    """A new group's folder; '' where this host gives none."""
    home = _own(proc)
    if home is None:
        return ""
    folder = home / f"{_NAME}{secrets.token_hex(8)}"
    try:
        folder.mkdir()
    except OSError:
        return ""
    if not (folder / "cgroup.kill").exists():
        # A kernel before 5.14.
        folder.rmdir()
        return ""
    return str(folder)


def is_ours(word: str) -> bool:
    """Whether this is the folder of a group that was made here."""
    return word.startswith("/") and Path(word).name.startswith(_NAME)


def kill(folder: str) -> None:
    """Kill whatever is in it, or below."""
    if folder:
        with contextlib.suppress(OSError):
            (Path(folder) / "cgroup.kill").write_text("1")


def members(folder: str) -> list[int]:
    """The processes in it, or below."""
    found: list[int] = []
    for path in _below(folder):
        with contextlib.suppress(OSError, ValueError):
            found += map(int, (path / "cgroup.procs").read_text().split())
    return found


def gone(folder: str, within_s: float) -> bool:
    """Remove it once it is empty; whether it was within that time. Nothing can be in what is gone.

    A group that something of its own was killed in is empty a moment later.
    """
    until = time.monotonic() + within_s
    while folder and Path(folder).is_dir():
        for path in reversed(_below(folder)):
            with contextlib.suppress(OSError):
                path.rmdir()
        if time.monotonic() > until:
            return not Path(folder).is_dir()
        time.sleep(_LOOK_S)
    return True


def _below(folder: str) -> list[Path]:
    """It and the groups that were made in it, each before those below it."""
    return [Path(top) for top, _, _ in os.walk(folder)] if folder else []


def _own(proc: Path) -> Path | None:
    """The folder of the group that this process is in."""
    try:
        mounts = [line.split() for line in (proc / "self/mounts").read_text().splitlines()]
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return None
    place = next((line[3:] for line in lines if line.startswith("0::")), None)
    where = next((words[1] for words in mounts if words[2:3] == ["cgroup2"]), None)
    return None if place is None or where is None else Path(where + place)
