"""What does NVML say that a GPU is doing now?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from nodeagent.host.facts import Fact, absent, present, unknown
from nodeagent.host.nvml.device import address, field_value, plain_text, uuid_in
from nodeagent.host.nvml.library import NvmlSession
from nodeagent.protocol import GpuProcess
from nodeagent.telemetry.metrics import SENTINELS

# Field numbers of nvml.h. The links of a GPU together are asked for by a scope of all ones.
_MEMORY_TEMPERATURE, _LINK_TX, _LINK_RX = 82, 138, 139
_ALL_LINKS = 2**32 - 1
# Of all links of a GPU, at its end. NVML does not count NVSwitches by themselves.
_LINK_ERRORS = {
    "nvlink_crc_flit_errors": 38,
    "nvlink_crc_data_errors": 45,
    "nvlink_replay_errors": 52,
    "nvlink_recovery_errors": 59,
}
_KIBI = 1024
# nvmlDeviceGetPcieThroughput answers in thousands of bytes a second.
_KILO = 1000


@dataclass(frozen=True)
class GpuSample:
    """One look at one GPU. device: its UUID, or its address or number where that is unknown."""

    device: str
    number: int
    pci: str | None
    name: str | None
    values: dict[str, Fact[int]]
    processes: tuple[GpuProcess, ...]
    processes_known: bool
    vendor: str = "nvidia"


def sample_gpus(session: NvmlSession) -> list[GpuSample]:
    """Every GPU, each by itself. Raises NvmlUnavailable."""
    return [_sample(session, number) for number in range(session.count())]


def told_apart(samples: list[GpuSample]) -> list[GpuSample]:
    """The samples with a name for each that no other has.

    Where two say one UUID, neither is called by it: one series must not be of two devices.
    """
    found = samples
    for by_address in (True, False):
        taken = Counter(one.device for one in found)
        found = [
            one
            if taken[one.device] == 1
            else _called(one, (by_address and one.pci) or _number(one))
            for one in found
        ]
    return found


def _number(sample: GpuSample) -> str:
    return f"{'gpu' if sample.vendor == 'nvidia' else sample.vendor}-{sample.number}"


def _called(sample: GpuSample, name: str) -> GpuSample:
    processes = tuple(replace(one, device=name) for one in sample.processes)
    return replace(sample, device=name, processes=processes)


def driver_of(session: NvmlSession) -> str | None:
    """The driver's version."""
    return plain_text(session.ask(pynvml.nvmlSystemGetDriverVersion)).value


def cuda_of(session: NvmlSession) -> str | None:
    """The newest CUDA that the driver can do, for example 12.4."""
    number = session.ask(pynvml.nvmlSystemGetCudaDriverVersion).value
    if number is None or not 1000 <= int(number) < 1_000_000:
        return None
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _sample(session: NvmlSession, number: int) -> GpuSample:
    found = session.ask(pynvml.nvmlDeviceGetHandleByIndex, number)
    if found.value is None:
        values: dict[str, Fact[int]] = {name: unknown(found.reason) for name in _NAMES}
        return GpuSample(f"gpu-{number}", number, None, None, values, (), False)
    handle = found.value
    uuid = uuid_in(session.ask(pynvml.nvmlDeviceGetUUID, handle)).value
    pci = address(session.ask(pynvml.nvmlDeviceGetPciInfo, handle)).value
    device = (uuid or pci or f"gpu-{number}")[:120]
    processes, known = _processes(session, handle, device)
    values = _values(session, handle)
    values["processes"] = present(len(processes)) if known else unknown("not_told")
    name = plain_text(session.ask(pynvml.nvmlDeviceGetName, handle)).value
    return GpuSample(device, number, pci, name, values, processes, known)


