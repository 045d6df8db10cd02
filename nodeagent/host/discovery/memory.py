"""Which GPU was at an address when its driver could last say so?

A GPU that is handed to a machine is held by VFIO, where NVML does not see it. What was read before
is kept in a file, with the numbers by which another card at the same address is told apart. Its
links are kept in a file of their own beside it, so that an agent of before reads the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, write_json
from nodeagent.host.discovery.bus import NO_SERIAL, PciDevice
from nodeagent.protocol import WireError
from nodeagent.topology.nvlink import RawLink

_MOST = 256
LINKS_FILE = "links.json"


@dataclass(frozen=True)
class KnownGpu:
    """A GPU as it was read. marks: vendor, device, subsystem and, where there is one, serial."""

    pci: str
    uuid: str
    marks: str
    model: str | None
    memory_bytes: int | None


class GpuMemory:
    """Keeps known GPUs in one file of the agent's folder. keeps: False only recalls."""

    def __init__(self, path: Path, *, keeps: bool = True) -> None:
        self._path, self._keeps = path, keeps
        self._known = self._read()
        self._links_path = path.with_name(LINKS_FILE)
        self._links = self._read_links()

    def recall(self, device: PciDevice) -> KnownGpu | None:
        """What was last read of the card at this address; None when another card is there."""
        known = self._known.get(device.address)
        return known if known is not None and _fits(known.marks, device) else None

    def replaced(self, device: PciDevice) -> KnownGpu | None:
        """The card that was last read at this address, where one of another serial number is now.

        Told of cards of one model: those of another have other marks as well.
        """
        known = self._known.get(device.address)
        if known is None or _base(known.marks) != _base(marks_of(device)):
            return None
        return None if _fits(known.marks, device) else known

    def links(self, device: PciDevice) -> list[RawLink] | None:
        """The links that the card at this address had; None where they were never read of it."""
        found = self._links.get(device.address)
        if found is None or not _fits(found["marks"], device):
            return None
        return [RawLink(device.address, *link) for link in found["links"]]

    def keep(self, gpus: Iterable[KnownGpu], links: Mapping[str, Sequence[RawLink]]) -> None:
        """Remember what was just read; a UUID is at one address only.

        links: by address; where a GPU has no entry, what was known of its links stays.
        """
        if not self._keeps:
            return
        fresh = [self._with_serial(gpu) for gpu in gpus]
        self._keep_links({g.pci: (g.marks, links[g.pci]) for g in fresh if g.pci in links})
        uuids = {gpu.uuid for gpu in fresh}
        known = {pci: old for pci, old in self._known.items() if old.uuid not in uuids}
        known |= {gpu.pci: gpu for gpu in fresh}
        if known != self._known:
            self._known = dict(list(known.items())[-_MOST:])
            write_json(self._path, [asdict(gpu) for gpu in self._known.values()])

    def _with_serial(self, gpu: KnownGpu) -> KnownGpu:
        """With the serial number of before, where it is the same card and cannot be read now."""
        old = self._known.get(gpu.pci)
        same = old is not None and old.uuid == gpu.uuid and gpu.marks == _base(old.marks)
        return replace(gpu, marks=old.marks) if old is not None and same else gpu

    def _keep_links(self, fresh: Mapping[str, tuple[str, Sequence[RawLink]]]) -> None:
        known = dict(self._links)
        for pci, (marks, links) in fresh.items():
            counts = Counter((link.target, link.target_class) for link in links)
            ends = [[target, kind, count] for (target, kind), count in counts.items()]
            known[pci] = {"marks": marks, "links": ends}
        if known != self._links:
            self._links = dict(list(known.items())[-_MOST:])
            write_json(self._links_path, self._links)

    def _read_links(self) -> dict[str, dict[str, Any]]:
        """What was kept; a damaged file is one that was never written."""
        try:
            stored = read_json(self._links_path) or {}
            kept = {
                str(pci): {"marks": str(entry["marks"]), "links": list(entry["links"])}
                for pci, entry in stored.items()
            }
            for entry in kept.values():
                for target, kind, count in entry["links"]:
                    RawLink("", target and str(target), kind and str(kind), int(count))
        except (OSError, WireError, TypeError, AttributeError, KeyError, ValueError):
            return {}
        return kept

    def _read(self) -> dict[str, KnownGpu]:
        try:
            stored = read_json(self._path)
            known = [KnownGpu(**entry) for entry in stored or []]
        except (OSError, WireError, TypeError, AttributeError):
            # A damaged file is like a host that was never looked at: UUIDs are then unknown.
            return {}
        return {gpu.pci: gpu for gpu in known}


def said(known: KnownGpu, device: PciDevice) -> str:
    """In words: which card was at the address, and which is there now."""
    now = device.serial.value or "none"
    return (
        f"{device.address} has another card than the one that was read there last: serial number "
        f"{now}, before {known.marks.removeprefix(_base(known.marks))} ({known.uuid})"
    )


def _base(marks: str) -> str:
    """Marks without the serial number."""
    head, colon, _ = marks.rpartition(":")
    return head + colon


def _fits(marks: str, device: PciDevice) -> bool:
    """Whether it may be the card with these marks: a serial number that is not known fits any."""
    now = marks_of(device)
    if marks == now or _base(marks) != _base(now):
        return marks == now
    return marks == _base(marks) or (
        device.serial.value is None and device.serial.reason != NO_SERIAL
    )


def marks_of(device: PciDevice) -> str:
    """What tells the card at an address from another one without its driver."""
    serial = device.serial.value or ""
    return f"{device.vendor}:{device.device}:{device.subsystem}:{serial}"
