"""Which errors has the driver written about a GPU since a moment? From the kernel's log.

A line of the driver's is `NVRM: Xid (PCI:0000:65:00): 79, pid=…`. Which numbers keep a GPU from
the next tenant follows NVIDIA's XID catalogue: those whose action is a reset, a restart or more. A
fault of a tenant's own program (13, 31, 43, 45) says nothing about the device.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from nodeagent.topology.pci import normal_address

# Immediate action "reset GPU", "restart bare metal", "workflow_*" or a permanent failure in the
# catalogue of 2025-10-29, as listed by gpud.
BLOCKING = frozenset(
    {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 154, 155, 156, 158}
)
_LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")
_MOST_LINES = 200_000


class KernelLog:
    """The kernel's ring buffer, or a file in its form."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[tuple[int, str]]:
        """Every message with its microseconds since boot. Raises OSError."""
        found: list[tuple[int, str]] = []
        handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while len(found) < _MOST_LINES:
                try:
                    # The device gives one message a read; a file gives many at once.
                    part = os.read(handle, 65_536)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    continue
                if not part:
                    break
                found += (one for one in map(_message, part.splitlines()) if one is not None)
        finally:
            os.close(handle)
        return found

    def xids(self, address: str, since_us: int) -> list[int]:
        """The XIDs of a GPU since then, in order. Raises OSError."""
        wanted = _function_zero(address)
        found = []
        for at, text in self.lines():
            match = _LINE.search(text)
            if match and at >= since_us and _function_zero(match[1]) == wanted:
                found.append(int(match[2]))
        return found


def _message(line: bytes) -> tuple[int, str] | None:
    head, separator, text = line.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not fields[2].isdecimal():
        return None
    return int(fields[2]), text


def _function_zero(address: str) -> str | None:
    """The address in the kernel's form; the driver leaves the function out."""
    return normal_address(address if "." in address else f"{address}.0")
