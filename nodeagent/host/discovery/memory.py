"""Which GPU was at an address when its driver could last say so?

A GPU that is handed to a machine is held by VFIO, where NVML does not see it. What was read before
is kept in a file, with the numbers by which another card at the same address is told apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from nodeagent.files import read_json, write_json
from nodeagent.host.discovery.bus import PciDevice
from nodeagent.protocol import WireError

_MOST = 256


@dataclass(frozen=True)
class KnownGpu:
    """A GPU as it was read. marks: vendor, device, subsystem and, where there is one, serial."""

    pci: str
    uuid: str
    marks: str
    model: str | None
    memory_bytes: int | None


class GpuMemory:
    """Keeps known GPUs in one file of the agent's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._read()

    def recall(self, device: PciDevice) -> KnownGpu | None:
        """What was last read of the card at this address; None when another card is there."""
        known = self._known.get(device.address)
        return known if known is not None and known.marks == marks_of(device) else None

    def keep(self, gpus: Iterable[KnownGpu]) -> None:
        """Remember what was just read; a UUID is at one address only."""
        fresh = list(gpus)
        uuids = {gpu.uuid for gpu in fresh}
        known = {pci: old for pci, old in self._known.items() if old.uuid not in uuids}
        known |= {gpu.pci: gpu for gpu in fresh}
        if known != self._known:
            self._known = dict(list(known.items())[-_MOST:])
            write_json(self._path, [asdict(gpu) for gpu in self._known.values()])

    def _read(self) -> dict[str, KnownGpu]:
        try:
            stored = read_json(self._path)
            known = [KnownGpu(**entry) for entry in stored or []]
        except (WireError, TypeError, AttributeError):
            # A damaged file is like a host that was never looked at: UUIDs are then unknown.
            return {}
        return {gpu.pci: gpu for gpu in known}


def marks_of(device: PciDevice) -> str:
    """What tells the card at an address from another one without its driver."""
    serial = device.serial.value or ""
    return f"{device.vendor}:{device.device}:{device.subsystem}:{serial}"
