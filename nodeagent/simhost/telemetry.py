"""What would a simulated host measure?  Made up, says so, and follows what is on its disk.

A GPU whose machine runs is busy; any other is idle. Numbers depend on the device and the time only,
so two looks at one moment agree. There is no process on a GPU: a machine's are not the host's.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from nodeagent.clock import Clock
from nodeagent.host.facts import Fact, present, unknown
from nodeagent.protocol import Gpu, TopologyReport
from nodeagent.simhost.state import SimHostState
from nodeagent.telemetry.window import WindowBuilder, WindowQueue

WINDOW_S = 60
_SAMPLES = 6
_IDLE_WATTS, _BUSY_WATTS = 70, 700
_SUPPOSED_MEMORY = 80 * 2**30


class SimulatedHost(Protocol):
    """What is asked of the host."""

    def topology(self) -> TopologyReport:
        """Its wiring."""

    def running(self) -> SimHostState:
        """What is on its disk now."""


class SimTelemetry:
    """Measures when it is asked, once a window."""

    def __init__(self, host: SimulatedHost, clock: Clock, *, window_s: int = WINDOW_S) -> None:
        self._host = host
        self._clock = clock
        self._window_s = window_s
        self._queue = WindowQueue()
        self._builder = WindowBuilder("simulated", int(clock.now()))

    def windows(self) -> WindowQueue:
        """Finished windows; a window that is over now is measured first."""
        now = int(self._clock.now())
        if now - self._builder.began_at >= self._window_s:
            self._measure(now)
            self._queue.put(self._builder.close(now))
        elif now < self._builder.began_at:
            self._builder.began_at = now
        return self._queue

    def _measure(self, now: int) -> None:
        state = self._host.running()
        busy = {
            device for vm in state.vms.values() if vm.state == "running" for device in vm.devices
        }
        for gpu in self._host.topology().gpus:
            if gpu.uuid is None:
                continue
            for place in range(_SAMPLES):
                self._builder.add(gpu.uuid, _sample(gpu, gpu.uuid in busy, now + place))
        share = len(busy) and 20
        self._builder.add(None, {"cpu_utilisation": present(3 + share + _noise("cpu", now) % 5)})


def _sample(gpu: Gpu, busy: bool, now: int) -> dict[str, Fact[int]]:
    noise = _noise(gpu.uuid or "", now)
    load = 60 + noise % 40 if busy else 0
    memory = gpu.memory_bytes or _SUPPOSED_MEMORY
    used = memory * (40 + noise % 30) // 100 if busy else 0
    watts = _IDLE_WATTS + (_BUSY_WATTS - _IDLE_WATTS) * load // 100
    return {
        "gpu_utilisation": present(load),
        "memory_utilisation": present(load // 2),
        "memory_used": present(used),
        "memory_free": present(memory - used),
        "sm_clock": present(1980 if busy else 345),
        "temperature": present(32 + load // 2 + noise % 3),
        "memory_temperature": unknown("simulated"),
        "power": present(watts * 1000),
        "ecc_uncorrected": present(0),
        "throttle_reasons": present(0 if busy else 1),
        "processes": present(0),
    }


def _noise(name: str, now: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{name} {now}".encode()).digest()[:2], "big")
