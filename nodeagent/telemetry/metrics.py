"""Which metrics are there, in which unit, within which range, and what does DCGM call them?

A sample outside its range is invalid, never clamped. Names of the exposition are those of NVIDIA's
DCGM exporter (etc/default-counters.csv and dcp-metrics-included.csv), so that dashboards made for
it work; what it has no name for is called gpuaas_….
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """How samples of a metric are put together."""

    GAUGE = "gauge"
    COUNTER = "counter"
    BITS = "bits"


@dataclass(frozen=True)
class Metric:
    """One metric. shown: its name in the exposition; the number there is the value / scale."""

    name: str
    unit: str
    kind: Kind
    least: int
    most: int
    shown: str
    scale: int = 1
    help: str = ""


_MEBI, _BIG = 2**20, 2**62
GPU_METRICS = (
    Metric("gpu_utilisation", "percent", Kind.GAUGE, 0, 100, "DCGM_FI_DEV_GPU_UTIL"),
    Metric("memory_utilisation", "percent", Kind.GAUGE, 0, 100, "DCGM_FI_DEV_MEM_COPY_UTIL"),
    Metric("encoder_utilisation", "percent", Kind.GAUGE, 0, 100, "DCGM_FI_DEV_ENC_UTIL"),
    Metric("decoder_utilisation", "percent", Kind.GAUGE, 0, 100, "DCGM_FI_DEV_DEC_UTIL"),
    Metric("memory_used", "bytes", Kind.GAUGE, 0, 2**50, "DCGM_FI_DEV_FB_USED", _MEBI),
    Metric("memory_free", "bytes", Kind.GAUGE, 0, 2**50, "DCGM_FI_DEV_FB_FREE", _MEBI),
    Metric("memory_reserved", "bytes", Kind.GAUGE, 0, 2**50, "DCGM_FI_DEV_FB_RESERVED", _MEBI),
    Metric("sm_clock", "megahertz", Kind.GAUGE, 0, 20_000, "DCGM_FI_DEV_SM_CLOCK"),
    Metric("memory_clock", "megahertz", Kind.GAUGE, 0, 50_000, "DCGM_FI_DEV_MEM_CLOCK"),
    Metric("temperature", "celsius", Kind.GAUGE, 0, 150, "DCGM_FI_DEV_GPU_TEMP"),
    Metric("memory_temperature", "celsius", Kind.GAUGE, 1, 150, "DCGM_FI_DEV_MEMORY_TEMP"),
    Metric("power", "milliwatts", Kind.GAUGE, 0, 5_000_000, "DCGM_FI_DEV_POWER_USAGE", 1000),
    Metric("energy", "millijoules", Kind.COUNTER, 0, _BIG, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
    Metric("throttle_reasons", "bits", Kind.BITS, 0, 0xFFFF, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
    Metric("ecc_corrected", "count", Kind.COUNTER, 0, _BIG, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
    Metric("ecc_uncorrected", "count", Kind.COUNTER, 0, _BIG, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
    Metric("remapped_rows_correctable", "count", Kind.GAUGE, 0, 2**31 - 2,
           "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
    Metric("remapped_rows_uncorrectable", "count", Kind.GAUGE, 0, 2**31 - 2,
           "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
    Metric("row_remap_failure", "count", Kind.GAUGE, 0, 1, "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
    Metric("pcie_replays", "count", Kind.COUNTER, 0, _BIG, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    Metric("pcie_tx", "bytes_per_second", Kind.GAUGE, 0, 2**42, "DCGM_FI_PROF_PCIE_TX_BYTES"),
    Metric("pcie_rx", "bytes_per_second", Kind.GAUGE, 0, 2**42, "DCGM_FI_PROF_PCIE_RX_BYTES"),
    Metric("nvlink_tx", "bytes", Kind.COUNTER, 0, _BIG, "gpuaas_gpu_nvlink_tx_bytes_total"),
    Metric("nvlink_rx", "bytes", Kind.COUNTER, 0, _BIG, "gpuaas_gpu_nvlink_rx_bytes_total"),
    Metric("nvlink_crc_flit_errors", "count", Kind.COUNTER, 0, _BIG,
           "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    Metric("nvlink_crc_data_errors", "count", Kind.COUNTER, 0, _BIG,
           "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
    Metric("nvlink_replay_errors", "count", Kind.COUNTER, 0, _BIG,
           "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    Metric("nvlink_recovery_errors", "count", Kind.COUNTER, 0, _BIG,
           "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
    Metric("processes", "count", Kind.GAUGE, 0, 1_000_000, "gpuaas_gpu_processes"),
)  # fmt: skip
HOST_METRICS = (
    Metric("cpu_utilisation", "percent", Kind.GAUGE, 0, 100,
           "gpuaas_host_cpu_utilization_percent"),
    Metric("host_memory_total", "bytes", Kind.GAUGE, 1, 2**60, "gpuaas_host_memory_total_bytes"),
    Metric("host_memory_available", "bytes", Kind.GAUGE, 0, 2**60,
           "gpuaas_host_memory_available_bytes"),
    Metric("disk_total", "bytes", Kind.GAUGE, 1, 2**62, "gpuaas_host_disk_total_bytes"),
    Metric("disk_free", "bytes", Kind.GAUGE, 0, 2**62, "gpuaas_host_disk_free_bytes"),
)  # fmt: skip
METRICS = MappingProxyType({metric.name: metric for metric in (*GPU_METRICS, *HOST_METRICS)})
# What drivers write where they have no number (NVML_VALUE_NOT_AVAILABLE and its neighbours).
SENTINELS = frozenset({2**32 - 1, 2**64 - 1, 2**31 - 1, 2**63 - 1, -1})


def invalid(metric: Metric, value: int) -> str:
    """Why a value is no sample of a metric; empty when it is one."""
    if value in SENTINELS:
        return "sentinel"
    return "" if metric.least <= value <= metric.most else "out_of_range"
