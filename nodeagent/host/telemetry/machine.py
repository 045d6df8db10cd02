"""How busy and how full is the host itself?"""

from __future__ import annotations

import os
import re

from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, present, unknown

_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s*(\d{1,15})\s*kB", re.MULTILINE)
# Columns of the first line of /proc/stat (proc(5)): idle and iowait are not work.
_IDLE, _IOWAIT = 3, 4
_COLUMNS = 8


class MachineMeter:
    """Measures below a root; CPU use is what was used since the look before."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before: tuple[int, int] | None = None

    def sample(self) -> dict[str, Fact[int]]:
        """One look."""
        return {"cpu_utilisation": self._cpu(), **self._memory(), **self._disk()}

    def _cpu(self) -> Fact[int]:
        line = (self._tree.text(self._tree.path("proc/stat")).value or "").splitlines()[:1]
        words = line[0].split()[1 : 1 + _COLUMNS] if line else []
        if len(words) <= _IOWAIT or not all(word.isdecimal() for word in words):
            return unknown("not_told")
        ticks = [int(word) for word in words]
        now = sum(ticks), ticks[_IDLE] + ticks[_IOWAIT]
        before, self._before = self._before, now
        if before is None or now[0] <= before[0]:
            return unknown("first_look")
        return present(100 - 100 * (now[1] - before[1]) // (now[0] - before[0]))

    def _memory(self) -> dict[str, Fact[int]]:
        text = self._tree.text(self._tree.path("proc/meminfo")).value or ""
        found = {name: int(size) * 1024 for name, size in _MEMORY.findall(text)}
        return {
            name: present(found[word]) if word in found else unknown("not_told")
            for name, word in (
                ("host_memory_total", "MemTotal"),
                ("host_memory_available", "MemAvailable"),
            )
        }

    def _disk(self) -> dict[str, Fact[int]]:
        try:
            disk = os.statvfs(self._tree.root)
        except OSError:
            return {"disk_total": unknown("io_error"), "disk_free": unknown("io_error")}
        return {
            "disk_total": present(disk.f_blocks * disk.f_frsize),
            "disk_free": present(disk.f_bavail * disk.f_frsize),
        }
