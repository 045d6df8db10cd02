"""How do the logs of kept processes stay bounded?

The processes append to files they hold open, so a full file is copied aside and emptied in
place. What is written between the copy and the emptying (microseconds) may be lost.
"""

import os
import shutil
from pathlib import Path

LIMIT_BYTES = 10 * 1024 * 1024
KEPT = 2


def rotate(log: Path, limit: int = LIMIT_BYTES, kept: int = KEPT) -> bool:
    """Empties a log over the limit, keeping the last ``kept`` of them; says whether it did."""
    try:
        if log.stat().st_size <= limit:
            return False
    except FileNotFoundError:
        return False
    for number in range(kept, 1, -1):
        older = log.with_name(f"{log.name}.{number - 1}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number}"))
    shutil.copy2(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)
    return True


def tail(log: Path, since: int = 0, limit: int = 2000) -> str:
    """The last ``limit`` bytes written after the offset ``since``; '' when there are none."""
    try:
        with open(log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since if since <= end else 0, end - limit))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
