"""How long do leases of each SKU take, from the request to a machine and back to free slots?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.kernel import measuring
from gpuaas.kernel.families import quantile
from placement.measures import PHASES, UNTIL_ACTIVE


@dataclass(frozen=True, slots=True)
class Took:
    """How often a phase was over, and in how many seconds half and nineteen of twenty were.

    Both are read from classes: right to within the class in which they lie.
    """

    count: int
    half_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class SkuPhases:
    """The phases of a SKU's leases that were over at least once, by name."""

    sku: str
    shape: str
    phases: Mapping[str, Took]

    @property
    def handed_over(self) -> int:
        """How many leases became active."""
        took = self.phases.get(UNTIL_ACTIVE)
        return took.count if took else 0


def phases_by_sku() -> list[SkuPhases]:
    """Every SKU of which a lease was counted, by name: as long as there are SKUs."""
    found: dict[tuple[str, str], dict[str, Took]] = {}
    for (_, (shape, phase, sku)), series in sorted(measuring.totals(PHASES).items()):
        half = quantile(PHASES.bounds, series.classes, 0.5)
        most = quantile(PHASES.bounds, series.classes, 0.95)
        if half is not None and most is not None:
            found.setdefault((sku, shape), {})[phase] = Took(series.count, half, most)
    return [SkuPhases(sku, shape, phases) for (sku, shape), phases in sorted(found.items())]
