"""Who looks at the GPUs every few seconds, and makes windows of it?

Two threads of their own: a driver that hangs then stops the measuring and nothing else; the agent
goes on, and what is measured grows old, which the control plane and the exposition show.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodeagent.clock import Clock
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact
from nodeagent.host.nvml import Nvml, NvmlUnavailable
from nodeagent.host.telemetry.amd import has_amd, sample_amd
from nodeagent.host.telemetry.gpu import GpuSample, cuda_of, driver_of, sample_gpus, told_apart
from nodeagent.host.telemetry.machine import MachineMeter
from nodeagent.host.telemetry.xids import watch_xids
from nodeagent.telemetry.window import WindowBuilder, WindowQueue

log = logging.getLogger("nodeagent")
_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,64}")


@dataclass(frozen=True)
class Latest:
    """The last look, for the exposition. xids: how often each was told since the start."""

    at: float | None = None
    gpus: list[GpuSample] = field(default_factory=list)
    machine: dict[str, Fact[int]] = field(default_factory=dict)
    xids: dict[tuple[str | None, int], int] = field(default_factory=dict)
    last_xid: dict[str | None, int] = field(default_factory=dict)
    driver: str | None = None
    unavailable: str = ""


class HostTelemetry:
    """Samples every `sample_s` seconds and closes a window every `window_s`."""

    def __init__(
        self,
        nvml: Nvml,
        clock: Clock,
        root: Path = Path("/"),
        *,
        sample_s: float = 5.0,
        window_s: float = 60.0,
    ) -> None:
        self._nvml = nvml
        self._clock = clock
        self._sample_s, self._window_s = sample_s, window_s
        self._has_amd = has_amd(root)
        self._meter = MachineMeter(Tree(root))
        self._builder = WindowBuilder("host", int(clock.now()))
        self._queue = WindowQueue()
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._latest = Latest()

    def start(self) -> None:
        """Begin; the threads end with the process, or with `stop`."""
        for name, work in (("telemetry", self._sample_on), ("xids", self._watch_on)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, wait_s: float = 5.0) -> None:
        """End; a thread that hangs in the driver is left behind."""
        self._stop.set()
        for thread in self._threads:
            thread.join(wait_s)

    def windows(self) -> WindowQueue:
        """Finished windows."""
        return self._queue

    def latest(self) -> Latest:
        """The last look."""
        with self._turn:
            return self._latest

    def sample(self) -> None:
        """One look now; closes the window when it is over."""
        gpus, driver, cuda, why = self._look()
        amd, amd_why = self._look_at_amd() if self._has_amd else ([], "no_card")
        gpus = told_apart([*gpus, *amd])
        machine = self._meter.sample()
        now = self._clock.now()
        with self._turn:
            for gpu in gpus:
                self._builder.add(gpu.device, gpu.values)
            self._builder.add(None, machine)
            if not (why and amd_why):
                processes = [process for gpu in gpus for process in gpu.processes]
                self._builder.set_processes(processes)
                self._builder.driver, self._builder.cuda = driver, cuda
            was = self._latest
            self._latest = Latest(now, gpus, machine, was.xids, was.last_xid, driver, why)
            if now - self._builder.began_at >= self._window_s:
                self._queue.put(self._builder.close(int(now)))
            elif now < self._builder.began_at:
                # The clock was set back; a window must not last until it has caught up.
                self._builder.began_at = int(now)

    def take_xid(self, device: str | None, xid: int) -> None:
        """An error was told."""
        with self._turn:
            self._builder.add_xid(device, xid, int(self._clock.now()))
            was = self._latest
            # New ones, since a page of the old may be in the making.
            xids = was.xids | {(device, xid): was.xids.get((device, xid), 0) + 1}
            self._latest = replace(was, xids=xids, last_xid=was.last_xid | {device: xid})

    def _look(self) -> tuple[list[GpuSample], str | None, str | None, str]:
        try:
            with self._nvml.session() as session:
                driver = driver_of(session)
                known = driver if driver and _VERSION.fullmatch(driver) else None
                return sample_gpus(session), known, cuda_of(session), ""
        except NvmlUnavailable as error:
            return [], None, None, error.reason

    def _look_at_amd(self) -> tuple[list[GpuSample], str]:
        try:
            with self._nvml.holding():
                return sample_amd()
        except NvmlUnavailable as error:
            return [], error.reason

    def _sample_on(self) -> None:
        while not self._stop.wait(self._sample_s):
            try:
                self.sample()
            except Exception:
                # Measuring must never end because of one odd value.
                log.exception("a look at the GPUs broke")

    def _watch_on(self) -> None:
        while not self._stop.is_set():
            try:
                watch_xids(self._nvml, self.take_xid, lambda: not self._stop.is_set())
            except NvmlUnavailable as error:
                log.debug("no XIDs now: %s", error.reason)
            except Exception:
                log.exception("the watch for XIDs broke")
            self._stop.wait(self._sample_s)
