"""Who on this host has a file open, and what is mounted, in every namespace?"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# It lets go of a GPU when it is told to.
PERSISTENCE_DAEMON = "/usr/bin/nvidia-persistenced"
# They hold a GPU's device file for as long as the host is up, run as root, and serve no tenant.
SYSTEM_PROGRAMS = frozenset(
    {
        PERSISTENCE_DAEMON,
        "/usr/bin/nv-fabricmanager",
        "/usr/bin/nv-hostengine",
    }
)


_MOST_PARENTS = 64


@dataclass(frozen=True)
class Opener:
    """A process that has a file open. what: under which name the file was asked for."""

    what: str
    pid: int
    name: str


@dataclass(frozen=True)
class Users:
    """Who has what open. unseen: processes that may not be looked into; unknown: what no file is
    known of."""

    found: tuple[Opener, ...] = ()
    unseen: tuple[int, ...] = ()
    unknown: tuple[str, ...] = ()


def openers(files: Mapping[str, Path], proc: Path = Path("/proc")) -> Users:
    """Who has these files open, other than whatever this process has started and the driver's
    persistence daemon, which let go by themselves."""
    wanted: dict[tuple[str, int, int], str] = {}
    for what, path in files.items():
        wanted |= dict.fromkeys(_marks(path), what)
    found, unseen = [], []
    for process in _processes(proc) if wanted else ():
        pid = int(process.name)
        try:
            opened = {mark for one in (process / "fd").iterdir() for mark in _marks(one)}
        except PermissionError:
            unseen.append(pid)
            continue
        except OSError:
            # It has ended meanwhile.
            continue
        names = {wanted[mark] for mark in opened & wanted.keys()}
        if names and not _started_here(pid, proc) and not _is(process, {PERSISTENCE_DAEMON}):
            found += [Opener(what, pid, _name(process)) for what in sorted(names)]
    return Users(tuple(found), tuple(unseen))


def _started_here(pid: int, proc: Path) -> bool:
    """Whether it is this process or below it, like a hook and what that has started."""
    for _ in range(_MOST_PARENTS):
        if pid == os.getpid():
            return True
        try:
            # Its name stands in parentheses and may hold anything.
            told = (proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            pid = int(told.split()[1])
        except (OSError, IndexError, ValueError):
            return False
    return False


def holders(
    paths: Collection[Path],
    proc: Path = Path("/proc"),
    *,
    all_seen: bool = False,
    everybody: bool = False,
) -> list[str]:
    """The processes that have one of these files open, as `pid (name)`.

    all_seen: one that may not be looked into counts as one of them, since nobody knows.
    everybody: also the driver's own services.

    Files are compared by device and inode, or for device files by their number, so that another
    name for the same thing does not hide it.
    """
    wanted = {mark for path in paths for mark in _marks(path)}
    found = []
    for process in _processes(proc):
        if process.name == str(os.getpid()) or (not everybody and _is(process, SYSTEM_PROGRAMS)):
            continue
        try:
            if any(
                mark in wanted for opened in (process / "fd").iterdir() for mark in _marks(opened)
            ):
                found.append(f"{process.name} ({_name(process)})")
        except PermissionError:
            if all_seen:
                found.append(f"{process.name} ({_name(process)}), which may not be looked into")
        except OSError:
            # It has ended meanwhile.
            continue
    return found


def mounts(numbers: Collection[str], proc: Path = Path("/proc")) -> list[str]:
    """Where these block devices (as `259:1`) are mounted, in any mount namespace."""
    found, seen = set(), set()
    for process in _processes(proc):
        try:
            space = os.readlink(process / "ns" / "mnt")
            if space in seen:
                continue
            table = (process / "mountinfo").read_text("utf-8", "replace")
        except OSError:
            continue
        seen.add(space)
        for line in table.splitlines():
            fields = line.split(" ")
            if len(fields) > 4 and fields[2] in numbers:
                found.add(fields[4])
    return sorted(found)


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdecimal())


def _marks(path: Path) -> tuple[tuple[str, int, int], ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        kind = "c" if stat.S_ISCHR(found.st_mode) else "b"
        return ((kind, found.st_rdev, 0),)
    return (("f", found.st_dev, found.st_ino),)


def _is(process: Path, programs: Collection[str]) -> bool:
    """Whether it runs one of these programs, and the program is root's."""
    try:
        program = os.readlink(process / "exe")
        return program in programs and (process / "exe").stat().st_uid == 0
    except OSError:
        return False


def _name(process: Path) -> str:
    try:
        text = (process / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:32] or "?"