def _values(session: NvmlSession, handle: Any) -> dict[str, Fact[int]]:
    def ask(call: Callable[..., Any], *more: Any) -> Fact[Any]:
        return session.ask(call, handle, *more)

    rates = ask(pynvml.nvmlDeviceGetUtilizationRates)
    memory = session.ask_either(_memory, pynvml.nvmlDeviceGetMemoryInfo, handle)
    rows = ask(pynvml.nvmlDeviceGetRemappedRows)
    values: dict[str, Fact[Any]] = {
        "gpu_utilisation": rates.map(lambda found: found.gpu),
        "memory_utilisation": rates.map(lambda found: found.memory),
        "encoder_utilisation": ask(pynvml.nvmlDeviceGetEncoderUtilization).map(lambda two: two[0]),
        "decoder_utilisation": ask(pynvml.nvmlDeviceGetDecoderUtilization).map(lambda two: two[0]),
        "memory_used": memory.map(lambda found: found.used),
        "memory_free": memory.map(lambda found: found.free),
        "memory_reserved": _reserved(memory),
        "sm_clock": ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        "memory_clock": ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
        "temperature": ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        "memory_temperature": field_value(session, handle, _MEMORY_TEMPERATURE),
        "power": ask(pynvml.nvmlDeviceGetPowerUsage),
        "energy": ask(pynvml.nvmlDeviceGetTotalEnergyConsumption),
        "throttle_reasons": session.ask_either(
            pynvml.nvmlDeviceGetCurrentClocksEventReasons,
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
            handle,
        ),
        "ecc_corrected": ask(pynvml.nvmlDeviceGetTotalEccErrors, 0, 0),
        "ecc_uncorrected": ask(pynvml.nvmlDeviceGetTotalEccErrors, 1, 0),
        "remapped_rows_correctable": rows.map(lambda four: four[0]),
        "remapped_rows_uncorrectable": rows.map(lambda four: four[1]),
        "row_remap_failure": rows.map(lambda four: four[3]),
        "pcie_replays": ask(pynvml.nvmlDeviceGetPcieReplayCounter),
        "pcie_tx": _scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, 0), _KILO),
        "pcie_rx": _scaled(ask(pynvml.nvmlDeviceGetPcieThroughput, 1), _KILO),
        "nvlink_tx": _scaled(field_value(session, handle, _LINK_TX, _ALL_LINKS), _KIBI),
        "nvlink_rx": _scaled(field_value(session, handle, _LINK_RX, _ALL_LINKS), _KIBI),
    }
    values |= {name: field_value(session, handle, at) for name, at in _LINK_ERRORS.items()}
    return {name: fact.map(int) for name, fact in values.items()}


def _memory(handle: Any) -> Any:
    return pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)


def _reserved(memory: Fact[Any]) -> Fact[int]:
    """What the driver keeps for itself; before R510 it was counted as used, and not told."""
    if memory.value is not None and not hasattr(memory.value, "reserved"):
        return unknown("not_told")
    return memory.map(lambda found: int(found.reserved))


def _scaled(fact: Fact[int], by: int) -> Fact[int]:
    """In plain bytes; a sentinel stays one and must not become a plausible number."""
    return unknown("sentinel") if fact.value in SENTINELS else fact.map(lambda value: value * by)


def _processes(
    session: NvmlSession, handle: Any, device: str
) -> tuple[tuple[GpuProcess, ...], bool]:
    """Processes of the host on a GPU, and whether the driver tells them at all."""
    found: dict[int, GpuProcess] = {}
    known = True
    for call in (
        pynvml.nvmlDeviceGetComputeRunningProcesses,
        pynvml.nvmlDeviceGetGraphicsRunningProcesses,
    ):
        asked: Fact[Any] = session.ask(call, handle)
        known = known and (asked.value is not None or asked.presence == absent("").presence)
        for process in asked.value or []:
            used = process.usedGpuMemory
            memory = int(used) if used is not None and 0 < int(used) < 2**50 else None
            found[int(process.pid)] = GpuProcess(device, int(process.pid), memory)
    return tuple(found.values()), known


_NAMES = (
    "gpu_utilisation",
    "memory_utilisation",
    "memory_used",
    "memory_free",
    "sm_clock",
    "memory_clock",
    "temperature",
    "power",
    "energy",
    "throttle_reasons",
    "ecc_corrected",
    "ecc_uncorrected",
    "processes",
)
