"""Who on this host has a file open, and what is mounted, in every namespace?"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

# They hold a GPU's device file for as long as the host is up, run as root, and serve no tenant.
SYSTEM_PROGRAMS = frozenset(
    {
        "/usr/bin/nvidia-persistenced",
        "/usr/bin/nv-fabricmanager",
        "/usr/bin/nv-hostengine",
    }
)


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
        if process.name == str(os.getpid()) or (not everybody and _is_system(process)):
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


def _is_system(process: Path) -> bool:
    try:
        program = os.readlink(process / "exe")
        return program in SYSTEM_PROGRAMS and (process / "exe").stat().st_uid == 0
    except OSError:
        return False


def _name(process: Path) -> str:
    try:
        text = (process / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:32]
