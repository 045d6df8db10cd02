"""Where does this host's wiring come from: its own devices, or a simulated host's folder?"""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.host.config import HostConfig
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import TopologyReport
from nodeagent.simhost.hardware import read_config, read_hardware


def topology_reader(config: HostConfig, nvml: Nvml) -> Callable[[], TopologyReport]:
    """How to read the wiring. What it returns raises OSError or ValueError."""
    replay = config.replay_topology
    assert replay is not None

    def replayed() -> TopologyReport:
        return read_hardware(replay, read_config(replay))

    return replayed
