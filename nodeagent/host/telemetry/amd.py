"""What does AMD's management library say that a GPU is doing now?

The same record as for NVIDIA's, so that nobody downstream has to know whose card it is. What the
library cannot say is unknown with the reason, and never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nodeagent.host.discovery.amd import ask, opened
from nodeagent.host.discovery.bus import read_bus
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.facts import Fact, present, unknown
from nodeagent.host.nvml.device import plain_text
from nodeagent.host.telemetry.gpu import GpuSample
from nodeagent.protocol import GpuProcess
from nodeagent.topology.pci import AMD, DeviceKind, normal_address

VENDOR = "amd"
_MOST_PROCESSES = 1024
_WORDS_FOR_NONE = frozenset({"n/a", "na", "none", ""})
# Names of AMD's device metrics exporter, and by what our unit is divided for its own.
SHOWN = MappingProxyType(
    {
        "gpu_utilisation": ("gpu_gfx_activity", 1),
        "memory_utilisation": ("gpu_umc_activity", 1),
        "memory_used": ("gpu_used_vram", 2**20),
        "memory_free": ("gpu_free_vram", 2**20),
        "temperature": ("gpu_junction_temperature", 1),
        "memory_temperature": ("gpu_memory_temperature", 1),
        "power": ("gpu_package_power", 1000),
        "ecc_corrected": ("gpu_ecc_correct_total", 1),
        "ecc_uncorrected": ("gpu_ecc_uncorrect_total", 1),
    }
)


def has_amd(root: Path) -> bool:
    """Whether one of AMD's GPUs is on the bus: only then is its library asked."""
    bus = read_bus(Tree(root))
    return any(one.kind is DeviceKind.GPU and one.vendor == AMD for one in bus.values())


def sample_amd() -> tuple[list[GpuSample], str]:
    """Every GPU that the library has, each by itself, or why it cannot be asked. Never raises."""
    with opened() as (library, reason):
        if library is None:
            return [], reason
        handles = ask(lambda: list(library.amdsmi_get_processor_handles()))
        if handles.value is None:
            return [], handles.reason
        return [_sample(library, handle, n) for n, handle in enumerate(handles.value)], ""


def _sample(library: Any, handle: Any, number: int) -> GpuSample:
    def told(name: str, *more: Any) -> Fact[Any]:
        # Looked up within: an older library does not have every call.
        return ask(lambda: getattr(library, name)(handle, *more))

    uuid = plain_text(told("amdsmi_get_gpu_device_uuid")).value
    pci = normal_address(str(told("amdsmi_get_gpu_device_bdf").value))
    device = (uuid or pci or f"amd-{number}")[:120]
    name = plain_text(told("amdsmi_get_gpu_asic_info").map(_of("market_name"))).value
    listed = told("amdsmi_get_gpu_process_list")
    processes = _processes(listed.value, device)
    values = _values(library, told)
    values["processes"] = (
        present(len(processes)) if isinstance(listed.value, list) else unknown("not_told")
    )
    known = isinstance(listed.value, list)
    return GpuSample(device, number, pci, name, values, processes, known, vendor=VENDOR)


def _values(library: Any, told: Callable[..., Fact[Any]]) -> dict[str, Fact[int]]:
    activity = told("amdsmi_get_gpu_activity")
    memory = told("amdsmi_get_gpu_vram_usage")
    ecc = told("amdsmi_get_gpu_total_ecc_count")
    total, used = (_number(memory, f"vram_{word}", 2**20) for word in ("total", "used"))
    power = told("amdsmi_get_power_info")
    now = _number(power, "current_socket_power", 1000)
    if now.value is None:
        # Cards before the MI300 tell an average only.
        now = _number(power, "average_socket_power", 1000)
    return {
        "gpu_utilisation": _number(activity, "gfx_activity"),
        "memory_utilisation": _number(activity, "umc_activity"),
        "memory_used": used,
        "memory_free": total.map(lambda size: size - (used.value or 0))
        if used.value is not None
        else used,
        "temperature": _temperature(library, told, "HOTSPOT"),
        "memory_temperature": _temperature(library, told, "VRAM"),
        "power": now,
        "ecc_corrected": _number(ecc, "correctable_count"),
        "ecc_uncorrected": _number(ecc, "uncorrectable_count"),
    }


def _temperature(library: Any, told: Callable[..., Fact[Any]], sensor: str) -> Fact[int]:
    which = ask(
        lambda: (
            getattr(library.AmdSmiTemperatureType, sensor),
            library.AmdSmiTemperatureMetric.CURRENT,
        )
    )
    if which.value is None:
        return unknown(which.reason)
    return _number(told("amdsmi_get_temp_metric", *which.value))


def _of(name: str) -> Callable[[Any], Any]:
    return lambda answer: answer.get(name, "") if isinstance(answer, dict) else ""


def _number(answer: Fact[Any], name: str = "", scale: int = 1) -> Fact[int]:
    """A whole number of an answer, in our unit; words for nothing are no number."""
    if answer.value is None:
        return Fact(answer.presence, None, answer.reason)
    raw = answer.value
    if name:
        if not isinstance(raw, Mapping) or name not in raw:
            return unknown("not_told")
        raw = raw[name]
    if isinstance(raw, str) and raw.strip().lower() in _WORDS_FOR_NONE:
        return unknown("sentinel")
    if isinstance(raw, bool) or not isinstance(raw, int):
        return unknown("unreadable_answer")
    if raw in _ALL_ONES:
        return unknown("sentinel")
    return present(raw * scale)


# What the library hands through where the firmware has no number, by width.
_ALL_ONES = frozenset({2**16 - 1, 2**32 - 1, 2**64 - 1, -1})


def _processes(listed: Any, device: str) -> tuple[GpuProcess, ...]:
    found: dict[int, GpuProcess] = {}
    for one in listed[:_MOST_PROCESSES] if isinstance(listed, list) else ():
        pid = one.get("pid") if isinstance(one, dict) else None
        if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
            continue
        used = one.get("mem")
        known = isinstance(used, int) and not isinstance(used, bool) and 0 < used < 2**50
        found[pid] = GpuProcess(device, pid, used if known else None)
    return tuple(found.values())
