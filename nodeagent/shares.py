"""Which CPUs and how much memory has this host itself ever counted to a GPU?

With a card fewer or more a host divides a NUMA node's CPUs and memory anew, while the control plane
goes on with what was approved. So what a task names is held against every division that this host
has made, and not against the last alone.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, write_json
from nodeagent.protocol import TopologyReport, WireError, cpu_numbers

log = logging.getLogger("nodeagent")
_MOST_OF_A_GPU = 16
_MOST_GPUS = 512
_Share = tuple[int | None, str, int]


class Shares:
    """The divisions that were made here: by GPU its NUMA node, CPUs and bytes of memory, on disk.

    Where the file is lost or damaged only the present division counts, until a card comes or goes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._read()
        self._last: TopologyReport | None = None

    def learn(self, report: TopologyReport) -> None:
        """Remember how this report divides; the newest divisions of each GPU are kept."""
        if report is self._last:
            return
        changed = False
        for slot in report.slots:
            if slot.gpu_uuid is None:
                continue
            share = (slot.numa, slot.cpuset or "", slot.memory_bytes or 0)
            shares = self._known.setdefault(slot.gpu_uuid, [])
            if share not in shares:
                shares.append(share)
                del shares[:-_MOST_OF_A_GPU]
                changed = True
        for uuid in list(self._known)[:-_MOST_GPUS]:
            del self._known[uuid]
        self._last = report
        if changed:
            try:
                write_json(self._path, self._known)
            except OSError as error:
                log.warning("divisions not written: %s", error.strerror)

    def problem(self, gpu: str, numa: int | None, cpuset: str | None, memory: int | None) -> str:
        """Why a task's CPUs or memory are not this GPU's; '' where they are."""
        shares = [share for share in self._known.get(gpu, []) if share[0] == numa]
        if cpuset is not None:
            wanted = cpu_numbers(cpuset)
            own = (cpu_numbers(cpus) or frozenset() for _, cpus, _ in shares)
            if wanted is None or not any(wanted <= cpus for cpus in own):
                return "names CPUs that are not its own"
        most = [share[2] or 2**60 for share in shares]
        if memory is not None and memory > max(most, default=2**60):
            return "names more memory than it has"
        return ""

    def _read(self) -> dict[str, list[_Share]]:
        try:
            stored: Any = read_json(self._path) or {}
            return {
                uuid: [(numa, str(cpus), int(memory)) for numa, cpus, memory in shares]
                for uuid, shares in stored.items()
            }
        except (WireError, AttributeError, TypeError, ValueError):
            log.warning("%s cannot be read; only the present division counts", self._path.name)
            return {}
