"""On which machine was it measured?  Cores, memory, the disk's kind and its sync time."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

SYNCS = 200


def memory_mb() -> int:
    """Memory of the machine in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def disk_kind(folder: Path) -> str:
    """The kind of file system and device under a folder, without naming either's path."""
    device = os.stat(folder).st_dev
    major, minor = os.major(device), os.minor(device)
    block = Path(f"/sys/dev/block/{major}:{minor}")
    rotational = next(
        (
            path.read_text(encoding="ascii").strip()
            for path in (block / "queue/rotational", block / "../queue/rotational")
            if path.exists()
        ),
        "",
    )
    kind = {"0": "solid-state or virtual disk", "1": "rotating or virtual disk"}
    return kind.get(rotational, "no block device of its own (memory or network)")


def sync_ms(folder: Path) -> float:
    """Median time of one 8 KiB write with fdatasync, in milliseconds."""
    block = os.urandom(8192)
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), block, 0)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000


def described(folder: Path) -> dict[str, object]:
    """The machine in facts that say nothing about whose it is."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": memory_mb(),
        "disk": disk_kind(folder),
        "disk_sync_ms": round(sync_ms(folder), 3),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_1m": round(os.getloadavg()[0], 2),
    }
