"""What does NVIDIA's management library say, with every way in which it fails to say it?"""

from __future__ import annotations

from nodeagent.host.nvml.device import GpuRecord, LinkRecord, MigRecord, read_gpus
from nodeagent.host.nvml.library import Nvml, NvmlBusy, NvmlSession, NvmlUnavailable

__all__ = [
    "GpuRecord",
    "LinkRecord",
    "MigRecord",
    "Nvml",
    "NvmlBusy",
    "NvmlSession",
    "NvmlUnavailable",
    "read_gpus",
]
