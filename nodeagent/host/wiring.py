"""What are this host's devices: its own, looked for, or those of a simulated host's folder?"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Protocol

from nodeagent.host.config import HostConfig
from nodeagent.host.discovery import (
    AskRoot,
    DeviceSight,
    GpuMemory,
    Handing,
    RootSight,
    discover,
    observe_devices,
)
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import (
    Condition,
    ObservedDevice,
    ObservedDevices,
    Presence,
    TopologyReport,
)
from nodeagent.simhost.hardware import read_config, read_hardware
from nodeagent.topology.slots import topology_report


class Wiring(Protocol):
    """Where devices are read from."""

    def read(self) -> TopologyReport:
        """How they are wired. Raises OSError or ValueError."""

    def look(self, report: TopologyReport) -> DeviceSight:
        """Which of a report's devices are there now."""


class OwnWiring:
    """This host's, through NVML, sysfs and PCI.

    folder: where GPUs are remembered. keeps: False only recalls, and writes nothing there.
    ask_root: what this process may not see.
    """

    def __init__(
        self,
        config: HostConfig,
        nvml: Nvml,
        folder: Path,
        keeps: bool,
        ask_root: AskRoot | None,
    ) -> None:
        self._root = config.root
        self._name = config.name
        self._handing = Handing(config.keep, config.virtual_functions)
        self._nvml = nvml
        self._ask_root = ask_root
        if keeps:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._memory = GpuMemory(folder / "gpus.json", keeps=keeps)
        self._told: tuple[Condition, ...] = ()

    def read(self) -> TopologyReport:
        """Discover anew. Raises TopologyError, or OSError while root cannot be asked."""
        ask_root = None if self._ask_root is None else self._rooted
        found = discover(self._root, self._nvml, self._memory, ask_root, self._handing)
        return topology_report(found, self._name)

    def _rooted(self) -> RootSight:
        """What root sees. An inventory without it would block slots for longer than that lasts."""
        assert self._ask_root is not None
        told = self._ask_root()
        if told.away:
            raise OSError(errno.ENOTCONN, told.unreadable)
        return told

    def look(self, report: TopologyReport) -> DeviceSight:
        """Look again."""
        sight = observe_devices(
            report, self._root, self._nvml, self._memory, self._ask_root, self._told
        )
        self._told = sight.conditions
        return sight


class ReplayedWiring:
    """That of a simulated host, whose devices are always there. Only where stand-ins are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> TopologyReport:
        """Read its files again. Raises TopologyError or OSError."""
        return read_hardware(self._folder, read_config(self._folder))

    def look(self, report: TopologyReport) -> DeviceSight:
        """All of them."""
        gpus, nics, nvmes = (
            tuple(ObservedDevice(name, Presence.PRESENT) for name in names)
            for names in (
                [gpu.uuid for gpu in report.gpus if gpu.uuid is not None],
                [nic.id for nic in report.nics],
                [nvme.id for nvme in report.nvmes],
            )
        )
        return DeviceSight(ObservedDevices(gpus, nics, nvmes), ())


def wiring(
    config: HostConfig,
    nvml: Nvml,
    folder: Path,
    *,
    keeps: bool = True,
    ask_root: AskRoot | None = None,
) -> Wiring:
    """What the configuration says. folder: of the half that asks, which alone `keeps` there.

    ask_root: of the half that has not root's rights.
    """
    if config.replay_topology is not None:
        return ReplayedWiring(config.replay_topology)
    return OwnWiring(config, nvml, folder, keeps, ask_root)
