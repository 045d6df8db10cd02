"""Which errors has the driver written about a GPU since a moment, and is that all of them?

From the kernel's log. A line of the driver's is `NVRM: Xid (PCI:0000:65:00): 79, pid=…`. Which
numbers keep a GPU from the next tenant follows NVIDIA's XID catalogue: those whose action is a
reset, a restart or more. A fault of a tenant's own program (13, 31, 43, 45) says nothing about the
device.

The log is a ring: what is old is overwritten, and each boot begins a new one. Its records are
numbered without a gap from zero, so that what is missing shows. It is therefore read all along,
and what was read is kept.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nodeagent.files import read_json, write_json
from nodeagent.protocol import WireError
from nodeagent.topology.pci import normal_address

log = logging.getLogger("nodeagent.helper")
# Immediate action "reset GPU", "restart bare metal", "workflow_*" or a permanent failure in the
# catalogue of 2025-10-29, as listed by gpud.
BLOCKING = frozenset(
    {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 154, 155, 156, 158}
)
_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")
_MOST_LINES = 200_000
_MOST_XIDS = 4096
# How far reading may be ahead of what is on disk; the ring holds some thousands of records.
_KEPT_EVERY = 256


class XidsUnknown(Exception):
    """Not everything since that moment was read, and why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One message of the log: its number since boot, its microseconds since boot, its text."""

    number: int
    at_us: int
    text: str


@dataclass
class _Read:
    """What was read of one boot's log: everything from `whole_from_us` to record `next`."""

    boot: str
    next: int = 0
    whole_from_us: int = 0
    xids: list[list[Any]] = field(default_factory=list)


class KernelLog:
    """The kernel's ring buffer, or a file in its form."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def records(self) -> list[Record]:
        """Every message that is still there, oldest first. Raises OSError."""
        found: list[Record] = []
        handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                try:
                    # The device gives one message a read; a file gives many at once.
                    part = os.read(handle, 65_536)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    # Overwritten while it was read: the next number tells.
                    continue
                if not part:
                    break
                found += (one for one in map(_record, part.splitlines()) if one is not None)
                if len(found) > _MOST_LINES:
                    raise OSError(errno.EFBIG, "the log has no end")
        finally:
            os.close(handle)
        return found


class XidWatch:
    """Reads the log again and again. boot: this boot's id; path: where what was read is kept."""

    def __init__(self, kernel_log: KernelLog, boot: str, path: Path | None = None) -> None:
        self._log = kernel_log
        self._path = path
        self._turn = threading.Lock()
        self._read = self._stored(boot)
        self._on_disk = self._read.next

    def look(self) -> None:
        """Read on; often enough that nothing is overwritten meanwhile. Raises OSError."""
        with self._turn:
            self._take(self._log.records())

    def since(self, address: str, since_us: int) -> list[int]:
        """A GPU's XIDs since that moment of this boot, in order.

        Raises OSError, or XidsUnknown when something of that time was overwritten unread.
        """
        wanted = _function_zero(address)
        with self._turn:
            self._take(self._log.records())
            read = self._read
            if read.next == 0:
                raise XidsUnknown("the kernel's log has no records")
            if read.whole_from_us > since_us:
                seconds = (read.whole_from_us - since_us) / 1_000_000
                raise XidsUnknown(
                    f"the kernel's log was overwritten: {seconds:.0f} seconds after the claim "
                    "began are not in it"
                )
            return [int(xid) for at, where, xid in read.xids if at >= since_us and where == wanted]

    def _take(self, records: list[Record]) -> None:
        read, new = self._read, False
        if records and records[-1].number < read.next - 1:
            # The numbers began anew: what is between is not known.
            read.next = 0
            read.whole_from_us = records[0].at_us
            new = True
        for one in records:
            if one.number < read.next:
                continue
            if one.number > read.next:
                read.whole_from_us, new = one.at_us, True
            read.next = one.number + 1
            match = _LINE.search(one.text)
            if match:
                read.xids.append([one.at_us, _function_zero(match[1]), int(match[2])])
                new = True
        if len(read.xids) > _MOST_XIDS:
            read.whole_from_us = max(read.whole_from_us, read.xids[-_MOST_XIDS - 1][0] + 1)
            del read.xids[:-_MOST_XIDS]
        if new or read.next - self._on_disk >= _KEPT_EVERY:
            self._keep()

    def _keep(self) -> None:
        if self._path is None:
            return
        try:
            write_json(self._path, asdict(self._read))
            self._on_disk = self._read.next
        except OSError as error:
            # What is in memory goes on; a restart with a full disk finds a gap and says so.
            log.warning("what was read of the kernel's log is not kept: %s", error)

    def _stored(self, boot: str) -> _Read:
        try:
            raw = read_json(self._path) if self._path is not None else None
            kept = _Read(**raw) if isinstance(raw, dict) else None
        except (WireError, OSError, TypeError):
            kept = None
        return kept if kept is not None and kept.boot == boot else _Read(boot)


def _record(line: bytes) -> Record | None:
    head, separator, text = line.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
        return None
    return Record(int(fields[1]), int(fields[2]), text)


def _function_zero(address: str) -> str | None:
    """The address in the kernel's form; the driver leaves the function out."""
    return normal_address(address if "." in address else f"{address}.0")
