"""Of which sizes are the hosts of a real fleet?  Read from an inventory's file."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.names import SIZES

COLUMN: Final = "gpu_capacity_num"


class FleetError(ValueError):
    """An inventory cannot be used, and why."""


def hosts_by_size(path: Path) -> Counter[int]:
    """How many hosts have so many GPUs. Raises FleetError, and OSError."""
    found: Counter[int] = Counter()
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if COLUMN not in (rows.fieldnames or ()):
            raise FleetError(f"{path.name} has no column {COLUMN}")
        for row in rows:
            text = row[COLUMN] or ""
            if not text.isdecimal() or int(text) not in SIZES:
                sizes = ", ".join(map(str, SIZES))
                raise FleetError(
                    f"{path.name}, line {rows.line_num}: {COLUMN} is {text!r}, none of {sizes}"
                )
            found[int(text)] += 1
    if not found:
        raise FleetError(f"{path.name} has no host")
    return found


def shared_out(hosts: Counter[int], nodes: int) -> dict[int, int]:
    """So many nodes in the proportions of a fleet, at least one of each size it has."""
    total = hosts.total()
    return {size: max(1, nodes * count // total) for size, count in sorted(hosts.items())}
