"""How does Prometheus read the last look?  In its text format, with the vendors' exporters' names.

NVIDIA's GPUs are called as the DCGM exporter calls them, AMD's as AMD's device metrics exporter. An
invalid reading is left out; it is never a zero. Labels are those of the DCGM exporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nodeagent.host.facts import Fact
from nodeagent.host.telemetry.amd import SHOWN as AMD_SHOWN
from nodeagent.host.telemetry.amd import VENDOR as AMD
from nodeagent.host.telemetry.gpu import GpuSample
from nodeagent.host.telemetry.sampler import Latest
from nodeagent.telemetry.metrics import GPU_METRICS, HOST_METRICS, Kind, Metric, invalid

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(latest: Latest, hostname: str, now: float) -> str:
    """The whole page."""
    lines: list[str] = []
    labels = {gpu.device: _labels(gpu, hostname, latest.driver) for gpu in latest.gpus}
    for vendor, metric in _gpu_families():
        rows = [
            (labels[gpu.device], gpu.values.get(metric.name))
            for gpu in latest.gpus
            if vendor in ("", gpu.vendor)
        ]
        lines += _family(metric, rows)
    for metric in HOST_METRICS:
        lines += _family(metric, [(_text({"hostname": hostname}), latest.machine.get(metric.name))])
    lines += _xids(latest, labels, hostname)
    lines += _age(latest, hostname, now)
    return "\n".join(lines) + "\n"


def _gpu_families() -> Iterator[tuple[str, Metric]]:
    """Each metric of GPUs as its vendor's exporter calls it; ours are every vendor's."""
    for metric in GPU_METRICS:
        if metric.shown.startswith("gpuaas_"):
            yield "", metric
            continue
        yield "nvidia", metric
        if metric.name in AMD_SHOWN:
            shown, scale = AMD_SHOWN[metric.name]
            yield AMD, replace(metric, shown=shown, scale=scale)


def _family(metric: Metric, rows: list[tuple[str, Fact[int] | None]]) -> Iterator[str]:
    shown = [
        (labels, fact.value)
        for labels, fact in rows
        if fact is not None and fact.value is not None and not invalid(metric, fact.value)
    ]
    if not shown:
        return
    unit = metric.unit.replace("_", " ")
    kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
    yield f"# HELP {metric.shown} {metric.name.replace('_', ' ')} (from {unit})."
    yield f"# TYPE {metric.shown} {kind}"
    for labels, value in shown:
        number = value if metric.scale == 1 else f"{value / metric.scale:.3f}"
        yield f"{metric.shown}{labels} {number}"


def _xids(latest: Latest, labels: dict[str, str], hostname: str) -> Iterator[str]:
    if not latest.xids:
        return
    yield "# HELP DCGM_FI_DEV_XID_ERRORS The last XID of the device."
    yield "# TYPE DCGM_FI_DEV_XID_ERRORS gauge"
    for device, xid in latest.last_xid.items():
        unknown = _text({"UUID": device or "", "hostname": hostname})
        yield f"DCGM_FI_DEV_XID_ERRORS{labels.get(device or '', unknown)} {xid}"
    yield "# HELP DCGM_EXP_XID_ERRORS_COUNT XIDs of the device since the agent's start."
    yield "# TYPE DCGM_EXP_XID_ERRORS_COUNT counter"
    for (device, xid), count in latest.xids.items():
        names = {"UUID": device or "", "xid": str(xid), "hostname": hostname}
        yield f"DCGM_EXP_XID_ERRORS_COUNT{_text(names)} {count}"


def _age(latest: Latest, hostname: str, now: float) -> Iterator[str]:
    up = int(not latest.unavailable and latest.at is not None)
    labels = _text({"hostname": hostname, "reason": latest.unavailable or "none"})
    yield "# HELP gpuaas_agent_nvml_up Whether NVML could be asked at the last look."
    yield "# TYPE gpuaas_agent_nvml_up gauge"
    yield f"gpuaas_agent_nvml_up{labels} {up}"
    if latest.at is not None:
        yield "# HELP gpuaas_agent_telemetry_age_seconds How old the last look is."
        yield "# TYPE gpuaas_agent_telemetry_age_seconds gauge"
        age = max(0.0, now - latest.at)
        yield f"gpuaas_agent_telemetry_age_seconds{_text({'hostname': hostname})} {age:.3f}"


def _labels(gpu: GpuSample, hostname: str, driver: str | None) -> str:
    if gpu.vendor == AMD:
        names = {"gpu": str(gpu.number), "UUID": gpu.device, "pci_bus_id": gpu.pci or ""}
        return _text(names | {"modelName": gpu.name or "", "hostname": hostname})
    return _text(
        {
            "gpu": str(gpu.number),
            "UUID": gpu.device,
            "pci_bus_id": gpu.pci or "",
            "device": f"nvidia{gpu.number}",
            "modelName": gpu.name or "",
            "hostname": hostname,
            "DCGM_FI_DRIVER_VERSION": driver or "",
        }
    )


def _text(labels: dict[str, str]) -> str:
    parts = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{parts}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
