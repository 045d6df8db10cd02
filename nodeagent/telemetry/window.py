"""How do samples become one window: least, most, mean, last, and how many of them were valid?"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodeagent.host.facts import Fact
from nodeagent.protocol import (
    DeviceTelemetry,
    GpuProcess,
    Series,
    TelemetryWindow,
    XidCount,
)
from nodeagent.telemetry.metrics import METRICS, Kind, Metric, invalid

MOST_DEVICES = 257
MOST_XIDS = 256
MOST_PROCESSES = 256
MOST_KEPT = 64

Sample = Mapping[str, Fact[int]]


@dataclass
class _Running:
    """One metric of one device so far. `before` outlives windows: a counter's last value."""

    metric: Metric
    before: int | None = None
    valid: int = 0
    invalid: int = 0
    reason: str = ""
    last: int = 0
    least: int = 0
    most: int = 0
    total: int = 0
    increase: int = 0

    def add(self, fact: Fact[int]) -> None:
        """Take one sample in."""
        value = fact.value
        why = fact.reason if value is None else invalid(self.metric, value)
        if value is None or why:
            self.invalid += 1
            self.reason = why or "unknown"
            return
        if self.metric.kind is Kind.BITS:
            self.least = value if not self.valid else self.least & value
            self.most = self.most | value
        else:
            self.least = value if not self.valid else min(self.least, value)
            self.most = value if not self.valid else max(self.most, value)
        if self.metric.kind is Kind.COUNTER and self.before is not None:
            # A counter that went down began anew, for example after a reset.
            self.increase += value - self.before if value >= self.before else value
        self.before = value
        self.valid += 1
        self.last = value
        self.total += value

    def close(self) -> Series:
        """The series of this window; the next one begins."""
        counts = self.metric.kind is Kind.COUNTER
        series = Series(
            metric=self.metric.name,
            unit=self.metric.unit,
            valid=self.valid,
            invalid=self.invalid,
            reason=self.reason or None,
            last=self.last if self.valid else None,
            least=self.least if self.valid else None,
            most=self.most if self.valid else None,
            mean=min(self.total * 1000 // self.valid, 2**63 - 1) if self.valid else None,
            increase=self.increase if counts and self.valid else None,
        )
        self.valid = self.invalid = self.total = self.increase = self.most = self.least = 0
        self.reason = ""
        return series


@dataclass
class WindowBuilder:
    """Collects samples by device; `close` gives the window and begins the next."""

    source: str
    began_at: int
    seq: int = 1
    driver: str | None = None
    cuda: str | None = None
    _running: dict[tuple[str | None, str], _Running] = field(default_factory=dict)
    _xids: Counter[tuple[str | None, int]] = field(default_factory=Counter)
    _xid_at: dict[tuple[str | None, int], int] = field(default_factory=dict)
    _processes: list[GpuProcess] = field(default_factory=list)

    def add(self, device: str | None, sample: Sample) -> None:
        """One sample of a device. Names that are no metric are left out."""
        for name, fact in sample.items():
            metric = METRICS.get(name)
            if metric is not None:
                key = (device, name)
                if key not in self._running:
                    self._running[key] = _Running(metric)
                self._running[key].add(fact)

    def add_xid(self, device: str | None, xid: int, at: int) -> None:
        """An error that the driver told."""
        self._xids[(device, xid)] += 1
        self._xid_at[(device, xid)] = at

    def set_processes(self, processes: Sequence[GpuProcess]) -> None:
        """Who uses the GPUs now."""
        self._processes = list(processes)

    def close(self, ended_at: int) -> TelemetryWindow:
        """The window up to now."""
        devices: dict[str | None, list[Series]] = {}
        for key, running in list(self._running.items()):
            if running.valid or running.invalid:
                devices.setdefault(key[0], []).append(running.close())
            else:
                # The device was not there for a whole window: it would count from an old value.
                del self._running[key]
        xids = [
            XidCount(device, xid, count, self._xid_at[(device, xid)])
            for (device, xid), count in self._xids.most_common(MOST_XIDS)
        ]
        window = TelemetryWindow(
            seq=self.seq,
            began_at=self.began_at,
            ended_at=max(ended_at, self.began_at),
            source=self.source,
            devices=tuple(
                DeviceTelemetry(device, tuple(series[:64]))
                for device, series in list(devices.items())[:MOST_DEVICES]
            ),
            xids=tuple(xids),
            processes=tuple(self._processes[:MOST_PROCESSES]),
            processes_more=max(0, len(self._processes) - MOST_PROCESSES),
            driver=self.driver,
            cuda=self.cuda,
        )
        self._xids.clear()
        self._xid_at.clear()
        self.seq, self.began_at = self.seq + 1, window.ended_at
        return window


class WindowQueue:
    """Windows that nobody has taken yet: the last few, and how many were lost."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._windows: deque[TelemetryWindow] = deque()
        self._most = most
        self.lost = 0

    def put(self, window: TelemetryWindow) -> None:
        """Keep it; the oldest goes when there are too many."""
        self._windows.append(window)
        while len(self._windows) > self._most:
            self._windows.popleft()
            self.lost += 1

    def waiting(self) -> list[TelemetryWindow]:
        """Oldest first."""
        return list(self._windows)

    def taken(self, seq: int, lost: int) -> None:
        """The control plane has everything up to `seq`, and knows of `lost` losses."""
        while self._windows and self._windows[0].seq <= seq:
            self._windows.popleft()
        self.lost = max(0, self.lost - lost)
