"""How are a host's measurements read at a glance?  A number with its unit, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Metric, heading, and how its last value is written: divided by, decimals, unit.
COLUMNS = (
    ("gpu_utilisation", "Busy", 1, 0, "%"),
    ("memory_used", "Memory used", 2**30, 1, "GiB"),
    ("temperature", "Temperature", 1, 0, "°C"),
    ("power", "Power", 1000, 0, "W"),
    ("ecc_uncorrected", "Uncorrected ECC", 1, 0, ""),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One GPU's row: its slot, if it has one, and one text a column."""

    device: str
    slot_index: int | None
    cells: tuple[str, ...]


def measured(telemetry: dict[str, Any]) -> list[Measured]:
    """The GPUs of the last window, by slot."""
    rows = [
        Measured(
            one["device"],
            one["slot_index"],
            tuple(_cell({s["metric"]: s for s in one["series"]}, *column) for column in COLUMNS),
        )
        for one in telemetry["devices"]
        if one["device"] is not None
    ]
    return sorted(rows, key=lambda row: (row.slot_index is None, row.slot_index, row.device))


def _cell(
    series: dict[str, Any], metric: str, _head: str, by: int, decimals: int, unit: str
) -> str:
    found = series.get(metric)
    if found is None:
        return "not measured"
    if found["last"] is None:
        return f"unknown: {str(found['reason']).replace('_', ' ')}"
    return f"{found['last'] / by:.{decimals}f} {unit}".strip()
