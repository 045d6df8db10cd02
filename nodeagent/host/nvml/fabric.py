"""Which NVLink domain does a GPU share with GPUs of other hosts?

The fabric manager registers each GPU in a cluster and, within it, in a clique whose members reach
each other's memory (nvml.h, nvmlGpuFabricInfoV_t). A host whose NVSwitches serve it alone completes
the registration too, with a cluster of zeros: that is no domain, and must never look like a common
one.
"""

from __future__ import annotations

import uuid
from ctypes import byref
from typing import Any

import pynvml

from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.host.nvml.library import NvmlSession, reason_of
from nodeagent.protocol import GpuFabric, Presence

_STATES = {1: "fabric_not_started", 2: "fabric_in_progress"}
_NOT_SUPPORTED, _COMPLETED = 0, 3
_NO_CLIQUE = 2**32 - 1
# What the driver says while its fabric manager has not told a GPU its place.
NOT_READY = frozenset(_STATES.values())


def read_fabric(session: NvmlSession, handle: Any) -> Fact[tuple[str, int]]:
    """The cluster's UUID and the clique's number; absent where the GPU shares no domain."""
    asked = session.ask_either(_ask, _ask_older, handle)
    if asked.value is None:
        return Fact(asked.presence, None, asked.reason)
    info = asked.value
    state, status = int(info.state), int(info.status)
    if state == _NOT_SUPPORTED:
        return absent("not_supported")
    if state != _COMPLETED:
        return unknown(_STATES.get(state, "unknown_state"))
    if status:
        return unknown(f"fabric_{reason_of(pynvml.NVMLError(status))}"[:64])
    cluster = uuid.UUID(bytes=bytes(info.clusterUuid))
    if not cluster.int:
        return absent("single_host")
    if int(info.cliqueId) == _NO_CLIQUE:
        return unknown("sentinel")
    return present((str(cluster), int(info.cliqueId)))


def on_the_wire(fact: Fact[tuple[str, int]]) -> GpuFabric:
    """The reading as a topology report has it."""
    if fact.value is None:
        return GpuFabric(fact.presence, reason=fact.reason or None)
    cluster, clique = fact.value
    return GpuFabric(Presence.PRESENT, cluster, clique)


def _ask(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
    return info


def _ask_older(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_t()
    pynvml.nvmlDeviceGetGpuFabricInfo(handle, byref(info))
    return info
