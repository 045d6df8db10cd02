"""What does a node measure of itself?  Each number with its unit and how much of it is valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nodeagent.protocol.codec import Integer, Many, Message, Text
from nodeagent.protocol.errors import WireError
from nodeagent.protocol.messages import BootId, Time, Version
from nodeagent.protocol.topology import Bytes, Code, Id

Number = Annotated[int, Integer(-(2**53), 2**63 - 1)]
Count = Annotated[int, Integer(0, 2**40)]
MAX_WINDOWS = 8
# A quarter of what one document may hold is left for its frame.
MAX_SERIES = 3000


@dataclass(frozen=True)
class Series(Message):
    """One metric of one device over a window, in `unit`.

    valid and invalid count samples; reason is of the last invalid one. Without a valid sample the
    numbers are null: never zero. mean is in thousandths of the unit. increase is a counter's, over
    the window; a counter that went down began anew.
    """

    metric: Code
    unit: Code
    valid: Count
    invalid: Count
    reason: Code | None = None
    last: Number | None = None
    least: Number | None = None
    most: Number | None = None
    mean: Number | None = None
    increase: Number | None = None

    def check(self, pointer: str) -> None:
        """Numbers are there exactly when a sample was valid."""
        numbers = (self.last, self.least, self.most, self.mean)
        if any((number is None) == (self.valid > 0) for number in numbers):
            raise WireError(pointer, "bad_format", "numbers without a valid sample, or none with")


@dataclass(frozen=True)
class DeviceTelemetry(Message):
    """What was measured of one device; device null means the host itself."""

    device: Id | None
    series: Annotated[tuple[Series, ...], Many(64)]


@dataclass(frozen=True)
class XidCount(Message):
    """How often the driver told an error of one number in the window."""

    device: Id | None
    xid: Annotated[int, Integer(0, 2**32)]
    count: Annotated[int, Integer(1, 2**40)]
    last_at: Time


@dataclass(frozen=True)
class GpuProcess(Message):
    """A process of the host that used a GPU at the window's end. Names and arguments stay there."""

    device: Id
    pid: Annotated[int, Integer(0, 2**32)]
    memory_bytes: Bytes | None = None


@dataclass(frozen=True)
class TelemetryWindow(Message):
    """One interval. source says who measured: `host` or `simulated`."""

    seq: Annotated[int, Integer(1)]
    began_at: Time
    ended_at: Time
    source: Code
    devices: Annotated[tuple[DeviceTelemetry, ...], Many(257)]
    xids: Annotated[tuple[XidCount, ...], Many(256)] = ()
    processes: Annotated[tuple[GpuProcess, ...], Many(256)] = ()
    processes_more: Count = 0
    driver: Version | None = None
    cuda: Annotated[str, Text(20, pattern=r"\d{1,4}\.\d{1,4}")] | None = None

    @property
    def size(self) -> int:
        """How many series it has."""
        return sum(len(one.series) for one in self.devices)


@dataclass(frozen=True)
class TelemetryReport(Message):
    """POST /nodes/self/telemetry. lost: windows that were dropped before they could be sent."""

    boot_id: BootId
    windows: Annotated[tuple[TelemetryWindow, ...], Many(MAX_WINDOWS, least=1)]
    lost: Count = 0

    def check(self, pointer: str) -> None:
        """Windows come in order, and not more than a document should hold."""
        seqs = [window.seq for window in self.windows]
        if seqs != sorted(set(seqs)):
            raise WireError(f"{pointer}/windows", "not_unique", "windows are not in order")
        if len(self.windows) > 1 and sum(window.size for window in self.windows) > MAX_SERIES:
            raise WireError(f"{pointer}/windows", "too_many", f"over {MAX_SERIES} series")
